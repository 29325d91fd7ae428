"""Debian builds torch without libuv, and the launcher asks for it whatever USE_LIBUV says: the older store instead."""

import sys

import torch.distributed


class Store(torch.distributed.TCPStore):
    """The store without libuv."""

    def __init__(self, *arguments, **named) -> None:
        super().__init__(*arguments, **{**named, "use_libuv": False})


def use() -> None:
    """Makes it the store of torch's rendezvous and of its launcher, if that is not imported yet."""
    torch.distributed.TCPStore = Store
    sys.modules["torch.distributed.rendezvous"].TCPStore = Store
