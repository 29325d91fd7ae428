"""Which host is at an address: nodes as slurmctld knows them, and the controller's hosts."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable

AGE = 600.0
"""Seconds for which the list of nodes is taken as unchanged, and the addresses of a host."""
SOONER = 30.0
"""Seconds after which it is asked for again if it does not know a host at an address, or if it could not be had."""
PATIENCE = 5.0
"""Seconds for which one question waits for what another one asks of slurmctld, while nothing is known yet."""
_NODE = re.compile(r"^NodeName=(\S{1,64}) .*?\bNodeAddr=(\S{1,255}) NodeHostName=(\S{1,255})", re.MULTILINE)
_CONTROLLER = re.compile(r"^SlurmctldHost\[\d+\]\s*=\s*([\w.-]{1,255})(?:\(([\w.:-]{1,255})\))?\s*$", re.MULTILINE)

Ask = Callable[[], str]


class Peers:
    """Knows addresses. `nodes` and `config` ask Slurm (`scontrol show nodes -o`, `scontrol show config`) or raise."""

    def __init__(
        self,
        nodes: Ask,
        config: Ask,
        resolve: Callable[[str], frozenset[str]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask_nodes, self._ask_config, self._clock = nodes, config, clock
        self._resolve = resolve or addresses
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._controllers: tuple[str, ...] = ()
        self._at = self._failed_at = float("-inf")
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    def node_is_at(self, node: str, address: str) -> bool | None:
        """Whether the node is at the address; None if nobody can tell now. May block while slurmctld is asked."""
        return self._is_at(lambda: self._nodes.get(node, ()), address)

    def controller_is_at(self, address: str) -> bool | None:
        """Whether a host of slurmctld is at the address; None if nobody can tell now. May block as well."""
        return self._is_at(lambda: self._controllers, address)

    def _is_at(self, names: Callable[[], tuple[str, ...]], address: str) -> bool | None:
        """A `no` costs the sender what it has sent, so it is said only of a list that was asked for just now.

        Nodes are added, and come back from power saving at other addresses.
        """
        fresh = self._look(AGE)
        if not self._nodes:
            return None
        there = self._matches(names(), address)
        if there is False and not fresh:
            fresh = self._look(SOONER)
            there = self._matches(names(), address) if fresh else None
        return there

    def _look(self, age: float) -> bool:
        """Asks for the list if it is older than that; whether it was asked for now."""
        now = self._clock()
        if now - self._at <= age or now - self._failed_at <= SOONER:
            return False
        # Asking may take as long as slurmctld likes; others go on with what is known.
        if not self._lock.acquire(timeout=0 if self._nodes else PATIENCE):
            return False
        try:
            if self._at > now or self._failed_at > now:
                return self._at > now  # another one has asked meanwhile
            listed, config = self._ask_nodes(), self._ask_config()
            self._nodes = {m[1]: tuple(dict.fromkeys((m[2], m[3]))) for m in _NODE.finditer(listed)}
            self._controllers = tuple(m[2] or m[1] for m in _CONTROLLER.finditer(config))
            self._known = {}
            self._at = self._clock()
        except Exception:  # Slurm cannot be asked: what was known before is still better than nothing
            self._failed_at = self._clock()
            return False
        finally:
            self._lock.release()
        return True

    def _matches(self, names: tuple[str, ...], address: str) -> bool | None:
        """Whether one of the names is at the address; None if no name has an address now (no DNS)."""
        found = [self._addresses(name) for name in names]
        if any(_same(address, known) for known in found):
            return True
        return None if found and not any(found) else False

    def _addresses(self, name: str) -> frozenset[str]:
        now = self._clock()
        at, known = self._known.get(name, (float("-inf"), frozenset()))
        if now - at > (AGE if known else SOONER):
            known = self._resolve(name)
            self._known[name] = (self._clock(), known)
        return known


def addresses(name: str) -> frozenset[str]:
    """The addresses of a host, none if its name cannot be resolved."""
    try:
        return frozenset(str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return frozenset()


def _same(address: str, known: frozenset[str]) -> bool:
    """Whether an address is one of those; a connection from this host itself is one from any address that it has."""
    plain = _plain(address)
    if plain is None:
        return False
    others = {other for text in known if (other := _plain(text)) is not None}
    return plain in others or (plain.is_loopback and any(other.is_loopback or _is_ours(str(other)) for other in others))


def _plain(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def _is_ours(address: str) -> bool:
    """Whether this host has the address: only then can something be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
