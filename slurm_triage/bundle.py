"""One file for a bug report: the evidence of a case, its diagnosis and a list of contents, as `.tar.gz`.

The same evidence gives the same bytes: nothing in the archive tells when, where or by whom it was made. Layout and
limits: docs/reference/bundle.md.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_triage import __version__, case
from slurm_triage.engine import diagnose
from slurm_triage.model import Coverage, Diagnosis
from slurm_triage.redact import WARNING, redact
from slurm_triage.report.document import document

SCHEMA = "slurm-triage/bundle/1"

FILE_LIMIT = 8 * 1024 * 1024
"""Bytes kept of one file: longer text loses its middle, anything else is left out."""

TOTAL_LIMIT = 64 * 1024 * 1024
"""Bytes of all files together; what comes after is left out."""

READ_LIMIT = 4 * TOTAL_LIMIT
"""Bytes that are read of a folder at most."""

README = """\
Evidence of one Slurm job, collected by slurm-triage for a bug report.

evidence/       the folder of evidence; diagnose it again with
                slurm-triage diagnose --evidence evidence
diagnosis.json  the diagnosis when the bundle was made
bundle.json     what is in here, what was cut or left out, what was replaced
"""


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory.

    `data` are the bytes of the archive, `name` a file name for it, `contents` what `bundle.json` says. `problems` are
    sentences for the person who makes it; `same` is whether the evidence in the bundle gives the diagnosis that the
    whole evidence gives (cause, strength and owner).
    """

    data: bytes
    name: str
    contents: Mapping[str, Any]
    problems: tuple[str, ...] = ()
    same: bool = True


@dataclass
class _Kept:
    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)


def files_of(folder: Path) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    """The evidence files of a folder with the manifest, and (name, why) of what lies there and was not taken.

    As `case.read` sees it: notes of people are not evidence, links are not followed. Raises `OSError` when the folder
    cannot be listed.
    """
    whole = case.read(folder)
    files: dict[str, bytes] = {}
    missing = [(problem.split(":", 1)[0], problem.split(":", 1)[-1].strip()) for problem in whole.problems]
    missing += [(name, "never an input of a diagnosis") for name in whole.skipped]
    read = 0
    for file in whole.files:
        if read > READ_LIMIT:
            missing.append((file.name, "the folder holds more than a bundle can"))
            continue
        try:
            files[file.name] = _read(file)
            read += len(files[file.name])
        except OSError as error:
            missing.append((file.name, error.strerror or str(error)))
    manifest = folder / "manifest.toml"
    if manifest.is_file() and not manifest.is_symlink():
        files["manifest.toml"] = manifest.read_bytes()[:FILE_LIMIT]
    return files, missing


def _read(file: case.EvidenceFile) -> bytes:
    """A file's bytes; of a file far above the limit only its two ends, with a line between them."""
    if file.path is None or file.size() <= 2 * FILE_LIMIT:
        return file.path.read_bytes() if file.path is not None else file.data or b""
    with file.path.open("rb") as stream:
        head = stream.read(FILE_LIMIT)
        stream.seek(-FILE_LIMIT, os.SEEK_END)
        return head + b"\n" + _GAP + b"\n" + stream.read(FILE_LIMIT)


_GAP = b"[slurm-triage bundle: lines were left out here]"


def make(
    files: Mapping[str, bytes],
    *,
    redacted: bool = False,
    missing: Iterable[tuple[str, str]] = (),
    notes: Iterable[Coverage] = (),
) -> Bundle:
    """The bundle of evidence `files` (name to bytes, as for `case.from_files`).

    `missing` are (name, why) of evidence that is not in `files`; `notes` say what could not be looked at when the
    evidence was gathered. With `redacted` names are replaced (see `redact`), and what no source reads is left out.
    """
    whole = diagnose(case.from_files(files))
    problems: list[str] = []
    replaced: dict[str, Any] = {}
    left_out = [{"file": name, "why": why} for name, why in missing] + [
        {"file": note.file, "why": note.note} for note in notes
    ]
    given: Mapping[str, bytes] = files
    if redacted:
        result = redact(files)
        given = result.files
        replaced = {
            kind: {"distinct": result.distinct.get(kind, 0), "times": count} for kind, count in result.times.items()
        }
        unread = [n for n in files if _kind(whole, n) is None and n != "manifest.toml"]
        # Names of what is left out are names too.
        left_out = [{"file": "", "why": "not in the evidence, or not readable"} for _ in left_out]
        left_out += [{"file": "", "why": "not recognised as evidence, so it could not be redacted"} for _ in unread]
        if result.kept:
            problems.append(
                f"{result.kept} name(s) are ordinary words of messages and were replaced only where a key says that "
                "they are names."
            )
        problems.append(WARNING)
    kept = _limited({name: data for name, data in given.items() if not name.startswith("../evidence/")})
    if len(kept.files) + len(kept.left_out) < len(given):
        kept.left_out.append({"file": "../evidence", "why": "a folder of this name would mix with the evidence"})
    left_out += kept.left_out
    answer = diagnose(case.from_files(kept.files))
    same = _verdict(answer) == _verdict(whole)
    if not same:
        problems.append(
            f"The evidence in the bundle gives {_words(answer)}, the whole evidence gives {_words(whole)}: say so in "
            "the report."
        )
    for entry in kept.left_out:
        problems.append(f"{entry['file']}: {entry['why']}.")
    for name in sorted(kept.cut):
        problems.append(f"{name}: longer than {FILE_LIMIT // 2**20} MiB, the middle was left out.")
    contents = {
        "schema": SCHEMA,
        "program": __version__,
        "redacted": redacted,
        "files": [
            {
                "name": _place(name),
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "kind": _kind(answer, name),
                "cut": name in kept.cut,
            }
            for name, data in sorted(kept.files.items())
        ],
        "left_out": sorted(left_out, key=lambda e: (e["file"], e["why"])),
        "replaced": replaced,
        "same_diagnosis": same,
        "warning": WARNING if redacted else "Nothing was redacted. " + WARNING,
    }
    members = {_place(name): data for name, data in kept.files.items()}
    members["README.txt"] = README.encode()
    members["bundle.json"] = _json(contents)
    members["diagnosis.json"] = _json(document(answer))
    job = answer.job.shown_id or answer.job.job_id or ""
    stem = f"slurm-triage-{job}" if re.fullmatch(r"[0-9][0-9_+]{0,40}", job) else "slurm-triage-bundle"
    return Bundle(_archive(stem, members), f"{stem}.tar.gz", contents, tuple(problems), same)


def _limited(files: Mapping[str, bytes]) -> _Kept:
    """The files within the limits, the smaller ones first in what is given up last."""
    kept = _Kept()
    total = 0
    for name, data in sorted(files.items(), key=lambda item: (len(item[1]), item[0])):
        if len(data) > FILE_LIMIT:
            shorter = _shortened(data)
            if shorter is None:
                kept.left_out.append({"file": name, "why": "too long, and not text that can be cut"})
                continue
            data = shorter
            kept.cut.add(name)
        if total + len(data) > TOTAL_LIMIT:
            kept.cut.discard(name)
            kept.left_out.append({"file": name, "why": f"the bundle is full ({TOTAL_LIMIT // 2**20} MiB)"})
            continue
        total += len(data)
        kept.files[name] = data
    return kept


def _shortened(data: bytes) -> bytes | None:
    """The first and last lines of a text with a line that says so between them; None for JSON and binary data."""
    # Lines in brackets are the times of a log, not JSON.
    if b"\0" in data or re.match(rb"\s{0,100}(?:\{|\[\s{0,100}[{\"\[])", data):
        return None
    half = FILE_LIMIT // 2 - len(_GAP) - 2
    head, tail = data[:half], data[-half:]
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :]
    return head + _GAP + b"\n" + tail


def _kind(diagnosis: Diagnosis, name: str) -> str | None:
    found = (c.kind for d in (diagnosis, *diagnosis.parts) for c in d.coverage if c.file == name)
    return next((kind for kind in found if kind is not None), None)


def _verdict(diagnosis: Diagnosis) -> tuple[object, ...]:
    parts = tuple((p.cause, p.strength, p.owner) for p in diagnosis.parts)
    return (diagnosis.cause, diagnosis.strength, diagnosis.owner, parts)


def _words(diagnosis: Diagnosis) -> str:
    sure = f" ({diagnosis.strength.value})" if diagnosis.strength else ""
    return f"{diagnosis.cause}{sure}, owner {diagnosis.owner.value}"


def _place(name: str) -> str:
    """Where a file lies in the archive: in `evidence/`, the cluster's folder beside it if it lies beside the case."""
    return name[3:] if name.startswith("../") else f"evidence/{name}"


def _json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=True, indent=1, sort_keys=True) + "\n").encode()


def _archive(stem: str, members: Mapping[str, bytes]) -> bytes:
    """A `.tar.gz` whose bytes depend on names and contents only."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(members):
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size = len(members[name])
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(members[name]))
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def write(bundle: Bundle, path: Path) -> None:
    """Puts the bundle into a new file that only its owner may read.

    Raises `FileExistsError` for a file that exists already, `OSError` where it cannot be written; then no file is left.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(bundle.data)
    except OSError:
        path.unlink(missing_ok=True)
        raise
