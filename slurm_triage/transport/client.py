"""Asks one of several services, each question with a credential of its own."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Collection, Sequence

from slurm_triage.transport import auth, message, shared_folder, wire
from slurm_triage.transport.auth import Auth, AuthError, Sender
from slurm_triage.transport.message import Malformed, Message

CONNECT = 5.0
"""Seconds to wait for a connection."""
ANSWER = 30.0
"""Seconds to wait for an answer, beyond the time that the question allows it."""

LOOK = 0.5
"""Seconds between two looks whether it is still worth waiting."""


class Unreachable(Exception):
    """No service took the question; the message says of each why. Try again later."""


class Refused(Exception):
    """A service understood the question and will not take it; asking again changes nothing."""


class Abandoned(Exception):
    """Whoever asked has something better to do than to wait for the answer."""


class Client:
    """A client of the services at `servers` (`host` or `host:port`, `[v6]:port`, `dir:/path`), asked in turn.

    Answers are believed if one of `trusted` (uids) signed them. Raises `ValueError` for a server that is none.
    """

    def __init__(self, servers: Sequence[str], way: Auth, trusted: Collection[int]) -> None:
        self._servers = [checked(text) for text in servers]
        self._auth = way
        self._trusted = frozenset(trusted)

    def ask(self, question: Message, wait: float = 0.0, until: Callable[[], bool] = lambda: False) -> Message:
        """The answer. `wait` is how long the service may take by agreement, while `until` says nothing.

        Raises `Unreachable`, `Refused`; `Abandoned` once `until` says that it is enough.
        """
        body = message.pack(question)
        problems = []
        for index, server in enumerate(self._servers):
            try:
                answer = self._ask(server, body, wait, until)
            except (OSError, AuthError, Malformed) as error:
                problems.append(f"{_shown(server)}: {getattr(error, 'strerror', None) or error}")
                continue
            # The one that answers is asked first the next time.
            self._servers.insert(0, self._servers.pop(index))
            if answer.kind == "refused":
                raise Refused(str(answer.head.get("why", "refused"))[:300])
            if answer.kind == "later":
                problems.append(f"{_shown(server)}: {str(answer.head.get('why', 'busy'))[:300]}")
                continue
            return answer
        raise Unreachable("; ".join(problems) or "no service is named in the settings")

    def _ask(self, server: str, body: bytes, wait: float, until: Callable[[], bool]) -> Message:
        folder = shared_folder.path_of(server)
        if folder is None:
            sender, answer = self._by_port(place(server), body, wait, until)
        else:
            sender, answer = self._by_folder(folder, body, wait, until)
        if sender.uid not in self._trusted:
            raise AuthError(f"uid {sender.uid} answered, which is not the service's (setting service_users)")
        return message.unpack(answer)

    def _by_port(
        self, server: tuple[str, int], body: bytes, wait: float, until: Callable[[], bool]
    ) -> tuple[Sender, bytes]:
        about = auth.digest(wire.QUESTION, body)
        credential = self._auth.sign(about)
        deadline = time.monotonic() + CONNECT + ANSWER + wait
        with socket.create_connection(server, timeout=CONNECT) as stream:
            stream.settimeout(ANSWER)
            stream.sendall(wire.line(credential, body) + credential + body)
            while wait and not select.select([stream], [], [], LOOK)[0]:
                if until():
                    raise Abandoned
                if time.monotonic() > deadline:
                    raise TimeoutError("no answer in time")
            line = bytearray()
            while not line.endswith(b"\n") and len(line) < wire.LONGEST_LINE:
                line += _all(stream, 1, deadline) or b"\n"
            first, second = wire.sizes(bytes(line))
            said, answer = _all(stream, first, deadline), _all(stream, second, deadline)
        if len(said) != first or len(answer) != second:
            raise Malformed("the answer was cut")
        return self._auth.check(said, auth.digest(wire.ANSWER, answer, about)), answer

    def _by_folder(self, folder: str, body: bytes, wait: float, until: Callable[[], bool]) -> tuple[Sender, bytes]:
        name = shared_folder.new_name()
        about = auth.digest(shared_folder.ROLE, body, name.encode("ascii"))
        credential = self._auth.sign(about)
        question = wire.line(credential, body) + credential + body
        said = shared_folder.exchange(folder, name, question, self._trusted, CONNECT + ANSWER + wait, until)
        if said is None:
            raise Abandoned
        return self._auth.unseal(said, about)


def _all(stream: socket.socket, size: int, deadline: float) -> bytes:
    """So many bytes, or fewer if the stream ends. Raises `TimeoutError` past the deadline, however slowly they come."""
    pieces, left = [], size
    while left:
        rest = deadline - time.monotonic()
        if rest <= 0:
            raise TimeoutError("no whole answer in time")
        stream.settimeout(rest)
        piece = stream.recv(min(left, 1 << 20))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def checked(server: str) -> str:
    """The same, if it names a service: as `place`, or `dir:/path`. Raises `ValueError`."""
    if shared_folder.path_of(server) is None:
        place(server)
    return server


def _shown(server: str) -> str:
    if shared_folder.path_of(server) is not None:
        return server
    host, port = place(server)
    return f"{host}:{port}"


def place(text: str) -> tuple[str, int]:
    """(host, port) of `host`, `host:port` or `[address]:port`. Raises `ValueError`."""
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port[1:] if port.startswith(":") else port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(f"{text!r} is not HOST or HOST:PORT")
    return host, int(port or wire.PORT)
