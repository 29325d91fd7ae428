#!/usr/bin/env python3
"""Packs a folder of cases into one archive that is the same every time: `pack_corpus.py DIR ARCHIVE.tar.xz`.

Members are sorted, relative to DIR, owned by uid 0, dated 1970 and readable by all, so that packing the same files
again gives the same tar (the xz layer may differ between releases of liblzma). Only regular files are packed. The
archives of `tests/corpus/` are made with it; `tar -xJf` unpacks them.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path


def pack(folder: Path, archive: Path) -> int:
    """Packs every regular file below `folder`; returns their number. Raises `OSError`."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    partial = archive.with_name(archive.name + ".part")
    with tarfile.open(partial, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for path in paths:
            data = path.read_bytes()
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size = len(data)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(data))
    partial.replace(archive)
    return len(paths)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 0 = packed, 1 = could not read or write, or nothing to pack."""
    parser = argparse.ArgumentParser(description="Pack a folder of cases into one deterministic .tar.xz archive.")
    parser.add_argument("folder", type=Path, help="folder of cases")
    parser.add_argument("archive", type=Path, help="archive to write, NAME.tar.xz")
    options = parser.parse_args(argv)
    if not options.folder.is_dir():
        print(f"pack_corpus: {options.folder} is not a folder", file=sys.stderr)
        return 1
    try:
        count = pack(options.folder, options.archive)
    except OSError as error:
        print(f"pack_corpus: {error}", file=sys.stderr)
        return 1
    if not count:
        print(f"pack_corpus: {options.folder} holds no file", file=sys.stderr)
        return 1
    print(f"{options.archive}: {count} files, {options.archive.stat().st_size} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
