"""Which host is at an address: nodes as slurmctld knows them, and the controller's hosts."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable

AGE = 600.0
"""Seconds for which the list of nodes is taken as unchanged."""
SOONER = 30.0
"""Seconds after which it is asked for again if a node is not in it."""
_NODE = re.compile(r"^NodeName=(\S{1,64}) .*?\bNodeAddr=(\S{1,255}) NodeHostName=(\S{1,255})", re.MULTILINE)
_CONTROLLER = re.compile(r"^SlurmctldHost\[\d+\]\s*=\s*([\w.-]{1,255})(?:\(([\w.:-]{1,255})\))?\s*$", re.MULTILINE)

Ask = Callable[[], str]


class Peers:
    """Knows addresses. `nodes` and `config` ask Slurm (`scontrol show nodes -o`, `scontrol show config`) or raise."""

    def __init__(self, nodes: Ask, config: Ask, resolve: Callable[[str], frozenset[str]] | None = None) -> None:
        self._ask_nodes, self._ask_config = nodes, config
        self._resolve = resolve or addresses
        self._lock = threading.Lock()
        self._nodes: dict[str, tuple[str, ...]] = {}
        self._controllers: tuple[str, ...] = ()
        self._at = float("-inf")
        self._known: dict[str, tuple[float, frozenset[str]]] = {}

    def node_is_at(self, node: str, address: str) -> bool | None:
        """Whether the node is at the address; None if slurmctld could not be asked. Blocks while it is asked."""
        with self._lock:
            names = self._names(node)
            if names is None:
                return None
            return any(_same(address, self._addresses(name)) for name in names)

    def controller_is_at(self, address: str) -> bool | None:
        """Whether a host of slurmctld is at the address; None if it could not be asked."""
        with self._lock:
            if self._names("") is None:
                return None
            return any(_same(address, self._addresses(name)) for name in self._controllers)

    def _names(self, node: str) -> tuple[str, ...] | None:
        """Names and addresses of a node; empty if there is no such node."""
        age = time.monotonic() - self._at
        if age > AGE or (node and node not in self._nodes and age > SOONER):
            try:
                listed, config = self._ask_nodes(), self._ask_config()
            except Exception:  # Slurm cannot be asked: what was known before is still better than nothing
                if not self._nodes:
                    return None
            else:
                self._nodes = {m[1]: tuple(dict.fromkeys((m[2], m[3]))) for m in _NODE.finditer(listed)}
                self._controllers = tuple(m[2] or m[1] for m in _CONTROLLER.finditer(config))
                self._known = {}
            self._at = time.monotonic()
        return self._nodes.get(node, ())

    def _addresses(self, name: str) -> frozenset[str]:
        at, known = self._known.get(name, (float("-inf"), frozenset()))
        if time.monotonic() - at > AGE:
            known = self._resolve(name)
            self._known[name] = (time.monotonic(), known)
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
