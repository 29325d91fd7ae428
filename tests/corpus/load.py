"""Reads labelled cases, from the archives beside this file or from any folder.

A case is a folder that holds `expect.toml` (recorded jobs) or `case.toml` (public reports), at any depth. Folders named
`cluster*` hold the configuration that cases point to with `cluster_dir` in their `manifest.toml`; they are no cases.

Run as a program it writes cases out as evidence folders, without their labels:
`python -m tests.corpus.load recorded-24.11 1095-oom_step_ignored_exit0 --into DIR`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from slurm_triage.case import CLUSTER_FILES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
RECORDED = ("recorded-22.05", "recorded-24.11", "recorded-24.11-cgroup2", "recorded-26.05", "recorded-witnesses")
"""Jobs recorded on real clusters, every failure made on purpose: the cause is certain."""
OWN = "recorded-own"
"""Failures of programs in many languages, of MPI and of torch, recorded on the mini cluster (`tests/cluster/own_cases`)."""
PUBLIC = "public-cases"
"""Excerpts that people pasted into public reports."""
PUBLIC_MORE = "public-more"
"""Further ones, labelled before the engine was asked: what is said of reports that nobody has looked at."""
BUILTIN = (*RECORDED, OWN, PUBLIC)
LABELS = ("expect.toml", "case.toml")
"""Files with the right answer; they are never among the files of a case."""

LoadedCase = tuple[str, dict[str, bytes], dict[str, Any]]


class CorpusError(Exception):
    """A corpus that cannot be read; the message says which and why."""


def cases(name: str | Path) -> Iterator[LoadedCase]:
    """(id, files, label) of every case of a corpus, by id.

    `name` is one of `BUILTIN` or `PUBLIC_MORE`, an archive (`*.tar.xz`) or a folder. The id is the case's path in the corpus; `files`
    maps names relative to the case folder to their bytes, the cluster's files (`slurm_triage.case.CLUSTER_FILES`) as
    `<cluster_dir>/<file>`, as `slurm_triage.case.read` names them; `label` is the parsed label file.

    Raises `CorpusError` for a corpus that is missing, cannot be read, holds no case, or has a label that is not TOML.
    """
    tree = _tree(name)
    found: dict[PurePosixPath, dict[str, bytes]] = {folder: {} for folder in sorted(_case_folders(tree))}
    if not found:
        raise CorpusError(f"{name}: holds no case (no folder with {' or '.join(LABELS)})")
    for path, data in tree.items():
        for folder in found.keys() & path.parents:  # one at most: cases do not lie in cases
            if path.name not in LABELS:
                found[folder][path.relative_to(folder).as_posix()] = data
    for folder, own in found.items():
        file = next(folder / label for label in LABELS if folder / label in tree)
        label = _toml(f"{name}: {file}", tree[file])
        own.update(_cluster_files(tree, folder, own))
        yield folder.as_posix(), own, label


def _case_folders(tree: Mapping[PurePosixPath, bytes]) -> set[PurePosixPath]:
    labelled = {path.parent for path in tree if path.name in LABELS}
    labelled = {f for f in labelled if not any(part.startswith("cluster") for part in f.parts)}
    return {f for f in labelled if not labelled.intersection(f.parents)}


def _cluster_files(
    tree: Mapping[PurePosixPath, bytes], folder: PurePosixPath, own: Mapping[str, bytes]
) -> Iterator[tuple[str, bytes]]:
    manifest = _toml(f"{folder}/manifest.toml", own["manifest.toml"]) if "manifest.toml" in own else {}
    pointer = manifest.get("cluster_dir")
    if not isinstance(pointer, str) or not re.fullmatch(r"(\.\./)?[\w-][\w.-]*", pointer):
        return
    base = folder.parent / pointer[3:] if pointer.startswith("../") else folder / pointer
    have = {name.rsplit("/", 1)[-1] for name in own}
    for name in CLUSTER_FILES:
        if name not in have and base / name in tree:
            yield f"{pointer}/{name}", tree[base / name]


def _toml(what: str, data: bytes) -> dict[str, Any]:
    try:
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:  # both a TOMLDecodeError and a UnicodeDecodeError
        raise CorpusError(f"{what}: {error}") from error
    return table


def _tree(name: str | Path) -> dict[PurePosixPath, bytes]:
    """Every regular file of the corpus, by its path in it."""
    path = HERE / f"{name}.tar.xz" if str(name) in (*BUILTIN, PUBLIC_MORE) else Path(name)
    try:
        if path.is_dir():
            found = (p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
            return {PurePosixPath(p.relative_to(path).as_posix()): p.read_bytes() for p in found}
        tree: dict[PurePosixPath, bytes] = {}
        with tarfile.open(path, "r:xz") as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                if stream is not None:
                    tree[PurePosixPath(member.name)] = stream.read()
        return tree
    except (OSError, tarfile.TarError) as error:
        raise CorpusError(f"{name}: neither one of {', '.join(BUILTIN)} nor a readable folder: {error}") from error


def write(files: Mapping[str, bytes], folder: Path) -> None:
    """Writes the files of one case as an evidence folder; `../cluster/x` lands beside it. Raises `OSError`."""
    for name, data in files.items():
        target = folder / name
        # the folder itself first, else `folder/../cluster` leads nowhere
        folder.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 = done, 1 = no such corpus or case, or not writable."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.load", description="Write cases as evidence folders.")
    parser.add_argument("corpus", help=f"{', '.join(BUILTIN)}, or a folder")
    parser.add_argument("ids", nargs="*", help="cases to write (default: all)")
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="where to")
    options = parser.parse_args(argv)
    wanted = set(options.ids)
    try:
        for case_id, files, _ in cases(options.corpus):
            if not options.ids or case_id in wanted:
                write(files, options.into / case_id)
                wanted.discard(case_id)
    except (CorpusError, OSError) as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    if wanted:
        print(f"load: {options.corpus} has no case {', '.join(sorted(wanted))}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
