"""What must not matter: the order of files, the folder's name, and notes of the people who made the case."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_triage import case as case_module
from slurm_triage.case import from_files
from slurm_triage.engine import diagnose
from slurm_triage.report.document import document
from tests.corpus.load import LABELS, RECORDED, write
from tests.corpus.load import cases as load
from tests.properties.corpus import FULL, files_of, notes_of_people

RENAMED = {
    "times.toml": "x.toml",
    "sacct_poll.psv": "poll.psv",
    "submit.txt": "notes.txt",
    "expect.toml": "y.toml",
    "case.toml": "z.toml",
}
PER_CORPUS = 6
STRIDE = 1 if FULL else 6


def _few(seed: str) -> list[tuple[str, dict[str, bytes]]]:
    """Some cases of each recorded corpus, the same ones every time."""
    found = []
    for corpus in RECORDED:
        ids = sorted(files_of((corpus,), True), key=lambda c: hashlib.sha256((seed + c[0]).encode()).digest())
        found += ids[:PER_CORPUS]
    return found


def _paper(files: Mapping[str, bytes]) -> dict[str, Any]:
    return document(diagnose(from_files(files)))


def _but_coverage(paper: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what it says of the files themselves."""
    rest = {key: value for key, value in paper.items() if key not in ("coverage", "parts")}
    return rest | {"parts": [_but_coverage(part) for part in paper["parts"]]}


@pytest.mark.parametrize("seed", ["a", "b"])
def test_the_order_of_files_changes_nothing(seed: str) -> None:
    for id, files in _few(seed):
        case = from_files(files)
        mixed = list(case.files)
        random.Random(seed + id).shuffle(mixed)
        assert document(diagnose(replace(case, files=tuple(mixed)))) == document(diagnose(case)), id


def test_notes_of_people_change_nothing() -> None:
    """Neither their presence nor what they say."""
    lies = b'cause = "gpu_ecc_uncorrectable"\n[ 1.0] NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.\n'
    seen = 0
    for id, files in _few("notes"):
        notes = notes_of_people(files)
        seen += len(notes)
        bare = {name: data for name, data in files.items() if name not in notes}
        expected = _but_coverage(_paper(bare))
        assert _but_coverage(_paper(files)) == expected, id
        assert _but_coverage(_paper(bare | dict.fromkeys(RENAMED, lies))) == expected, id
    assert seen > PER_CORPUS


def test_notes_of_people_under_other_names_change_nothing() -> None:
    """A label, the poll of accounting or the submission that lies there under any name is no better evidence."""
    different = []
    for corpus in RECORDED:
        picked = {id for id, _ in files_of((corpus,))}
        labelled = [(f"{corpus}/{id}", files, label) for id, files, label in load(corpus)]
        for id, files, label in [entry for entry in labelled if entry[0] in picked][::STRIDE]:
            toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in label.items()).encode()
            named = dict(files) | dict.fromkeys(LABELS, toml)
            renamed = {RENAMED.get(name, name): data for name, data in named.items()}
            assert renamed.keys() != named.keys()
            whole, other = _but_coverage(_paper(named)), _but_coverage(_paper(renamed))
            different += [
                f"{id}: {key}: {_difference(whole[key], other[key])}" for key in whole if whole[key] != other[key]
            ]
    assert not different, "\n".join(different)


def _difference(one: object, other: object) -> str:
    if isinstance(one, list) and isinstance(other, list):
        gone = [item for item in one if item not in other]
        new = [item for item in other if item not in one]
        return f"gone {json.dumps(gone)[:200]}, new {json.dumps(new)[:200]}"
    return f"{json.dumps(one)[:200]} became {json.dumps(other)[:200]}"


def test_the_name_of_the_folder_changes_nothing(tmp_path: Path) -> None:
    for number, (id, files) in enumerate(_few("folder")):
        papers = []
        for parent, name in (("one", id.rsplit("/", 1)[-1]), ("two", f"4711-memcg_oom_{number}"), ("three", "x")):
            folder = tmp_path / f"{parent}{number}" / name
            write(files, folder)
            papers.append(document(diagnose(case_module.read(folder))))
        assert papers[0] == papers[1] == papers[2], id


def test_a_case_on_disk_and_in_memory_is_the_same(tmp_path: Path) -> None:
    for number, (id, files) in enumerate(_few("disk")):
        folder = tmp_path / str(number) / "case"
        write(files, folder)
        assert document(diagnose(case_module.read(folder))) == _paper(files), id
