"""Which release of Slurm a plugin was built for: read from its file, which is never loaded.

SPANK_PLUGIN of spank.h puts SLURM_VERSION_NUMBER into the constant `plugin_version`. Formats: elf(5).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

SIZE = 16 << 20
"""Most bytes of a file that is looked at."""
_DYNSYM = 11
"""SHT_DYNSYM"""


class NoPlugin(Exception):
    """The file is not a plugin of this kind of machine; the message says why."""


def release(path: Path) -> tuple[int, int]:
    """(24, 11) for a plugin of Slurm 24.11. Raises `NoPlugin`, `OSError`."""
    with path.open("rb") as stream:
        data = stream.read(SIZE)
    if data[:4] != b"\x7fELF":
        raise NoPlugin("it is no shared library")
    if data[4] != 2:
        raise NoPlugin("it is not made for 64 bits")
    try:
        number = _constant(data, "<" if data[5] == 1 else ">", b"plugin_version")
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise NoPlugin(f"it is damaged ({error})") from error
    if number is None:
        raise NoPlugin("it names no release of Slurm")
    return number >> 16 & 255, number >> 8 & 255


def _constant(data: bytes, order: str, wanted: bytes) -> int | None:
    """The 32 bits at an exported name."""
    sections = list(_table(data, order, 0x28, 0x3A, "IIQQQQIIQQ"))
    segments = list(_table(data, order, 0x20, 0x36, "IIQQQQQQ"))
    for kind, offset, size, link in ((s[1], s[4], s[5], s[6]) for s in sections):
        if kind != _DYNSYM:
            continue
        names = sections[link][4]
        for at in range(offset, offset + size, 24):
            name, _, _, index, value, _ = struct.unpack_from(f"{order}IBBHQQ", data, at)
            start = names + name
            if index and data[start : data.index(b"\0", start)] == wanted:
                for _, _, place, address, _, length, _, _ in segments:
                    if address <= value < address + length:
                        return int(struct.unpack_from(f"{order}I", data, place + value - address)[0])
    return None


def _table(data: bytes, order: str, start: int, count: int, form: str) -> Iterator[tuple[int, ...]]:
    """The entries of a table whose place stands at `start` in the header, and their size and number at `count`."""
    (offset,) = struct.unpack_from(f"{order}Q", data, start)
    size, number = struct.unpack_from(f"{order}HH", data, count)
    for index in range(number):
        yield struct.unpack_from(f"{order}{form}", data, offset + index * size)
