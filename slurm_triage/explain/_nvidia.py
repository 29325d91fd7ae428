"""Pages of NVIDIA's Xid and SXid numbers: the vendor's words, and apart from them how this project reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from slurm_triage.explain._entry import Entry, Part, page_parts, sentence
from slurm_triage.knowledge import rows, table
from slurm_triage.knowledge.nvidia import RENUMBERED

Row = Mapping[str, str]
VENDOR = "What the vendor advises"
VENDOR_SAYS = "What the vendor says"
OURS = "How this project reads it"
ECHO = "Echo of another"
_NO_ECHO = "not known to follow another Xid."

NUMBER = re.compile(r"(?i)(s?)xid[\s:#_-]{0,4}(\d{1,6})")
"""An Xid or SXid as people write it: `xid 79`, `Xid: 79`, `SXid12028`."""


def nvidia(word: str) -> Iterator[Entry]:
    """Pages of `xid 79`, `SXid: 12028`, or the driver's name of a number."""
    if match := NUMBER.fullmatch(word):
        kind, number = ("sxid", str(int(match[2]))) if match[1] else ("xid", str(int(match[2])))
        page = _sxid if match[1] else _xid
        yield from (page(row) for row in rows(f"nvidia_{kind}") if row[kind] == number)
        return
    if re.fullmatch(r"[A-Za-z]\w+_\w+", word):  # spares reading the tables for other words
        yield from (_xid(row) for row in rows("nvidia_xid") if word.upper() in row["mnemonic"].upper().split(" / "))
        yield from (_sxid(row) for row in rows("nvidia_sxid") if word.upper() == row["name"].upper())


def xids() -> Iterator[Entry]:
    """The pages of all Xids, by number."""
    return (_xid(row) for row in sorted(rows("nvidia_xid"), key=lambda row: int(row["xid"])))


def sxids() -> Iterator[Entry]:
    """The pages of all SXids, by number."""
    return (_sxid(row) for row in sorted(rows("nvidia_sxid"), key=lambda row: int(row["sxid"])))


def _xid(row: Row) -> Entry:
    facts, pages = table("nvidia"), table("nvidia_pages")
    number = row["xid"]
    page = _page(pages["xid"][xid_class(row)], pages["number"].get(number, {}), row, number)
    vendor = "; ".join(
        f"{label}: {_vendor(row[column])}"
        for label, column in (("at once", "nvidia_immediate"), ("to investigate", "nvidia_investigatory"))
        if row[column]
    )
    owner = " or ".join(filter(None, (row["likely_owner"], row["second_owner"])))
    effect, advice = facts["job_effect"][row["job_effect"]], facts["advice"][row["advice"]]
    parents = [parent for parent in row["follow_on_of"].split(";") if parent]
    parts = [
        Part("", sentence(row["meaning"])),
        Part(VENDOR, sentence(vendor) or "Nothing is documented."),
        Part(OURS, f"Likely owner: {owner}. {sentence(effect)} {sentence(advice)} {_role(row)}"),
        *page_parts(page),
        Part(ECHO, _echo(parents)),
        *_applies(row["architectures"]),
        *_notes(row, facts["xid"]["caution"] if page["nature"].startswith(("either", "software")) else ""),
    ]
    see = tuple(f"Xid {parent}" for parent in parents if parent.isdigit())
    return Entry("Xid", f"Xid {number}", row["mnemonic"], tuple(parts), see, _sources(row), facts["since"])


def _sxid(row: Row) -> Entry:
    facts, pages = table("nvidia"), table("nvidia_pages")
    said = "; ".join(
        f"{label}: {row[column].replace('_', ' ')}"
        for label, column in (("Fabric Manager guide", "fm_guide_class"), ("driver", "driver_class"))
        if row[column]
    )
    severity = facts["severity"][row["severity"]]
    parts = [
        Part("", sentence(row["meaning"])),
        Part(VENDOR_SAYS, sentence(said) or "No class is documented."),
        Part(OURS, f"Likely owner: {row['likely_owner']}. {sentence(severity)} {_role(row)}"),
        *page_parts(_page(pages["sxid"][sxid_class(row)], {}, row, row["sxid"])),
    ]
    if row["log_text"]:
        parts.append(Part("Text in the log", row["log_text"]))
    parts.append(Part("Related", row["related"] or "The GPU at the other end of the port may print Xid 74 and 45."))
    parts += _applies(row["switch_generation"])
    parts += _notes(row, facts["sxid"]["caution"] if int(row["sxid"]) in RENUMBERED else "")
    return Entry("SXid", f"SXid {row['sxid']}", row["name"], tuple(parts), (), _sources(row), facts["since"])


def xid_class(row: Row) -> str:
    """The table of `nvidia_pages.toml` that goes for an Xid. Hardware is said only where nothing else is likely too."""
    owner = row["likely_owner"]
    if owner == "hardware" and row["role"] == "none":
        return "hardware_watch"
    if row["role"] == "state":
        return "hardware_state"
    if owner == "driver" and row["job_effect"] == "fatal_to_gpu":
        return "firmware"
    if owner == "hardware" and (row["second_owner"] or row["role"] == "open"):
        return "hardware_or_driver"
    return "informational" if row["role"] == "none" and owner != "thermal/power" else owner


def sxid_class(row: Row) -> str:
    """The table of `nvidia_pages.toml` that goes for an SXid."""
    return "quiet" if row["role"] == "none" and row["likely_owner"] != "thermal/power" else row["likely_owner"]


def _page(general: Mapping[str, Any], special: Mapping[str, Any], row: Row, number: str) -> dict[str, Any]:
    """What goes for the class, with what is known of the number; `NUMBER` in commands becomes the number. The cause
    that the number speaks for stands first among what to check next."""
    page = {**general, **special}
    for key in ("commands", "admin"):
        page[key] = [command.replace("NUMBER", number) for command in page.get(key, ())]
    if (cause := row["cause"]) and f"`{cause}`" not in page["next"]:
        page["next"] = f"`{cause}`; {page['next']}"
    return page


def _role(row: Row) -> str:
    return sentence(table("nvidia")["role"][row["role"]])


def _vendor(word: str) -> str:
    plain = table("nvidia_pages")["vendor"].get(word)
    return f"{word} ({plain})" if plain else word


def _echo(parents: list[str]) -> str:
    if not parents:
        return sentence(_NO_ECHO)
    numbers = [parent for parent in parents if parent.isdigit()]
    said = [*(["an SXid"] if "SXid" in parents else []), *([f"Xid {', '.join(numbers)}"] if numbers else [])]
    of_any = " Mostly it follows another event of the same GPU." if "any" in parents else ""
    return f"Look first for {' or '.join(said) or 'another Xid'} of the same GPU in the same seconds.{of_any}"


def _applies(cell: str) -> Iterator[Part]:
    """For which chips the number is listed; nothing where no source says."""
    if cell:
        words = {
            "all_of_A100_H100_B100_GB200": "A100, H100, B100 and GB200",
            "volta_or_older_or_none": "Volta and older, if any: listed as unused for newer ones",
        }
        yield Part("Applies to", sentence(words.get(cell, ", ".join(cell.split("|")))))


def _notes(row: Row, caution: str) -> Iterator[Part]:
    if row["notes"]:
        yield Part("Notes", sentence(row["notes"]))
    if caution:
        yield Part("Caution", caution)


def _sources(row: Row) -> tuple[str, ...]:
    urls = table("nvidia_pages")["sources"]
    named = [source.strip() for source in re.split(r";(?![^()]*\))", row["source"]) if source.strip()]
    known = (url for name, url in urls.items() if any(source.startswith(name) for source in named))
    return (*named, *known)
