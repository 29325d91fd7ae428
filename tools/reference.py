"""The pages of docs/reference that show what `slurm-triage explain` says: causes, exits, signals, states, Xid, SXid."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping

from slurm_triage.causes import all_causes
from slurm_triage.explain import PAGES, Entry, Part, _signals
from slurm_triage.explain._entry import page_parts, sentence
from slurm_triage.explain._nvidia import sxid_class, xid_class
from slurm_triage.explain._signals import SHELL_BASE
from slurm_triage.knowledge import rows, table
from slurm_triage.signals import NAMES

COLUMNS = 120
_NAMES_ONLY = ("Explains away", "Refines", "Refined by")
"""Parts that are a list of causes."""
_PLACEHOLDERS = (
    "Commands can be pasted; words in capitals (JOBID, NODE, OUTPUT_FILE) are to be replaced, and srun may need the "
    "partition and account of the job. Those under *As an administrator* need more rights than the owner of a job has."
)


# ------------------------------------------------------------------------------------------------ building blocks


def _wrap(text: str) -> str:
    rest = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, COLUMNS, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)


def _head(title: str, made_from: str, *paragraphs: str) -> Iterator[str]:
    yield from (f"# {title}", "", f"<!-- Made by `python -m tools.docs` from {made_from}. Do not edit. -->")
    for paragraph in paragraphs:
        yield from ("", _wrap(paragraph))


def _plain(text: str, causes: str) -> str:
    """Text without accidental emphasis; causes in backticks lead to their section of the page `causes`."""
    ids = all_causes()
    out = []
    for piece in re.split(r"(`[^`]*`)", text):
        if piece.startswith("`") and piece.strip("`") in ids:
            out.append(f"[{piece}]({causes}#{piece.strip('`')})")
        else:
            out.append(piece if piece.startswith("`") else re.sub(r"([*<])", r"\\\1", piece))
    return "".join(out)


def _part(part: Part, causes: str) -> Iterator[str]:
    text = part.text
    if part.heading in _NAMES_ONLY:
        text = re.sub(r"\w+", lambda m: f"`{m[0]}`" if m[0] in all_causes() else m[0], text)
    text = _plain(text, causes)
    yield from ("", _wrap(f"**{part.heading}:** {text}" if part.heading else text))
    if part.commands:
        yield ""
        yield from (f"    {command}" for command in part.commands)


def _sources(entry: Entry) -> Iterator[str]:
    of = f" (state of {entry.since})" if entry.since else ""
    yield from ("", _wrap(f"**Sources{of}:** {', '.join(entry.sources)}"))


def _section(entry: Entry, heading: str, causes: str, sources: bool = True) -> Iterator[str]:
    verdict = f" {entry.verdict}" if entry.verdict else ""
    yield from ("", f"## {heading}", "", _wrap(f"*{_plain(entry.title, causes)}.*{verdict}"))
    for part in entry.parts:
        yield from _part(part, causes)
    if sources:
        yield from _sources(entry)


def _row(*cells: str) -> str:
    return "| " + " | ".join(re.sub(r"([|*<])", r"\\\1", cell) for cell in cells) + " |"


# ------------------------------------------------------------------------------------------------ pages


def _causes() -> Iterator[str]:
    entries = list(PAGES["cause"]())
    yield from _head(
        "Causes",
        "slurm_triage/causes.toml and the rules' docstrings",
        "The causes that a diagnosis may name, as `slurm-triage explain CAUSE` shows them. An id never changes its "
        "meaning; new ids may be added. A cause that *refines* another one is a finer name for it: where the finer "
        "one cannot be shown, the wider one is still right. A cause *explains away* others when it is at least as "
        "strong (see [how it reasons](../explanation/how-it-reasons.md#competition)).",
        _PLACEHOLDERS,
        f"{', '.join(f'[`{entry.name}`](#{entry.name})' for entry in entries)}.",
    )
    for entry in entries:
        yield from _section(entry, entry.name, "")


def _exits() -> Iterator[str]:
    facts = table("exit_codes")
    codes, signals = list(PAGES["exit code"]()), list(PAGES["signal"]())
    yield from _head(
        "Exit codes and signals",
        "slurm_triage/knowledge/exit_codes.toml and signals.toml",
        "What `slurm-triage explain 137`, `0:125` or `SIGBUS` says. A code is a convention and no proof: any program "
        "may end with any of them. See also [what Slurm tells](../explanation/what-slurm-tells.md).",
        _PLACEHOLDERS,
        "The forms of one end, a process killed by SIGKILL: `0:9` in sacct for the process itself, `137:0` (up to "
        "25.05 printed as `9:0`) for a shell above it, `137` as `$?` and from srun, `-9` from Python and torchrun, "
        "`9` as a raw wait status, and `35072` (137 times 256) as that of the shell.",
    )
    yield ""
    yield from (_wrap(f"- {_plain(note, 'causes.md')}") for note in facts["notes"].values())
    yield from ("", "How a death by each signal is shown; *raw* is a wait status:")
    columns = (
        "signal",
        "itself",
        "shell above it",
        "till 25.05",
        "$?, srun",
        "Python",
        "raw",
        "raw, core",
        "raw, shell",
    )
    yield from ("", _row(*columns), _row(*("---" for _ in columns)))
    for number, name in NAMES.items():
        code = SHELL_BASE + number
        dumps = "core" in _signals.page(number).get("default", "")
        raw = (str(number), str(number + SHELL_BASE) if dumps else "", str(code << 8))
        yield _row(name, f"`0:{number}`", f"`{code}:0`", f"`{number}:0`", str(code), f"`-{number}`", *raw)
    yield from ("", _row("exit", "meaning"), "| --- | --- |")
    yield from (_row(f"[{e.name}](#exit-{_slug(e.name)})", e.parts[0].text) for e in codes)
    yield from ("", _row("signal", "number", "meaning"), "| --- | --- | --- |")
    yield from (_row(f"[{e.name}](#{e.name.lower()})", e.title.split()[-1], e.parts[0].text) for e in signals)
    for entry in codes:
        yield f'\n<a id="exit-{_slug(entry.name)}"></a>'
        yield from _section(entry, f"Exit {entry.name}", "causes.md", sources=False)
    for entry in signals:
        yield from _section(entry, entry.name, "causes.md", sources=False)
    yield from ("", "## Sources")
    yield from _sources(codes[0])
    yield from _sources(signals[0])


def _slug(exit_: str) -> str:
    return exit_.replace(":", "-")


def _states() -> Iterator[str]:
    entries = list(PAGES["state"]())
    facts = table("slurm_states")
    yield from _head(
        "States of jobs",
        "slurm_triage/knowledge/slurm_states.toml",
        "What `slurm-triage explain PREEMPTED` says. sacct shows a state for the job and one for each step; a flag "
        "stands in place of the state while it lasts.",
        _PLACEHOLDERS,
    )
    yield from ("", _row("state", "meaning"), "| --- | --- |")
    yield from (_row(f"[{e.name}](#{e.name.lower()})", e.parts[0].text) for e in entries)
    yield from ("", "State and exit together, where they say more than each alone:", "")
    yield from (_row("together", "meaning", "cause"), "| --- | --- | --- |")
    for pair in facts["combination"]:
        cause = pair["cause"]
        yield _row(pair["name"], sentence(pair["meaning"]), f"[`{cause}`](causes.md#{cause})")
    for entry in entries:
        yield from _section(entry, entry.name, "causes.md", sources=False)
    yield from ("", "## Sources")
    yield from _sources(entries[0])


def _classes(kind: str) -> Iterator[str]:
    """What goes for every number of a class."""
    for page in table("nvidia_pages")[kind].values():
        yield from ("", f"## Class: {page['title']}")
        for part in page_parts(page):
            yield from _part(part, "causes.md")


def _class(kind: str, name: str) -> str:
    """A link to what goes for a class."""
    title = table("nvidia_pages")[kind][name]["title"]
    anchor = re.sub(r"[^\w\- ]", "", f"class-{title}".lower()).replace(" ", "-")
    return f"[{title}](#{anchor})"


def _xids() -> Iterator[str]:
    special = table("nvidia_pages")["number"]
    entries = {entry.name.split()[1]: entry for entry in PAGES["Xid"]()}
    yield from _head(
        "NVIDIA Xid",
        "slurm_triage/knowledge/nvidia_xid.csv, nvidia.toml and nvidia_pages.toml",
        "Every Xid, as `slurm-triage explain xid 79` shows it: the vendor's meaning and advice, and apart from them "
        "how this project reads it. Numbers of which more is known have a section of their own; for the others goes "
        "what stands under their class. Numbers alone decide little: see whether it is an echo of another, and what "
        "words the driver printed with it.",
        _PLACEHOLDERS,
    )
    columns = (
        "Xid",
        "meaning",
        "vendor: at once",
        "vendor: to investigate",
        "likely owner",
        "effect",
        "cause",
        "class",
        "follows",
    )
    yield from ("", _row(*columns), _row(*("---" for _ in columns)))
    for row in rows("nvidia_xid"):
        number = row["xid"]
        cause = row["cause"]
        yield _row(
            f"[{number}](#xid-{number})" if number in special else number,
            f"{row['meaning']} ({row['mnemonic']})",
            row["nvidia_immediate"],
            row["nvidia_investigatory"],
            ", ".join(filter(None, (row["likely_owner"], row["second_owner"]))),
            row["job_effect"].replace("_", " "),
            f"[`{cause}`](causes.md#{cause})" if cause else "",
            _class("xid", xid_class(row)),
            row["follow_on_of"].replace(";", ", "),
        )
    yield from _words("vendor", table("nvidia_pages")["vendor"])
    yield from _words("effect", {k.replace("_", " "): v for k, v in table("nvidia")["job_effect"].items()})
    yield from _classes("xid")
    for number in sorted(special, key=int):
        yield from _section(entries[number], f"Xid {number}", "causes.md", sources=False)
    yield from ("", "## Sources")
    yield from _sources(entries["79"])


def _sxids() -> Iterator[str]:
    entries = list(PAGES["SXid"]())
    yield from _head(
        "NVIDIA SXid",
        "slurm_triage/knowledge/nvidia_sxid.csv, nvidia.toml and nvidia_pages.toml",
        "Every SXid of an NVSwitch, as `slurm-triage explain sxid 12028` shows it: the classes of the Fabric Manager "
        "guide and of the driver, and apart from them how this project reads it. What to do stands under the class.",
        sentence(table("nvidia")["sxid"]["caution"]),
        _PLACEHOLDERS,
    )
    columns = ("SXid", "meaning", "text in the log", "guide", "driver", "our reading", "class", "notes")
    yield from ("", _row(*columns), _row(*("---" for _ in columns)))
    for row in rows("nvidia_sxid"):
        yield _row(
            row["sxid"],
            f"{row['meaning']} ({row['name']})",
            row["log_text"],
            row["fm_guide_class"].replace("_", " "),
            row["driver_class"].replace("_", " "),
            row["severity"].replace("_", " "),
            _class("sxid", sxid_class(row)),
            "; ".join(filter(None, (row["related"], row["notes"]))),
        )
    yield from _words("our reading", {k.replace("_", " "): v for k, v in table("nvidia")["severity"].items()})
    yield from _classes("sxid")
    yield from ("", "## Sources")
    yield from _sources(entries[0])


def _words(column: str, words: Mapping[str, str]) -> Iterator[str]:
    yield from ("", f"Words of the column *{column}*:", "")
    yield from (f"- {word}: {text}" for word, text in words.items())


PAGES_MADE: Mapping[str, Callable[[], Iterator[str]]] = {
    "causes.md": _causes,
    "exit-codes-and-signals.md": _exits,
    "states.md": _states,
    "nvidia-xid.md": _xids,
    "nvidia-sxid.md": _sxids,
}
"""By the name in docs/reference, what makes it."""


def page(name: str) -> str:
    """The text of a page of docs/reference. Raises `KeyError` for one that is not made."""
    return "\n".join(PAGES_MADE[name]()) + "\n"
