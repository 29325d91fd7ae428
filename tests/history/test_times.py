from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_triage.history.queries import parse_time, show_time

NOW = 1796050000.0


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("now", NOW),
        ("now-3days", NOW - 3 * 86400),
        ("now-2hours", NOW - 7200),
        ("now-90", NOW - 90),  # seconds are the default unit, as in Slurm
        ("now+1week", NOW + 604800),
        ("NOW-5Minutes", NOW - 300),
        ("3 days ago", NOW - 3 * 86400),
        ("1 hour ago", NOW - 3600),
        ("90mins ago", NOW - 5400),
        ("@123", 123.0),
        ("@123.5", 123.5),
        ("2026-11-30T15:11:18Z", 1796051478.0),
        (" 2026-11-30T15:11:18Z ", 1796051478.0),
        ("2026-11-30 15:11Z", 1796051460.0),
        ("2026-11-30T16:11:18+01:00", 1796051478.0),
        ("2026-11-30T12:41:18-0230", 1796051478.0),
        ("2026-11-30Z", 1795996800.0),
    ],
)
def test_forms(text: str, want: float) -> None:
    assert parse_time(text, NOW) == want


def test_without_zone_it_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-02:00")  # POSIX: two hours east
    import time

    time.tzset()
    try:
        assert parse_time("2026-11-30T15:11:18", NOW) == 1796051478.0 - 7200
        assert parse_time("2026-11-30", NOW) == 1795996800.0 - 7200
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "soon",
            "now-",
            "3 days",
            "ago",
            "@",
            "@-1",
            "@1e9",
            "now-3fortnights",
            "2026-13-01",
            "2026-02-30",
        ),
        *("2026-11-30T24:01", "2026-11-30T10", "0000-01-01", "2026-11-30T10:00+99:00", "٢٠٢٦-11-30", "now-3days ago"),
    ],
)
def test_not_a_time(text: str) -> None:
    with pytest.raises(ValueError, match="no time"):
        parse_time(text, NOW)


@given(st.text(max_size=60) | st.from_regex(r"(now[+-]|@|[0-9]{4}-)[-0-9A-Za-z:. +]{0,40}", fullmatch=True))
def test_any_text_is_a_time_or_a_value_error(text: str) -> None:
    try:
        found = parse_time(text, NOW)
    except ValueError as error:
        assert "no time" in str(error)
    else:
        assert isinstance(found, float)


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
)
def test_written_times_are_read_back(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_time(zoned.isoformat(), NOW) == zoned.timestamp()
    assert parse_time(f"@{int(zoned.timestamp())}", NOW) == zoned.timestamp()
    shown = show_time(zoned.timestamp())
    assert shown is not None
    assert parse_time(shown, NOW) == zoned.timestamp()


@given(st.integers(0, 10**9 - 1), st.sampled_from([("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400)]))
def test_both_relative_forms_agree(count: int, unit: tuple[str, int]) -> None:
    name, seconds = unit
    assert parse_time(f"now-{count}{name}s", NOW) == parse_time(f"{count} {name} ago", NOW) == NOW - count * seconds


def test_long_text_takes_no_time() -> None:
    for text in ("now-" + "9" * 2**20, "2" * 2**20, "1 " + " " * 2**20 + "x", "2026-11-30" + " " * 2**20 + "x"):
        with pytest.raises(ValueError, match="no time"):
            parse_time(text, NOW)


def test_time_that_no_calendar_has() -> None:
    assert show_time(1e20) is None
    assert show_time(None) is None
    assert show_time(None, "2026-11-30T15:11:18") == "2026-11-30T15:11:18"
