"""Pages of exits in every form: a code, Slurm's rc:sig, Python's negative number, a raw wait status."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_triage import signals
from slurm_triage.explain import _signals
from slurm_triage.explain._entry import Entry, Part, page_parts, sentence
from slurm_triage.explain._signals import SHELL_BASE
from slurm_triage.knowledge import table

KIND = "exit code"


def exits(word: str) -> Iterator[Entry]:
    """The page of an exit: `137`, `-9`, `0:125`, `35072`."""
    if match := re.fullmatch(r"(\d{1,5}):(\d{1,3})", word):
        yield _pair(int(match[1]), int(match[2]))
    elif re.fullmatch(r"-\d{1,3}", word) and 0 < int(word[1:]) < 65:
        yield _negative(int(word[1:]))
    elif re.fullmatch(r"\d{1,5}", word):
        number = int(word)
        if number < 256:
            yield _code(number)
        elif number < 65536:
            yield _wait_status(number)


def exit_codes() -> Iterator[Entry]:
    """The pages of all codes and pairs that have a meaning, codes first."""
    facts = table("exit_codes")
    codes = {int(code) for code in facts["code"] if code.isdigit()} | {SHELL_BASE + n for n in signals.NAMES}
    yield from (_code(code) for code in sorted(codes))
    pairs = [*facts["pair"], *(f"0:{number}" for number in facts["pseudo_signal"] if number.isdigit())]
    for pair in dict.fromkeys(pairs):
        code, _, signal = pair.partition(":")
        yield _pair(int(code), int(signal))


def _entry(name: str, title: str, text: str, page: Mapping[str, Any], see: tuple[str, ...], *more: Part) -> Entry:
    facts = table("exit_codes")
    parts = (Part("", text), *more, *page_parts(page))
    return Entry(KIND, name, title, parts, see, tuple(facts["sources"]), facts["since"])


def _page(code: int) -> dict[str, Any]:
    """The table of a code: its own words first, then those of the signal that it stands for, then of any code."""
    codes = table("exit_codes")["code"]
    below = code - SHELL_BASE
    general = _signals.page(below) if below in signals.NAMES else codes["default"]
    return {**general, **codes.get(str(code), {})}


def _code(number: int) -> Entry:
    more: list[Part] = []
    if number >= SHELL_BASE:
        shown = f"Up to 25.05 shown as {number - SHELL_BASE}:0, from 25.11 on as {number}:0."
        more.append(Part("In sacct", shown))
    if number - SHELL_BASE in signals.NAMES:
        more.append(Part("Who sends it", sentence(_signals.page(number - SHELL_BASE)["sent_by"])))
    see = (f"{number}:0", *_see(number - SHELL_BASE))
    title = signals.meaning(number, 0).removeprefix(f"exit {number}: ")
    return _entry(str(number), title, _text(number), _page(number), see, *more)


def _text(number: int) -> str:
    known = str(table("exit_codes")["code"].get(str(number), {}).get("meaning", ""))
    if known:
        return sentence(known)
    below = number - SHELL_BASE
    if below in signals.NAMES:
        return (
            f"By shell convention {SHELL_BASE} + {below}: a process below the shell died of {signals.name(below)}. "
            f"{_signals.text(below)}"
        ).strip()
    return str(table("exit_codes")["code"]["default"]["meaning"])


def _negative(number: int) -> Entry:
    name = signals.name(number)
    text = f"{table('exit_codes')['notes']['python']} Here: {name}. {_signals.text(number)}".strip()
    page = _signals.page(number)
    sent = Part("Who sends it", sentence(page["sent_by"]))
    return _entry(f"-{number}", f"killed by {name}, as Python's subprocess reports it", text, page, _see(number), sent)


def _pair(code: int, signal: int) -> Entry:
    facts = table("exit_codes")
    known = sentence(str(facts["pair"].get(f"{code}:{signal}", "")))
    text = f"ExitCode is rc:sig; here rc {code}, signal {signal}." + (f" {known}" if known else "")
    if signal:
        title = f"signal field {signal}: {signals.meaning(0, signal)}"
        page, more, see = _signal_field(signal)
    elif 0 < code < SHELL_BASE:
        title = f"exit code {code}, or {code + SHELL_BASE} in sacct's text up to 25.05"
        own = str(code) in facts["code"] or code + SHELL_BASE not in _with_pages()
        page, see = _page(code if own else code + SHELL_BASE), _see(code)
        more = [
            Part(f"If it is {code}", _text(code)),
            Part(f"If it is {code + SHELL_BASE}", _text(code + SHELL_BASE)),
            Part("Which of the two", facts["notes"]["minus_128"]),
        ]
    else:
        title = f"exit code {code}" if code < 256 else f"no exit code: {code} is above 255"
        page, see = _page(code), _see(code - SHELL_BASE)
        more = [Part("", _text(code))] if code < 256 else []
    if not code and not signal:
        more.append(Part("Note", facts["notes"]["made_up"]))
    return _entry(f"{code}:{signal}", title, text, page, see, *more)


def _with_pages() -> frozenset[int]:
    return frozenset(SHELL_BASE + number for number in signals.NAMES)


def _signal_field(signal: int) -> tuple[Mapping[str, Any], list[Part], tuple[str, ...]]:
    """(page, parts, words that lead on) of what stands behind the colon."""
    pseudo: Mapping[str, Any] = table("exit_codes")["pseudo_signal"]
    if own := pseudo.get(str(signal)):
        return {**pseudo["default"], **own}, [Part("Slurm's error", own["meaning"])], _see(signal)
    page = _signals.page(signal)
    more = [
        Part(signals.name(signal), _signals.text(signal) or "No more is known here."),
        Part("Who sends it", sentence(page["sent_by"])),
    ]
    return page, more, _see(signal)


def _wait_status(number: int) -> Entry:
    signal, core, code = number & 0x7F, bool(number & 0x80), number >> 8
    text = (
        f"As a raw wait status (SLURM_JOB_EXIT_CODE, job_rc in slurmd.log): exit code {code}, signal {signal}"
        + (", core dumped" if core else "")
        + f". {_signals.text(signal) if signal else _text(code)}"
    )
    page = _signals.page(signal) if signal else _page(code)
    title = f"a wait status: {signals.meaning(code, signal)}"
    return _entry(str(number), title, text, page, (f"{code}:{signal}",))


def _see(signal: int) -> tuple[str, ...]:
    return (signals.name(signal),) if signal in signals.NAMES else ()
