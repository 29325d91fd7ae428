"""Tells systemd how the service is (sd_notify(3)): a datagram to the socket that it names, nothing without one."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(text: str) -> None:
    """Sends `READY=1`, `WATCHDOG=1`, `STATUS=...` and the like. Never raises: without systemd nobody listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.send(text.encode())
