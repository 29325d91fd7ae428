"""What a word of the field means: causes, exit codes, signals, states, terms, signatures, NVIDIA's Xid and SXid.

Everything said comes from the rules' docstrings, `causes.toml`, the catalogs of signatures and the tables in
`knowledge/`. One word may mean several things (`7` is a signal and an exit code): then all of them are said.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from typing import Any

from slurm_triage import signals
from slurm_triage.causes import all_causes
from slurm_triage.knowledge import rows, table
from slurm_triage.report import mask
from slurm_triage.rules import all_rules
from slurm_triage.sources._catalog import folders, load

SCHEMA = "slurm-triage/explanation/1"
COLUMNS = 79
WORD_LIMIT = 200
"""Characters of a word that are looked at."""

SHELL_BASE = 128
_SECTION = re.compile(r"(What happened|Who acts|What to do|What this is not):\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Entry:
    """One meaning of a word.

    `kind` is `cause`, `exit code`, `signal`, `state`, `term`, `signature`, `Xid` or `SXid`; `name` the word in its
    standard form; `parts` are (heading, text), the first one without a heading; `see` names words that lead on;
    `sources` say where the facts are from and `since` of when they are (empty where the rule itself is the source).
    """

    kind: str
    name: str
    title: str
    parts: tuple[tuple[str, str], ...]
    see: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: str = ""


# ------------------------------------------------------------------------------------------------ causes


def _cause(word: str) -> Iterator[Entry]:
    cause = all_causes().get(word.lower())
    if cause is None:
        return
    rule = next((r for r in all_rules() if r.cause == cause.id), None)
    finer = tuple(sorted(c.id for c in all_causes().values() if c.refines == cause.id))
    parts = [("", f"{cause.meaning[:1].upper()}{cause.meaning[1:]}.")]
    if rule is not None:
        parts += _sections(rule.doc)
        if rule.supersedes:
            parts.append(("Explains away", ", ".join(rule.supersedes)))
    if cause.refines:
        parts.append(("Refines", f"{cause.refines}: right as well, but wider"))
    if finer:
        parts.append(("Refined by", ", ".join(finer)))
    see = (*((cause.refines,) if cause.refines else ()), *finer)
    yield Entry("cause", cause.id, cause.title, tuple(parts), see)


def _sections(doc: str) -> list[tuple[str, str]]:
    """The paragraphs of a rule's docstring, by their headings; the first one says what the rule is about."""
    found = []
    for paragraph in re.split(r"\n\s*\n", cleandoc(doc)):
        text = " ".join(paragraph.split())
        match = _SECTION.match(text)
        found.append((match[1], text[match.end() :]) if match else ("", text))
    return [(heading, text[:1].upper() + text[1:]) for heading, text in found if text]


# ------------------------------------------------------------------------------------------------ exits


def _exits(word: str) -> Iterator[Entry]:
    if match := re.fullmatch(r"(\d{1,5}):(\d{1,3})", word):
        yield from _pair(int(match[1]), int(match[2]))
    elif re.fullmatch(r"-\d{1,3}", word) and 0 < int(word[1:]) < 65:
        number = int(word[1:])
        notes = table("exit_codes")["notes"]
        text = f"{notes['python']} Here: {signals.name(number)}. {_signal_text(number)}"
        yield _exit(word, f"killed by {signals.name(number)}, as Python's subprocess reports it", text, _see(number))
    elif re.fullmatch(r"\d{1,5}", word):
        number = int(word)
        if number < 256:
            yield from _code(number)
        elif number < 65536:
            yield _wait_status(number)


def _exit(name: str, title: str, text: str, see: tuple[str, ...] = (), more: Sequence[tuple[str, str]] = ()) -> Entry:
    facts = table("exit_codes")
    return Entry("exit code", name, title, (("", text), *more), see, tuple(facts["sources"]), facts["since"])


def _pair(code: int, signal: int) -> Iterator[Entry]:
    facts = table("exit_codes")
    known = str(facts["pair"].get(f"{code}:{signal}", ""))
    more: list[tuple[str, str]] = []
    if signal:
        number = str(signal)
        title = f"signal field {signal}: {signals.meaning(0, signal)}"
        if number in facts["pseudo_signal"]:
            more.append(("Slurm's error", facts["pseudo_signal"][number]))
        else:
            more.append((signals.name(signal), _signal_text(signal) or "no more is known here."))
        see = _see(signal)
    elif 0 < code < SHELL_BASE:
        title = f"exit code {code}, or {code + SHELL_BASE} in sacct's text up to 25.05"
        more = [
            (f"If it is {code}", _code_text(code)),
            (f"If it is {code + SHELL_BASE}", _code_text(code + SHELL_BASE)),
            ("Which of the two", facts["notes"]["minus_128"]),
        ]
        see = _see(code)
    else:
        title = f"exit code {code}" if code < 256 else f"no exit code: {code} is above 255"
        more = [("", _code_text(code))] if code < 256 else []
        see = _see(code - SHELL_BASE)
    text = f"ExitCode is rc:sig; here rc {code}, signal {signal}." + (f" {_sentence(known)}" if known else "")
    if not code and not signal:
        more.append(("Note", facts["notes"]["made_up"]))
    yield _exit(f"{code}:{signal}", title, text, see, more)


def _code(number: int) -> Iterator[Entry]:
    more = []
    if number >= SHELL_BASE:
        more.append(("In sacct", f"up to 25.05 shown as {number - SHELL_BASE}:0, from 25.11 on as {number}:0."))
    yield _exit(
        str(number),
        signals.meaning(number, 0),
        _code_text(number),
        (f"{number}:0", *_see(number - SHELL_BASE)),
        more,
    )


def _code_text(number: int) -> str:
    known = str(table("exit_codes")["code"].get(str(number), ""))
    if known:
        return _sentence(known)
    below = number - SHELL_BASE
    if below in signals.NAMES:
        return (
            f"By shell convention {SHELL_BASE} + {below}: a process below the shell died of {signals.name(below)}. "
            f"{_signal_text(below)}"
        ).strip()
    return "No convention gives it a meaning: the program's own documentation says what it is."


def _wait_status(number: int) -> Entry:
    signal, core, code = number & 0x7F, bool(number & 0x80), number >> 8
    text = (
        f"As a raw wait status (SLURM_JOB_EXIT_CODE, job_rc in slurmd.log): exit code {code}, signal {signal}"
        + (", core dumped" if core else "")
        + f". {_signal_text(signal) if signal else _code_text(code)}"
    )
    return _exit(str(number), f"a wait status: {signals.meaning(code, signal)}", text, (f"{code}:{signal}",))


def _signal_text(number: int) -> str:
    return _sentence(str(table("exit_codes")["signal"].get(str(number), "")))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else ""


def _see(signal: int) -> tuple[str, ...]:
    return (signals.name(signal),) if signal in signals.NAMES else ()


def _signal(word: str) -> Iterator[Entry]:
    number = signals.number_of(word)
    if number is None or number not in signals.NAMES:
        return
    facts = table("exit_codes")
    text = [name for name, value in signals.STRSIGNAL.items() if value == number]
    forms = (
        f"0:{number} in sacct where the process itself died of it; {SHELL_BASE + number}:0 where a shell reports it "
        f"({number}:0 in sacct's text up to 25.05); -{number} from Python"
    )
    parts = [("", _signal_text(number) or f"Signal {number} of Linux."), ("How it shows", f"{forms}.")]
    if text:
        parts.append(("Printed as", ", ".join(text)))
    name = signals.name(number)
    yield Entry("signal", name, f"signal {number}", tuple(parts), (), ("signal(7)", *facts["sources"]), facts["since"])


# ------------------------------------------------------------------------------------------------ states and terms


def _state(word: str) -> Iterator[Entry]:
    facts = table("slurm_states")
    bare = re.split(r"[ +]", word.strip(), maxsplit=1)[0]  # "CANCELLED by 1000", "CANCELLED+"
    for state in facts["state"]:
        if bare.upper() == state["name"] or (bare and bare == state["code"]):
            kind = "a state" if state["base"] else "a flag, shown in place of the state"
            end = "the job's end" if state["final"] else "not the job's end"
            code = f", code {state['code']}" if state["code"] else ""
            see = (state["name"].lower(),) if state["name"].lower() in all_causes() else _CAUSES.get(state["name"], ())
            yield Entry(
                "state",
                state["name"],
                f"{kind} of a job{code}; {end}",
                (("", _sentence(state["meaning"])),),
                see,
                tuple(facts["sources"]),
                facts["since"],
            )


_CAUSES = {
    "TIMEOUT": ("time_limit", "hang_until_time_limit"),
    "OUT_OF_MEMORY": ("memcg_oom", "memcg_oom_child_only", "global_oom"),
    "CANCELLED": ("cancelled_by_user", "admin_requeue"),
    "SUSPENDED": ("preempt_suspend",),
}
"""Causes that a state leads to, where they have another name."""


def _term(word: str) -> Iterator[Entry]:
    terms = table("terms")
    bare = re.split(r"[:=(]", word, maxsplit=1)[0].strip().lower()
    for name, entry in terms.items():
        if isinstance(entry, dict) and bare == name.lower():
            see = tuple(entry.get("cause", ()))
            yield Entry("term", name, "", (("", entry["meaning"]),), see, (entry["source"],), terms["since"])


# ------------------------------------------------------------------------------------------------ signatures


@cache
def _signatures() -> tuple[tuple[str, str], ...]:
    """(id, folder) of every family of every catalog."""
    return tuple((s.id, folder) for folder in folders() for s in load(folder).signatures)


def _signature(word: str) -> Iterator[Entry]:
    for id, folder in _signatures():
        if id == word.lower():
            entry = load(folder).get(id)
            parts = [("", entry.meaning)]
            if entry.caution:
                parts.append(("Caution", entry.caution))
            examples = [e for form in entry.forms for e in form.examples]
            parts += [("Example", example) for example in examples[:2]]
            title = f"a message of the catalog {folder}, voice: {entry.voice.value}"
            yield Entry("signature", id, title, tuple(parts), (), entry.sources, entry.since)


# ------------------------------------------------------------------------------------------------ NVIDIA


def _xid(number: str) -> Iterator[Entry]:
    facts = table("nvidia")
    for row in rows("nvidia_xid"):
        if row["xid"] == number:
            owner = " or ".join(filter(None, (row["likely_owner"], row["second_owner"])))
            vendor = "; ".join(
                f"{label}: {row[column]}"
                for label, column in (("immediate", "nvidia_immediate"), ("investigatory", "nvidia_investigatory"))
                if row[column]
            )
            ours = (
                f"likely owner: {owner}. {_glossary(facts['job_effect'], row['job_effect'])} "
                f"{_glossary(facts['advice'], row['advice'])}"
            )
            parts = [
                ("", _sentence(row["meaning"])),
                ("What the vendor advises", vendor or "nothing is documented"),
                ("How this project reads it", ours),
            ]
            if row["follow_on_of"]:
                parts.append(("Mostly follows", f"Xid {row['follow_on_of'].replace(';', ', ')}: look for it first."))
            if row["notes"]:
                parts.append(("Notes", _sentence(row["notes"])))
            parts.append(("Caution", facts["xid"]["caution"]))
            yield Entry(
                "Xid", f"Xid {number}", row["mnemonic"], tuple(parts), (), _split(row["source"]), facts["since"]
            )


def _sxid(number: str) -> Iterator[Entry]:
    facts = table("nvidia")
    for row in rows("nvidia_sxid"):
        if row["sxid"] == number:
            said = "; ".join(
                f"{label}: {row[column].replace('_', ' ')}"
                for label, column in (("Fabric Manager guide", "fm_guide_class"), ("driver", "driver_class"))
                if row[column]
            )
            ours = f"likely owner: {row['likely_owner']}. {_glossary(facts['severity'], row['severity'])}"
            parts = [
                ("", _sentence(row["meaning"])),
                ("What the vendor says", said or "no class is documented"),
                ("How this project reads it", ours),
            ]
            if row["log_text"]:
                parts.append(("Text in the log", row["log_text"]))
            if row["related"]:
                parts.append(("Related", row["related"]))
            if row["notes"]:
                parts.append(("Notes", _sentence(row["notes"])))
            parts.append(("Caution", facts["sxid"]["caution"]))
            yield Entry("SXid", f"SXid {number}", row["name"], tuple(parts), (), _split(row["source"]), facts["since"])


def _glossary(words: Mapping[str, str], word: str) -> str:
    return _sentence(words.get(word, word))


def _split(sources: str) -> tuple[str, ...]:
    return tuple(s.strip() for s in sources.split(";") if s.strip())


def _nvidia(word: str) -> Iterator[Entry]:
    if match := re.fullmatch(r"(?i)(s?)xid[\s:#_-]{0,4}(\d{1,6})", word):
        yield from _sxid(str(int(match[2]))) if match[1] else _xid(str(int(match[2])))
        return
    for row in rows("nvidia_xid"):
        if word.upper() == row["mnemonic"].upper() and word:
            yield from _xid(row["xid"])
    for row in rows("nvidia_sxid"):
        if word.upper() == row["name"].upper() and word:
            yield from _sxid(row["sxid"])


# ------------------------------------------------------------------------------------------------ asking


_READERS: tuple[Callable[[str], Iterator[Entry]], ...] = (_nvidia, _cause, _state, _exits, _signal, _term, _signature)


def lookup(word: str) -> tuple[Entry, ...]:
    """Every meaning of one word or phrase (`137`, `0:125`, `xid 79`, `Bus error`); empty if it is not known."""
    word = " ".join(word[:WORD_LIMIT].split())
    return tuple(entry for reader in _READERS for entry in reader(word)) if word else ()


def ask(words: Sequence[str]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Meanings of what was typed, and the words that are not known.

    The words are taken together where that means something (`xid 79`, `CANCELLED by 1000`), else one by one, where
    `xid` and `sxid` take the number behind them.
    """
    if found := lookup(" ".join(words)):
        return found, ()
    entries: list[Entry] = []
    unknown: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if re.fullmatch(r"(?i)s?xid:?", word.strip()) and rest:
            word = f"{word} {rest.pop(0)}"
        meant = lookup(word)
        entries.extend(entry for entry in meant if entry not in entries)
        if not meant:
            unknown.append(word)
    return tuple(entries), tuple(unknown)


def suggest(word: str) -> tuple[str, ...]:
    """Known words that look like this one, the nearest first; at most three."""
    word = word[:WORD_LIMIT].strip()
    known = {name.lower(): name for name in _vocabulary()}
    near = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.6)
    return tuple(known[name] for name in near)


@cache
def _vocabulary() -> tuple[str, ...]:
    names: list[str] = [*all_causes(), *signals.NAMES.values(), *(name[3:] for name in signals.NAMES.values())]
    names += [state["name"] for state in table("slurm_states")["state"]]
    names += [name for name, entry in table("terms").items() if isinstance(entry, dict)]
    names += [id for id, _ in _signatures()]
    names += [f"Xid {row['xid']}" for row in rows("nvidia_xid")]
    return tuple(dict.fromkeys(names))


# ------------------------------------------------------------------------------------------------ showing


def render(entries: Iterable[Entry]) -> str:
    """The entries for people: lines of at most 79 columns of ASCII (longer words are broken), ends in a newline."""
    return "\n".join("\n".join(_lines(entry)) + "\n" for entry in entries)


def _lines(entry: Entry) -> Iterator[str]:
    title = f": {entry.title}" if entry.title else ""
    yield from _wrap(f"{entry.name} ({entry.kind}){title}", "", "  ")
    for heading, text in entry.parts:
        yield ""
        if heading:
            yield from _wrap(f"{heading}: {text}", "  ", "    ")
        else:
            yield from _wrap(text, "  ", "  ")
    if entry.see:
        yield ""
        yield from _wrap(f"See also: {', '.join(entry.see)}", "  ", "    ")
    if entry.sources:
        yield ""
        of = f" (state of {entry.since})" if entry.since else ""
        yield from _wrap(f"Sources{of}: {'; '.join(entry.sources)}", "  ", "    ")


def _wrap(text: str, first: str, rest: str) -> list[str]:
    text = " ".join(mask.plain(text).split())
    return textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def document(entries: Iterable[Entry], unknown: Iterable[str] = ()) -> dict[str, Any]:
    """The entries for programs: dict, list and str only."""
    return {
        "schema": SCHEMA,
        "entries": [
            {
                "kind": e.kind,
                "name": e.name,
                "title": e.title,
                "parts": [{"heading": heading, "text": text} for heading, text in e.parts],
                "see": list(e.see),
                "sources": list(e.sources),
                "since": e.since,
            }
            for e in entries
        ],
        "unknown": [{"word": word[:WORD_LIMIT], "near": list(suggest(word))} for word in unknown],
    }
