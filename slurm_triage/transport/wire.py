"""A signed message on a stream: one line with two sizes, the credential, the message."""

from __future__ import annotations

import re

from slurm_triage.transport.message import MOST_PACKED, Malformed

PORT = 6821
"""TCP port of the service."""
QUESTION, ANSWER = b"question", b"answer"
"""Roles of a message, which its credential covers: an answer cannot be sent as a question."""
MOST_CREDENTIAL = 64 * 1024
LONGEST_LINE = 40
_LINE = re.compile(rb"SLTR1 (\d{1,6}) (\d{1,9})\n")


def line(credential: bytes, body: bytes) -> bytes:
    """The first line."""
    return b"SLTR1 %d %d\n" % (len(credential), len(body))


def sizes(text: bytes) -> tuple[int, int]:
    """(bytes of the credential, bytes of the body) that a first line announces. Raises `Malformed`."""
    match = _LINE.fullmatch(text)
    if match is None:
        raise Malformed("no message of slurm-triage")
    credential, body = int(match[1]), int(match[2])
    if credential > MOST_CREDENTIAL or body > MOST_PACKED:
        raise Malformed(f"a message of {body} bytes is too large")
    return credential, body


def split(data: bytes) -> tuple[bytes, bytes] | None:
    """(credential, body) of a message that is in a file; None if it is not whole yet. Raises `Malformed`."""
    text, newline, rest = data.partition(b"\n")
    if not newline and len(data) < LONGEST_LINE:
        return None
    first, second = sizes(text + newline)
    if len(rest) > first + second:
        raise Malformed("more than a message")
    return (rest[:first], rest[first:]) if len(rest) == first + second else None
