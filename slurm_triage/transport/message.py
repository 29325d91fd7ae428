"""Messages: a header of JSON values and named files, as compressed bytes of bounded size."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_PACKED = 16 * 1024 * 1024
"""Bytes of a message as it travels."""
MOST = 64 * 1024 * 1024
"""Bytes of a message unpacked: a few bytes may expand to a thousand times as many."""
MOST_HEAD = 16 * 1024 * 1024
"""Bytes of the header: parsed it takes up to thirty times as much."""
MOST_FILES = 5000
NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+@-]{0,199}(?:/[0-9A-Za-z][0-9A-Za-z._+@-]{0,199})?")
"""What a file may be called: at most one folder, and nothing that leads elsewhere."""


class Malformed(Exception):
    """Bytes that are no message, or one that is too large; the text says what is wrong."""


@dataclass(frozen=True)
class Message:
    """`kind` says what it is about; `head` holds JSON values; `files` has names like those of an evidence folder."""

    kind: str
    head: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


def pack(message: Message) -> bytes:
    """The message as bytes. Raises `Malformed` if it is too large or has a name that no file may have."""
    for name in message.files:
        if not NAME.fullmatch(name):
            raise Malformed(f"a file cannot be called {name[:80]!r}")
    listed = [[name, len(data)] for name, data in message.files.items()]
    head = json.dumps({"kind": message.kind, "head": message.head, "files": listed}, separators=(",", ":"))
    body = b"\n".join([head.encode("ascii"), b"".join(message.files.values())])
    packed = zlib.compress(body, 1)
    if len(body) > MOST or len(head) > MOST_HEAD or len(packed) > MOST_PACKED or len(listed) > MOST_FILES:
        raise Malformed(f"{len(body)} bytes in {len(listed)} files are too much for one message")
    return packed


def unpack(data: bytes) -> Message:
    """The message in these bytes, which come from somewhere else. Raises `Malformed`."""
    body = _expand(data)
    line, _, rest = body.partition(b"\n")
    if len(line) > MOST_HEAD:
        raise Malformed(f"a header of {len(line)} bytes is too large")
    try:
        table = json.loads(line)
        kind, head, listed = table["kind"], table["head"], table["files"]
    except (ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise Malformed("no header") from error
    if not isinstance(kind, str) or not isinstance(head, dict) or not isinstance(listed, list):
        raise Malformed("no header")
    return Message(kind, head, _files(listed, rest))


def _expand(data: bytes) -> bytes:
    if len(data) > MOST_PACKED:
        raise Malformed(f"{len(data)} bytes are too many")
    try:
        stream = zlib.decompressobj()
        body = stream.decompress(data, MOST)
    except zlib.error as error:
        raise Malformed("not compressed as messages are") from error
    if not stream.eof or stream.unused_data:
        raise Malformed("cut, or too large when unpacked")
    return body


def _files(listed: list[Any], rest: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    at = 0
    if len(listed) > MOST_FILES:
        raise Malformed(f"{len(listed)} files are too many")
    for entry in listed:
        good = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
        if not good or isinstance(entry[1], bool) or not isinstance(entry[1], int) or entry[1] < 0:
            raise Malformed("a list of files that is none")
        name, size = entry
        if not NAME.fullmatch(name) or name in files:
            raise Malformed(f"a file cannot be called {name[:80]!r}")
        files[name] = rest[at : at + size]
        at += size
    if at != len(rest):
        raise Malformed("the sizes of the files do not fit")
    return files
