"""A munged of the tests' own: its key, its socket, nobody else's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def munged() -> str:
    """The path of munged. Raises `FileNotFoundError`: tests that need it must not be passed over."""
    found = shutil.which("munged") or shutil.which("/usr/sbin/munged")
    if found is None:
        raise FileNotFoundError("munged is needed for these tests (Debian: apt-get install munge)")
    return found


class Munged:
    """A daemon that can be stopped and started. `origin` is the address that it puts into credentials."""

    def __init__(self, folder: Path, origin: str = "127.0.0.1") -> None:
        self.folder, self.socket, self.origin = folder, str(folder / "socket"), origin
        self._process: subprocess.Popen[bytes] | None = None
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def start(self) -> None:
        argv = [
            munged(), "--foreground", "--force", "--num-threads=1", f"--socket={self.socket}",
            f"--key-file={self.folder}/key", f"--pid-file={self.folder}/pid", f"--seed-file={self.folder}/seed",
            f"--log-file={self.folder}/log", f"--origin={self.origin}",
        ]  # fmt: skip
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            if Path(self.socket).exists():
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "log").read_text("utf-8", "replace"))

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)
            self._process = None
        Path(self.socket).unlink(missing_ok=True)


@contextmanager
def running(origin: str = "127.0.0.1") -> Iterator[Munged]:
    """A munged for a while. Its folders must not be writable for others, as /tmp is: so it lies below /run or /var/lib."""
    root = Path(tempfile.mkdtemp(prefix="triage-munge-", dir="/run" if os.geteuid() == 0 else None))
    root.chmod(0o711)
    daemon = Munged(root, origin)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        shutil.rmtree(root, ignore_errors=True)
