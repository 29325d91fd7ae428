"""Who sent a message: the seam behind which MUNGE, or a key that nodes and service share, proves it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

DIGEST_BYTES = 32
KINDS = ("munge", "key")
"""The values of the setting `auth`."""


class AuthError(Exception):
    """It was not proven who sent it; the message says why. `later`: nobody could be asked now, so try again."""

    def __init__(self, why: str, later: bool = False) -> None:
        super().__init__(why)
        self.later = later


@dataclass(frozen=True)
class Sender:
    """Who signed: uid and gid, and when (epoch, by the clock of whoever signed).

    `address` is the IPv4 address of his host as the credential has it, empty if it has none.
    """

    uid: int
    gid: int
    at: float
    address: str = ""


class Auth(Protocol):
    """Signs digests, and checks who signed one. Seals answers that others may get hold of."""

    holds: int
    """Bytes of the longest answer that can be sealed."""

    def sign(self, digest: bytes) -> bytes:
        """A credential over the digest, good for some minutes and once. Raises `AuthError`."""

    def check(self, credential: bytes, digest: bytes) -> Sender:
        """Who signed this digest. Raises `AuthError` for forged, old and repeated credentials."""

    def seal(self, body: bytes, about: bytes, uid: int) -> bytes:
        """A signed answer to the question with the digest `about`; for this uid alone, where that can be had.

        Raises `AuthError`.
        """

    def unseal(self, sealed: bytes, about: bytes) -> tuple[Sender, bytes]:
        """Who answered this question, and what. Raises `AuthError`."""


def digest(role: bytes, body: bytes, about: bytes = b"") -> bytes:
    """What is signed: the body, in which role it was sent, and the digest of the question that it answers."""
    return hashlib.sha256(b"slurm-triage 1 " + role + b"\0" + about + b"\0" + body).digest()


def auth_of(kind: str, key: str) -> Auth:
    """The way to prove it that the settings name. Raises `AuthError` if it cannot be used on this host."""
    if kind == "munge":
        from slurm_triage.transport.munge import Munge

        return Munge()
    from slurm_triage.transport.key import Key, read_key

    return Key(read_key(key))
