"""How much is let in at once, of all senders and of one address: who floods the port does not shut others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

MOST_CONNECTIONS = 4000
MOST_BYTES = 256 * 1024 * 1024
"""Bytes of messages that have come in and are not answered yet."""
SHARE = 8
"""One address gets at most one part in so many of each."""


class Full(Exception):
    """No more is let in now."""


class Gate:
    """Counts connections and bytes. `share` as `SHARE`: 1 where many hosts come by one address (NAT)."""

    def __init__(
        self, share: int = SHARE, most_connections: int = MOST_CONNECTIONS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._most = {"connections": most_connections, "bytes": most_bytes}
        self._share = share
        self._now: Counter[str] = Counter()
        self._of: dict[str, Counter[str]] = {what: Counter() for what in self._most}

    @contextmanager
    def connection(self, address: str) -> Iterator[_Bytes]:
        """A connection from this address, and with it what counts its bytes. Raises `Full`."""
        self._add("connections", address, 1)
        held = _Bytes(self, address)
        try:
            yield held
        finally:
            self._take("connections", address, 1)
            self._take("bytes", address, held.count)

    def _add(self, what: str, address: str, number: int) -> None:
        most = self._most[what]
        if self._now[what] + number > most or self._of[what][address] + number > most // self._share:
            raise Full
        self._now[what] += number
        self._of[what][address] += number

    def _take(self, what: str, address: str, number: int) -> None:
        self._now[what] -= number
        self._of[what][address] -= number
        if not self._of[what][address]:
            del self._of[what][address]


class _Bytes:
    """The bytes that a connection has brought."""

    def __init__(self, gate: Gate, address: str) -> None:
        self._gate, self._address, self.count = gate, address, 0

    def add(self, number: int) -> None:
        """Counts more of them. Raises `Full`."""
        self._gate._add("bytes", self._address, number)
        self.count += number
