"""Does the excerpt that leaves the node lead to the same verdicts as the whole output? `python -m ... [CORPUS...]`.

Every job's output of the corpora goes through `_excerpt`, as it is and buried: between progress lines of a program, so
that only the known words can save what it says (most recorded outputs are shorter than the ends that are always taken).
Cause, strength and owner are compared with those of the whole. Prints each difference; exit status 0 if there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_triage.case import Case, from_files
from slurm_triage.engine import diagnose
from slurm_triage.node.collect._excerpt import excerpt
from slurm_triage.sources import recognise
from tests.corpus.load import BUILTIN, cases

SIZE = 256 * 1024
NOISE = b"".join(
    b"epoch 3 it %d/5000 loss %.4f lr 0.0003 %d samples/s\n" % (i, 3.2 - i / 1000, 800 + i) for i in range(400)
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def verdict(case: Case) -> tuple[tuple[str, str, str], ...]:
    """Cause, strength and owner of the job and of each part of it."""
    found = diagnose(case)
    return tuple((d.cause, d.strength.value if d.strength else "", d.owner.value) for d in (found, *found.parts))


@dataclass(frozen=True)
class Compared:
    """A case: what is said of it with the whole output and with its excerpt, and the bytes of both."""

    id: str
    whole: object
    part: object
    before: int
    after: int


def outputs(files: Mapping[str, bytes]) -> list[str]:
    """The names of the job's outputs."""
    sources = {file.name: recognise(file) for file in from_files(files).files}
    return [name for name, source in sources.items() if source is not None and source.KIND == "job_log"]


def compare(id: str, files: Mapping[str, bytes], names: Sequence[str]) -> Compared:
    """The case with its outputs `names` whole and as the agent sends them."""
    kept = dict(files)
    values: dict[str, Any] = tomllib.loads(kept.pop("manifest.toml", b"").decode("utf-8", "replace"))
    found = {name: excerpt(files[name], SIZE) for name in names}
    kept.update({name: part.data for name, part in found.items()})
    values["line_ranges"] = {name: [list(run) for run in part.ranges] for name, part in found.items()}
    before, after = (sum(len(data[name]) for name in names) for data in (files, kept))
    return Compared(id, verdict(from_files(files)), verdict(from_files(kept, values)), before, after)


def buried(files: Mapping[str, bytes], names: Sequence[str]) -> dict[str, bytes]:
    """The case with noise around what its outputs say."""
    return {**files, **{name: NOISE + files[name].rstrip(b"\n") + b"\n" + NOISE for name in names}}


def compared(corpus: str) -> Iterator[Compared]:
    """Every case with an output, as it is and buried."""
    for id, files, _ in cases(corpus):
        if names := outputs(files):
            yield compare(id, files, names)
            yield compare(f"{id} (buried)", buried(files, names), names)


def main(argv: Sequence[str]) -> int:
    """Command line; 0 = all the same."""
    different = 0
    for corpus in argv or BUILTIN:
        found = list(compared(corpus))
        for one in found:
            if one.whole != one.part:
                different += 1
                print(f"{corpus}/{one.id}: {one.whole} became {one.part}")
        before, after = sum(one.before for one in found), sum(one.after for one in found)
        print(f"{corpus}: {len(found)} compared, {before} bytes became {after}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
