"""A file system that never answers: a FUSE mount whose daemon is the test (Documentation/filesystems/fuse.rst)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_IN = struct.Struct("<IIQQIIII")  # struct fuse_in_header: length, opcode, unique id, ...
_INIT = 26
_MNT_DETACH = 2


class Hanging:
    """The mount. Who asks something of it waits; once `take_requests` has taken it, not even SIGKILL ends the wait."""

    def __init__(self, device: int, place: Path) -> None:
        self.device, self.place = device, place

    def take_requests(self) -> None:
        """Answers the first question, as a daemon does, and takes the next without ever answering it. Waits for both."""
        request = os.read(self.device, 1 << 20)
        _, opcode, unique, *_ = _IN.unpack_from(request)
        assert opcode == _INIT
        major, minor, readahead = struct.unpack_from("<III", request, _IN.size)
        body = struct.pack("<IIIIHHIIHHI7I", major, min(minor, 31), readahead, 0, 12, 9, 4096, 1, 0, 0, 0, *[0] * 7)
        os.write(self.device, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
        os.read(self.device, 1 << 20)

    def release(self) -> None:
        """The daemon is gone: whoever waits gets an error."""
        os.close(self.device)
        self.device = -1


@contextmanager
def hanging(place: Path) -> Iterator[Hanging]:
    """A hanging file system at `place`, for every user. Skips the test where none can be mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"/dev/fuse: {error.strerror}")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"test", bytes(place), b"fuse", 0, options) != 0:
        os.close(device)
        pytest.skip(f"no FUSE mount here: {os.strerror(ctypes.get_errno())}")
    mount = Hanging(device, place)
    try:
        yield mount
    finally:
        libc.umount2(bytes(place), _MNT_DETACH)
        if mount.device >= 0:
            os.close(mount.device)
