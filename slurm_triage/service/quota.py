"""How much evidence one node may bring in a while, so that no node fills the store of all others."""

from __future__ import annotations

from collections import Counter

SECONDS = 600.0
MOST_BYTES = 256 * 1024 * 1024
"""Of one node in `SECONDS`: a hundred jobs with the most that an agent sends of each."""


class Quota:
    """Counts the bytes of each node anew every `seconds`. For one thread."""

    def __init__(self, most: int = MOST_BYTES, seconds: float = SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._since = float("-inf")
        self._of: Counter[str] = Counter()

    def room(self, node: str, size: int, now: float) -> bool:
        """Whether the node may bring so many bytes more at the time `now` (seconds of a clock that only goes on).

        They are counted then. A node that has brought nothing yet may bring any message that the port lets in.
        """
        if now - self._since >= self._seconds:
            self._since = now
            self._of.clear()
        if self._of[node] and self._of[node] + size > self._most:
            return False
        self._of[node] += size
        return True
