"""The service's port: takes evidence, hands out texts.

It has a thread of its own, so that rounds and nodes do not wait for each other.
"""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from slurm_triage.service.answering import Answering
from slurm_triage.service.gate import MOST_CONNECTIONS, Full, Gate
from slurm_triage.transport import auth, message, wire
from slurm_triage.transport.auth import AuthError
from slurm_triage.transport.message import Malformed, Message

SLOW = 30.0
"""Seconds for a message to come in whole, or an answer to go out."""
FIRST = 10.0
"""Seconds for its first line."""
PIECE = 256 * 1024
"""Bytes of a message that are read at once."""
BACKLOG = 4096
OTHER_FILES = 200
"""Open files beside those of connections."""


class ListenError(Exception):
    """The port cannot be opened; the message says why."""


class Listener:
    """Serves in a thread from `start` to `stop`; `answering` works in that thread, and for no other way."""

    def __init__(self, address: tuple[str, int], answering: Answering, gate: Gate | None = None) -> None:
        self.address = address
        self._gate, self._answering = gate or Gate(), answering
        self.counts = answering.counts
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # -------------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Opens the port and serves. Raises `ListenError`."""
        _allow_files()
        opened: list[BaseException | None] = []
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(opened, ready), name="listener", daemon=True)
        self._thread.start()
        ready.wait()
        if opened and opened[0] is not None:
            raise ListenError(f"cannot listen on {self.address[0]}:{self.address[1]}: {opened[0]}")

    def _serve(self, opened: list[BaseException | None], ready: threading.Event) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._answering.begin()
            self._ended = asyncio.Event()
            try:
                server = await asyncio.start_server(
                    self._connection, self.address[0] or None, self.address[1], limit=1 << 16, backlog=BACKLOG
                )
            except OSError as error:
                opened.append(error)
                ready.set()
                return
            self.address = server.sockets[0].getsockname()[:2]
            ready.set()
            async with server:
                await self._ended.wait()

        asyncio.run(main())

    def stop(self) -> None:
        """Closes the port; what is under way is cut off, and its senders try again."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(10)
        self._answering.close()

    def published(self, jobs: Iterable[str]) -> None:
        """Something is said of these jobs: whoever waits for it asks again. For any thread."""
        self._answering.published(jobs)

    # -------------------------------------------------------------------------------------------- one connection

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("?",))[0])
        try:
            with self._gate.connection(address) as held:
                await self._talk(reader, writer, address, held.add)
        except Full:
            self.counts["turned-away"] += 1
            self._answering.complain("turned-away", sender=address, why="too many connections, or too much at once")
        except (Malformed, AuthError) as error:
            self.counts["not-understood"] += 1
            self._answering.complain("not-understood", sender=address, why=str(error))
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self.counts["cut"] += 1
        except asyncio.CancelledError:  # the port is being closed; asyncio would print it
            return
        except Exception as error:  # one sender must not end the service
            self.counts["failed"] += 1
            self._answering.complain("listener", why=f"{type(error).__name__}: {error}")
        finally:
            with suppress(Exception):
                writer.close()

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, count: Callable[[int], None]
    ) -> None:
        first, second = wire.sizes(await asyncio.wait_for(reader.readuntil(b"\n"), FIRST))
        credential, body = await asyncio.wait_for(_whole(reader, first, second, count), SLOW)
        about = auth.digest(wire.QUESTION, body)
        sender, question = await self._answering.aside(self._answering.open, credential, body, about)
        answer = await self._answering.answer(question, sender, address)
        packed, signed = await self._answering.aside(self._sign, answer, about)
        writer.write(wire.line(signed, packed) + signed + packed)
        await asyncio.wait_for(writer.drain(), SLOW)

    def _sign(self, answer: Message, about: bytes) -> tuple[bytes, bytes]:
        packed = message.pack(answer)
        return packed, self._answering.way.sign(auth.digest(wire.ANSWER, packed, about))


async def _whole(
    reader: asyncio.StreamReader, first: int, second: int, count: Callable[[int], None]
) -> tuple[bytes, bytes]:
    """The credential and the body. Only what has come is counted: announcing much costs nothing."""
    credential = await reader.readexactly(first)
    pieces, left = [], second
    while left:
        piece = await reader.readexactly(min(left, PIECE))
        count(len(piece))
        pieces.append(piece)
        left -= len(piece)
    return credential, b"".join(pieces)


def _allow_files() -> None:
    """Each connection is an open file, and the usual limit is 1,024: beyond it the whole service could open none."""
    most, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if most != resource.RLIM_INFINITY and most < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
