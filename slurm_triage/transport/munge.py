"""Credentials of MUNGE, by its library. Constants and signatures: munge.h of munge 0.5.15.

munged refuses a credential that it has decoded before, and one that is older than its time to live (usually 5 minutes).
"""

from __future__ import annotations

import ctypes
import socket as sockets
import time

from slurm_triage.transport import wire
from slurm_triage.transport.auth import DIGEST_BYTES, AuthError, Sender
from slurm_triage.transport.auth import digest as digest_of

_LIBRARY = "libmunge.so.2"
_OPT_ADDR4, _OPT_ENCODE_TIME, _OPT_SOCKET, _OPT_UID_RESTRICTION = 5, 6, 8, 9
_SOCKET, _TIMEOUT = 6, 7
_EXPIRED, _REWOUND, _REPLAYED = 15, 16, 17
_LATER = (_SOCKET, _TIMEOUT)


class Munge:
    """Signs as the caller's uid and gid. `socket` is munged's, empty for the usual one.

    Raises `AuthError` where there is no library.
    """

    holds = 700 * 1024
    """munged takes messages of 1 MiB (MUNGE_MAXIMUM_REQ_LEN), which a credential of 786,294 bytes fills (tried)."""

    def __init__(self, socket: str = "") -> None:
        self._socket = socket.encode()
        try:
            self._lib = _library()
        except OSError as error:
            raise AuthError(
                f'MUNGE\'s library cannot be loaded ({error}): install MUNGE, or use auth = "key"'
            ) from error

    def sign(self, digest: bytes) -> bytes:
        """A credential over the digest. Raises `AuthError`."""
        return self._encode(digest, None)

    def seal(self, body: bytes, about: bytes, uid: int) -> bytes:
        """A credential that holds the answer, which munged tells to processes of this uid only. Raises `AuthError`."""
        return self._encode(digest_of(wire.ANSWER, body, about) + body, uid)

    def _encode(self, payload: bytes, reader: int | None) -> bytes:
        made = ctypes.c_void_p()
        context = self._context()
        try:
            if reader is not None:
                self._lib.munge_ctx_set(context, _OPT_UID_RESTRICTION, ctypes.c_uint32(reader))
            status = self._lib.munge_encode(ctypes.byref(made), context, payload, len(payload))
            if status or not made.value:
                raise AuthError(f"no credential: {self._why(status)}", status in _LATER)
            return ctypes.string_at(made.value)
        finally:
            self._free(made)
            self._lib.munge_ctx_destroy(context)

    def check(self, credential: bytes, digest: bytes) -> Sender:
        """Who signed this digest. Raises `AuthError`."""
        return self._decode(credential, digest)[0]

    def unseal(self, sealed: bytes, about: bytes) -> tuple[Sender, bytes]:
        """Who answered this question, and what. Raises `AuthError`."""
        sender, said = self._decode(sealed, None)
        body = said[DIGEST_BYTES:]
        if said[:DIGEST_BYTES] != digest_of(wire.ANSWER, body, about):
            raise AuthError("the answer is about something else")
        return sender, body

    def _decode(self, credential: bytes, expected: bytes | None) -> tuple[Sender, bytes]:
        """Who signed, and what; `expected` is what it has to be, if that is known before."""
        if b"\0" in credential:
            raise AuthError("not a credential")
        context = self._context()
        payload, size = ctypes.c_void_p(), ctypes.c_int()
        uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
        made = ctypes.c_long()
        address = (ctypes.c_ubyte * 4)()
        try:
            status = self._lib.munge_decode(credential, context, *map(ctypes.byref, (payload, size, uid, gid)))
            said = ctypes.string_at(payload.value, size.value) if payload.value else b""
            self._lib.munge_ctx_get(context, _OPT_ENCODE_TIME, ctypes.byref(made))
            self._lib.munge_ctx_get(context, _OPT_ADDR4, ctypes.byref(address))
        finally:
            self._free(payload)
            self._lib.munge_ctx_destroy(context)
        if status in (_EXPIRED, _REWOUND) and expected in (said, None):
            off = time.time() - made.value
            raise AuthError(
                f"{self._why(status)}: the sender's clock differs by {off:.0f} s, or it was long on its way"
            )
        if status:
            raise AuthError(self._why(status), status in _LATER)
        if expected not in (said, None):
            raise AuthError("the credential is about something else")
        return Sender(uid.value, gid.value, float(made.value), sockets.inet_ntoa(bytes(address))), said

    def _context(self) -> int | None:
        context: int | None = self._lib.munge_ctx_create()
        if self._socket:
            self._lib.munge_ctx_set(context, _OPT_SOCKET, self._socket)
        return context

    def _why(self, status: int) -> str:
        return f"MUNGE says: {self._lib.munge_strerror(status).decode('ascii', 'replace')}"

    def _free(self, pointer: ctypes.c_void_p) -> None:
        if pointer.value:
            self._lib.free(pointer)


def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(_LIBRARY)
    pointer = ctypes.POINTER
    lib.munge_ctx_create.restype = ctypes.c_void_p
    lib.munge_ctx_create.argtypes = []
    lib.munge_ctx_destroy.argtypes = [ctypes.c_void_p]
    # munge_ctx_get and munge_ctx_set take their last argument by "...".
    lib.munge_ctx_set.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.munge_ctx_get.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.munge_encode.argtypes = [pointer(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    lib.munge_decode.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, pointer(ctypes.c_void_p), pointer(ctypes.c_int),
        pointer(ctypes.c_uint32), pointer(ctypes.c_uint32),
    ]  # fmt: skip
    lib.munge_strerror.restype = ctypes.c_char_p
    lib.munge_strerror.argtypes = [ctypes.c_int]
    lib.free.argtypes = [ctypes.c_void_p]  # of the C library, which the library is linked with
    lib.free.restype = None
    return lib
