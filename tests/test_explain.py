"""What words mean: the facts that people look for, ambiguity said, nothing invented, safe on a terminal."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from slurm_triage import cli, rules
from slurm_triage.causes import ARRAY_MIXED, UNKNOWN, all_causes
from slurm_triage.explain import COLUMNS, PAGES, REQUIRED, Entry, ask, document, lookup, render, suggest
from slurm_triage.explain._entry import NATURE
from slurm_triage.explain._prose import parts
from slurm_triage.explain.show import shell_lines
from slurm_triage.knowledge import rows, table
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
    assert {entry.kind for entry in lookup("nvlink_error")} == {"cause", "Xid"}, "the driver's name of Xid 74"


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


def by_name(entry: Entry) -> str:
    return f"{entry.kind} {entry.name}"


def test_pages_are_there_for_everything() -> None:
    names = {kind: [entry.name for entry in pages()] for kind, pages in PAGES.items()}
    assert names["cause"] == sorted(all_causes())
    assert names["Xid"] == [f"Xid {row['xid']}" for row in rows("nvidia_xid")]
    assert names["SXid"] == [f"SXid {row['sxid']}" for row in rows("nvidia_sxid")]
    assert names["state"] == [state["name"] for state in table("slurm_states")["state"]]
    assert names["signal"] == list(NAMES.values())
    assert {"1", "126", "127", "132", "134", "135", "137", "139", "143", "255", "0:53", "0:125"} <= set(
        names["exit code"]
    )


@pytest.mark.parametrize("kind", PAGES)
def test_every_page_has_its_parts(kind: str) -> None:
    """A cause is one rule file and one entry of causes.toml: what is missing there is missing here."""
    for entry in PAGES[kind]():
        lacks = [heading for heading in REQUIRED if not (part := entry.part(heading)) or len(part.text) < 5]
        assert not lacks, f"{by_name(entry)}: no part {', '.join(lacks)}"
        assert entry.parts[0].heading == "" and len(entry.parts[0].text) > 5, f"{by_name(entry)}: no meaning"
        first = entry.part("First check")
        assert first and first.commands, f"{by_name(entry)}: no command for the first check"
        assert entry.nature, f"{by_name(entry)}: {NATURE} has to begin with hardware, software, either or neither"
        assert entry.sources, f"{by_name(entry)}: no source"
        assert any(source.startswith("https://") for source in entry.sources), f"{by_name(entry)}: no source to read"


def test_every_cause_says_what_to_do() -> None:
    for entry in PAGES["cause"]():
        assert entry.part("What to do"), entry.name
        if entry.name not in (ARRAY_MIXED, UNKNOWN):
            assert entry.part("What happened"), entry.name


@pytest.mark.parametrize("kind", PAGES)
def test_what_to_check_next_is_known(kind: str) -> None:
    """Ids in backticks are causes, and a page does not send its reader back to itself."""
    for entry in PAGES[kind]():
        part = entry.part("Check next")
        assert part
        named = re.findall(r"`([a-z][a-z0-9_]+)`", part.text)
        assert set(named) <= set(all_causes()), by_name(entry)
        assert entry.name not in named, by_name(entry)
        if kind == "cause" and entry.name != ARRAY_MIXED:
            assert named, entry.name


@pytest.mark.parametrize("kind", PAGES)
def test_commands_can_be_pasted(kind: str) -> None:
    """bash parses each, as it stands and as it is shown; a line is not longer than the screen."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    commands = sorted({command for entry in PAGES[kind]() for part in entry.parts for command in part.commands})
    for command in commands:
        assert "  " not in command.strip() and command == command.strip(), command
    shown = ["\n".join(shell_lines(command, COLUMNS - 4)) for command in commands]
    assert [line for text in shown for line in text.splitlines() if len(line) > COLUMNS - 4] == []
    for script in ("\n".join(commands), "\n".join(shown)):
        done = subprocess.run([bash, "-n"], input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "printf '%s|' one 'two  words' \"three $HOME\" --long-option=with,a,list --another-option=with,a,longer,list end",
        "bash -c 'echo one; echo two; printf %s three | cat; echo a rather long last command of this script'",
    ],
)
def test_a_broken_command_means_the_same(command: str) -> None:
    broken = "\n".join(shell_lines(command, 40))
    assert "\n" in broken
    whole, parts = (
        subprocess.run(["bash", "-c", script], text=True, capture_output=True, check=True).stdout
        for script in (command, broken)
    )
    assert whole == parts and whole


def test_a_command_with_an_open_quote_stays_whole() -> None:
    command = "echo it's a command of a site that nobody closed " + "word " * 30
    assert shell_lines(command, 40) == [command]


def test_hardware_is_named_only_where_hardware_speaks() -> None:
    natures = {entry.name: entry.nature for entry in PAGES["cause"]()}
    hardware = {cause for cause, nature in natures.items() if nature == "hardware"}
    assert {"gpu_fallen_off_bus", "gpu_ecc_uncorrectable", "memory_ecc_uncorrected", "pcie_error"} <= hardware
    assert not hardware & {
        "app_segfault",
        "illegal_instruction",
        "bus_error_io",
        "gpu_app_fault",
        "gpu_oom",
        "node_fail",
    }
    assert {entry.nature for entry in PAGES["signal"]()} <= {"software", "either", "neither"}, "a signal is no proof"


def test_what_the_rule_says_of_hardware_fits_its_page() -> None:
    """A rule that may blame hardware has a page that says when."""
    for path in sorted((Path(rules.__file__).parent).glob("[a-z]*.py")):
        if "Owner.HARDWARE" in path.read_text("utf-8"):
            (entry,) = (e for e in lookup(path.stem) if e.kind == "cause")
            assert entry.nature in ("hardware", "either"), path.stem


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("gpu_fallen_off_bus", "gpu_fallen_off_bus (cause): a GPU was lost from the bus. Hardware."),
        ("memcg_oom", "memcg_oom (cause): killed at a memory limit. Software."),
        ("app_segfault", "app_segfault (cause): segmentation fault. Software, in nearly all cases."),
        ("pcie_error", "pcie_error (cause): PCIe errors of a device. Hardware, if uncorrected."),
        ("network_link", "network_link (cause): network link error. Hardware or software."),
        ("node_fail", "node_fail (cause): Slurm lost a node. Hardware or software."),
        ("preempted", "preempted (cause): preempted for another job"),
    ],
)
def test_first_line_is_a_verdict(word: str, first: str) -> None:
    assert render(lookup(word)).splitlines()[0] == first


def test_vendor_and_project_stand_apart() -> None:
    for kind, heading in (("Xid", "What the vendor advises"), ("SXid", "What the vendor says")):
        for entry in PAGES[kind]():
            assert entry.part(heading) and entry.part("How this project reads it"), entry.name
            assert all(source.count("(") == source.count(")") for source in entry.sources), entry.name
    vendor = table("nvidia_pages")["vendor"]
    for row in rows("nvidia_xid"):
        assert {row["nvidia_immediate"], row["nvidia_investigatory"]} - {""} <= set(vendor), row["xid"]


def test_a_number_leads_to_the_cause_that_the_rules_give_it() -> None:
    for kind in ("Xid", "SXid"):
        causes = {f"{kind} {row[kind.lower()]}": row["cause"] for row in rows(f"nvidia_{kind.lower()}")}
        for entry in PAGES[kind]():
            part = entry.part("Check next")
            assert part and (not causes[entry.name] or f"`{causes[entry.name]}`" in part.text), entry.name


def test_a_number_is_called_hardware_only_where_nothing_else_is_likely() -> None:
    by_number = {f"Xid {row['xid']}": row for row in rows("nvidia_xid")}
    named = {entry.name: entry for entry in PAGES["Xid"]() if entry.nature == "hardware"}
    assert {"Xid 48", "Xid 79", "Xid 95"} <= set(named)
    for name, entry in named.items():
        row, acts = by_number[name], entry.part("Who acts")
        assert row["likely_owner"] in ("hardware", "thermal/power"), name
        assert not row["second_owner"] or name == "Xid 79" or row["role"] == "none", name
        assert acts and not (row["role"] == "none" and acts.text.startswith("Hardware")), (
            "no node is to be repaired for it"
        )


@pytest.mark.parametrize(("number", "first"), [("43", "13, 31"), ("45", "79"), ("154", "another Xid"), ("63", "48")])
def test_an_echo_names_what_it_follows(number: str, first: str) -> None:
    (entry,) = lookup(f"xid {number}")
    echo = entry.part("Echo of another")
    assert echo and first in echo.text
    assert all(lookup(word) for word in entry.see)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (9, ["0:9", "137:0", "9:0", "Killed", "-9", "137"]),
        (7, ["0:7", "135:0", "Bus error", "-7"]),
        (11, ["139", "-11"]),
    ],
)
def test_a_signal_says_how_it_is_printed(number: int, shown: list[str]) -> None:
    (entry,) = (e for e in lookup(NAMES[number]) if e.kind == "signal")
    how = entry.part("How it shows")
    assert how and all(form in how.text for form in shown)


def test_docstrings_are_read_as_pages() -> None:
    told, sources = parts(
        """First.

    First check: a look
    at it.

        one --with \\
            a longer line
        two

    Sources: https://a.example/, https://b.example/x.html
    """.replace(" \\\n", "\n")
    )
    assert [(p.heading, p.text) for p in told] == [("", "First."), ("First check", "A look at it.")]
    assert told[1].commands == ("one --with a longer line", "two")
    assert sources == ("https://a.example/", "https://b.example/x.html")


def test_every_signal_signature_state_and_number_is_known() -> None:
    words = [*NAMES.values(), *(s.id for folder in folders() for s in load(folder).signatures)]
    words += [state["name"] for state in table("slurm_states")["state"]]
    words += [f"xid {row['xid']}" for row in rows("nvidia_xid")] + [
        f"sxid {row['sxid']}" for row in rows("nvidia_sxid")
    ]
    words += [str(code) for code in range(256)] + [f"0:{signal}" for signal in range(1, 65)]
    words += [f"{code}:0" for code in range(1, 300)] + [f"-{signal}" for signal in range(1, 65)]
    words += [*all_causes(), "256", "2304", "32512", "35072", "65535"]
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
    for name in ("exit_codes", "signals", "slurm_states", "terms", "nvidia", "nvidia_pages"):
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
