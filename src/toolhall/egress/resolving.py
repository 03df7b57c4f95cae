"""Where a name leads: all addresses that it has, so that all of them can be judged."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import TypeAlias

from toolhall.egress.addresses import Address

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def system(host: str, port: int) -> list[Address]:
    """As this machine resolves names; OSError for one that leads nowhere."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(where[0]) for _, _, _, _, where in found))
