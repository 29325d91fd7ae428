"""`sacctmgr show qos -P`, recorded on Slurm 24.11.5 and 25.11.7."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_triage.case import from_files
from slurm_triage.model import Event, Setting, Unreadable
from slurm_triage.sources import Context
from slurm_triage.sources import sacctmgr_qos as source

TEXT = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|Flags|UsageThres|UsageFactor|GrpTRES|MaxWall|MinTRES
normal|0|00:00:00|||cluster|||1.000000|||
lowg|1|00:00:08|||cancel|||1.000000||1-00:00:00|
highq|100|00:00:00|lowc,lowg,lowq||cluster|||1.000000|||
"""


def events(text: str | bytes) -> list[Event]:
    data = text if isinstance(text, bytes) else text.encode()
    case = from_files({"q": data})
    return list(source.parse(case.files[0], Context(case.clock, case.manifest)))


def values(text: str, owner: str) -> dict[str, str]:
    return {e.key: e.value for e in events(text) if isinstance(e, Setting) and e.owner == owner}


def test_qos() -> None:
    assert values(TEXT, "lowg") == {
        "Priority": "1",
        "GraceTime": "00:00:08",
        "Preempt": "",
        "PreemptMode": "cancel",
        "MaxWall": "1-00:00:00",
    }
    assert values(TEXT, "highq")["Preempt"] == "lowc,lowg,lowq"
    assert values(TEXT, "normal")["MaxWall"] == ""
    for event in events(TEXT):
        assert isinstance(event, Setting) and event.scope == "qos"
        assert event.cite.text.startswith(f"{event.owner}|")
        assert event.cite.text == TEXT.splitlines()[event.cite.line - 1]


def test_delimiter_at_the_end() -> None:
    parsable = "\n".join(f"{line}|" for line in TEXT.splitlines())
    assert values(parsable, "lowg") == values(TEXT, "lowg")


def test_a_column_that_was_not_asked_for_is_absent() -> None:
    assert values("Name|GraceTime|PreemptMode\nlow|00:00:08|cancel\n", "low") == {
        "GraceTime": "00:00:08",
        "PreemptMode": "cancel",
    }


def test_bad_line_does_not_stop_the_others() -> None:
    lines = TEXT.splitlines()
    found = events("\n".join([lines[0], "odd|1|00:00:09", *lines[1:]]))
    (bad,) = [e for e in found if isinstance(e, Unreadable)]
    assert bad.cite.line == 2
    assert not any(isinstance(e, Setting) and e.owner == "odd" for e in found)
    assert any(isinstance(e, Setting) and e.owner == "highq" for e in found)


def test_recognise() -> None:
    assert source.recognise("sacctmgr-qos.psv", TEXT.splitlines()) == 1.0
    assert source.recognise("x", ["Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"]) == 0.0
    assert source.recognise("x", ["JobIDRaw|JobID|State|ExitCode|Priority"]) == 0.0
    assert source.recognise("job.out", TEXT.splitlines()) <= 0.3


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([*TEXT.splitlines(True), "|", "\0"])).map(lambda p: "".join(p).encode())
)
@settings(max_examples=100, deadline=None)
def test_never_raises(data: bytes) -> None:
    source.recognise("x", data.decode("utf-8", "replace").split("\n"))
    for event in events(data):
        assert isinstance(event, (Setting, Unreadable))


def test_long_line() -> None:
    found = events(TEXT.splitlines()[0] + "\n" + "|" * (1 << 20) + "\0")
    assert [type(e) for e in found] == [Unreadable]
