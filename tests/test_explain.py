"""What words mean: the facts that people look for, ambiguity said, nothing invented, safe on a terminal."""

from __future__ import annotations

import json
import time

import pytest

from slurm_triage import cli
from slurm_triage.causes import all_causes
from slurm_triage.explain import COLUMNS, ask, document, lookup, render, suggest
from slurm_triage.knowledge import rows, table
from slurm_triage.rules import all_rules
from slurm_triage.signals import NAMES
from slurm_triage.sources._catalog import folders, load


def said(*words: str) -> str:
    entries, unknown = ask(words)
    assert not unknown
    return " ".join(render(entries).split())


@pytest.mark.parametrize(
    ("words", "must"),
    [
        (["137"], ["SIGKILL", "up to 25.05 shown as 9:0", "does not say by whom"]),
        (["143"], ["SIGTERM", "15:0"]),
        (["139"], ["SIGSEGV", "segmentation fault"]),
        (["127"], ["command not found", "255"]),
        (["126"], ["cannot be executed"]),
        (["-9"], ["Python's subprocess", "SIGKILL"]),
        (["-11"], ["SIGSEGV"]),
        (["9:0"], ["exit code 9, or 137", "subtracts 128"]),
        (["137:0"], ["rc 137"]),
        (["0:9"], ["SIGKILL"]),
        (["0:125"], ["out-of-memory", "SIG_OOM"]),
        (["0:53"], ["not a signal", "4021", "ESLURMD_IO_ERROR"]),
        (["0:0"], ["says nothing"]),
        (["35072"], ["wait status", "exit code 137"]),
        (["139"], ["11:0"]),
        (["SIGBUS"], ["signal 7", "/dev/shm", "135:0"]),
        (["bus"], ["SIGBUS"]),
        (["Bus", "error"], ["SIGBUS"]),
        (["PREEMPTED"], ["preempted (cause)", "PREEMPTED (state)"]),
        (["PR"], ["PREEMPTED (state)"]),
        (["OUT_OF_MEMORY"], ["memcg_oom", "global_oom"]),
        (["CANCELLED", "by", "1000"], ["CANCELLED (state)"]),
        (["CANCELLED+"], ["CANCELLED (state)"]),
        (["CONSTRAINT_NONE"], ["global_oom", "node as a whole"]),
        (["CONSTRAINT_MEMCG"], ["memcg_oom"]),
        (["KillWait"], ["Default 30", "SIGKILL"]),
        (["gracetime"], ["not killed at once"]),
        (["RaisedSignal:53(Real-time_signal_19)"], ["no signal"]),
        (["xid", "79"], ["fell off the bus", "What the vendor advises", "How this project reads it", "hardware"]),
        (["Xid", "48"], ["ECC", "reset the GPU"]),
        (["xid79"], ["Xid 79"]),
        (["sxid", "12028"], ["Fabric Manager guide: non fatal", "NPORT_EGRESS_PRIVRSPERR"]),
        (["slurm_time_limit"], ["DUE TO TIME LIMIT", "voice: slurm"]),
        (["memcg_oom"], ["What happened", "Who acts", "What to do", "What this is not", "memcg_oom_child_only"]),
        (["memcg_oom_child_only"], ["Refines: memcg_oom"]),
    ],
)
def test_says_what_people_look_for(words: list[str], must: list[str]) -> None:
    text = said(*words)
    for part in must:
        assert part.lower() in text.lower()


def test_a_number_that_means_two_things_says_both() -> None:
    assert {entry.kind for entry in lookup("7")} == {"exit code", "signal"}
    assert {entry.kind for entry in lookup("137")} == {"exit code"}


@pytest.mark.parametrize(
    ("words", "must_not"),
    [
        (["137"], "out of memory."),  # an OOM kill is one possibility of several
        (["0:53"], "died of signal 53"),
        (["9:0"], "died of SIGKILL"),
        (["GraceTime"], "immediate"),
    ],
)
def test_does_not_say_more_than_is_known(words: list[str], must_not: str) -> None:
    assert must_not.lower() not in said(*words).lower()


def test_every_cause_with_its_rule() -> None:
    ruled = {rule.cause for rule in all_rules()}
    for cause in all_causes():
        (entry,) = (e for e in lookup(cause) if e.kind == "cause")
        headings = {heading for heading, _ in entry.parts}
        if cause in ruled:
            assert {"What happened", "Who acts", "What to do"} <= headings, cause


def test_every_signal_signature_state_and_number_is_known() -> None:
    words = [*NAMES.values(), *(s.id for folder in folders() for s in load(folder).signatures)]
    words += [state["name"] for state in table("slurm_states")["state"]]
    words += [f"xid {row['xid']}" for row in rows("nvidia_xid")] + [
        f"sxid {row['sxid']}" for row in rows("nvidia_sxid")
    ]
    words += [str(code) for code in range(256)] + [f"0:{signal}" for signal in range(1, 65)]
    for word in words:
        entries = lookup(word)
        assert entries, word
        for line in render(entries).splitlines():
            assert len(line) <= COLUMNS and line.isascii() and (line.isprintable() or not line), (word, line)


def test_tables_are_dated_sourced_and_without_gaps() -> None:
    assert len(rows("nvidia_xid")) == 176 and len({row["xid"] for row in rows("nvidia_xid")}) == 176
    assert len(rows("nvidia_sxid")) == 400
    assert all(row["meaning"] and row["source"] for name in ("nvidia_xid", "nvidia_sxid") for row in rows(name))
    nvidia = table("nvidia")
    for row in rows("nvidia_xid"):
        assert row["advice"] in nvidia["advice"] and row["job_effect"] in nvidia["job_effect"], row["xid"]
    assert all(row["severity"] in nvidia["severity"] for row in rows("nvidia_sxid"))
    for name in ("exit_codes", "slurm_states", "terms", "nvidia"):
        assert table(name)["since"].startswith("2026-")
    terms = {name: entry for name, entry in table("terms").items() if isinstance(entry, dict)}
    assert all(entry["source"] for entry in terms.values())
    assert {cause for entry in terms.values() for cause in entry.get("cause", ())} <= set(all_causes())


def test_what_leads_on_is_known() -> None:
    for cause in all_causes():
        for entry in lookup(cause):
            assert all(lookup(word) for word in entry.see)
    for state in table("slurm_states")["state"]:
        for entry in lookup(state["name"]):
            assert all(lookup(word) for word in entry.see)


@pytest.mark.parametrize(
    ("word", "near"),
    [("memcgoom", "memcg_oom"), ("SIGBUSS", "SIGBUS"), ("preemted", "PREEMPTED"), ("killwaits", "KillWait")],
)
def test_unknown_words_get_the_nearest(word: str, near: str) -> None:
    assert not lookup(word)
    assert near in suggest(word) or near.lower() in suggest(word)


@pytest.mark.parametrize(
    "word", ["", " ", "0:999999", "-0", "-65", "99999999", "xid", "xid 0", "xid 99999", "\x1b[31m", "²"]
)
def test_what_is_not_known_is_not_made_up(word: str) -> None:
    assert not lookup(word)


def test_odd_and_long_words() -> None:
    started = time.monotonic()
    for word in ("a" * 2**20, "1" * 2**20, "\x00\x1b]0;x\x07", "(" * 5000, "é" * 1000, "xid " * 10000):
        ask([word])
        suggest(word)
    assert time.monotonic() - started < 20


def test_document_is_json() -> None:
    entries, unknown = ask(["137", "xid", "79", "nonsense"])
    found = json.loads(json.dumps(document(entries, unknown)))
    assert found["schema"] == "slurm-triage/explanation/1"
    assert [e["name"] for e in found["entries"]] == ["137", "Xid 79"]
    assert [u["word"] for u in found["unknown"]] == ["nonsense"]


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "-9"]) == 0
    assert "SIGKILL" in capsys.readouterr().out
    assert cli.main(["explain", "xid", "79", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"][0]["kind"] == "Xid"
    assert cli.main(["explain", "memcgoom\x1b[31m"]) == 2
    out = capsys.readouterr()
    assert "\x1b" not in out.err and "not known" in out.err and not out.out
    assert cli.main(["explain", "137", "wibblewobble"]) == 2
    out = capsys.readouterr()
    assert "137 (exit code)" in out.out and "wibblewobble" in out.err
