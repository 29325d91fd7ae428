"""A key that nodes and service share, for sites without MUNGE: HMAC-SHA256 over the digest, a time and a random number.

Whoever holds the key is believed to be whom it says it is: the file has to be root's on nodes, and readable for the
service's user on its host.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable
from itertools import islice

from slurm_triage.transport import wire
from slurm_triage.transport.auth import AuthError, Sender
from slurm_triage.transport.auth import digest as digest_of
from slurm_triage.transport.message import MOST_PACKED, Malformed

SHORTEST = 32
"""Bytes that a key must have."""
GOOD_FOR = 300.0
"""Seconds by which the clocks may differ and a message may be on its way; afterwards it is refused."""
_FORM = re.compile(rb"v1 (\d{1,10}) (\d{1,10}) (\d{1,12}\.\d{3}) ([0-9a-f]{32}) ([0-9a-f]{64})")


class Key:
    """Signs with the key as the caller's uid and gid. `clock` gives the epoch."""

    holds = MOST_PACKED

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[bytes, float] = {}

    def sign(self, digest: bytes) -> bytes:
        """A credential over the digest."""
        about = f"v1 {os.geteuid()} {os.getegid()} {self._clock():.3f} {secrets.token_hex(16)}".encode("ascii")
        return about + b" " + self._mac(about, digest)

    def check(self, credential: bytes, digest: bytes) -> Sender:
        """Who signed this digest. Raises `AuthError`."""
        match = _FORM.fullmatch(credential)
        if match is None:
            raise AuthError("not a credential")
        if not hmac.compare_digest(self._mac(credential.rpartition(b" ")[0], digest), match[5]):
            raise AuthError("the credential is forged, of another key, or about something else")
        at, now = float(match[3]), self._clock()
        if abs(now - at) > GOOD_FOR:
            raise AuthError(f"the sender's clock differs by {now - at:.0f} s, or it was long on its way")
        with self._lock:
            if match[4] in self._seen:
                raise AuthError("a repeated credential")
            self._seen[match[4]] = now
            # In the order of their coming: the oldest are the first.
            for nonce in list(islice(self._seen, 2)):
                if now - self._seen[nonce] > 2 * GOOD_FOR:
                    del self._seen[nonce]
        return Sender(int(match[1]), int(match[2]), at)

    def seal(self, body: bytes, about: bytes, uid: int) -> bytes:
        """A signed answer. Whoever can read it can understand it: the standard library has no cipher."""
        credential = self.sign(digest_of(wire.ANSWER, body, about))
        return wire.line(credential, body) + credential + body

    def unseal(self, sealed: bytes, about: bytes) -> tuple[Sender, bytes]:
        """Who answered this question, and what. Raises `AuthError`."""
        try:
            parts = wire.split(sealed)
        except Malformed as error:
            raise AuthError(f"not an answer: {error}") from error
        if parts is None:
            raise AuthError("the answer was cut")
        return self.check(parts[0], digest_of(wire.ANSWER, parts[1], about)), parts[1]

    def _mac(self, about: bytes, digest: bytes) -> bytes:
        return hmac.new(self._key, about + b"\0" + digest, "sha256").hexdigest().encode("ascii")


def read_key(path: str) -> bytes:
    """The key in a file. Raises `AuthError` for a file that others can read or change, or that is too short."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            status = os.fstat(stream.fileno())
            key = stream.read(4096)
    except OSError as error:
        raise AuthError(f"{path}: the key cannot be read: {error.strerror or error}") from error
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o027 or status.st_uid not in (0, os.geteuid()):
        raise AuthError(f"{path}: the key has to be a file of root or of the caller, mode 0640 or less")
    if len(key.strip()) < SHORTEST:
        raise AuthError(f"{path}: the key has to have {SHORTEST} bytes or more (head -c 64 /dev/urandom | base64)")
    return key.strip()
