"""Where a name leads: all addresses that it has, so that all of them can be judged."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from ipaddress import ip_address
from typing import TypeAlias

from toolhall.egress.addresses import Address
from toolhall.egress.errors import EgressFailed

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
_Found: TypeAlias = "Future[Sequence[Address]]"


class Lookups:
    """As this machine resolves names; OSError for one that leads nowhere.

    Nobody can end a lookup that hangs. So each has a thread of its own, which nothing else waits for; there are at most
    so many; and whoever wants a name that is being looked up waits for the same answer.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[tuple[str, int], _Found] = {}
        self._lock = threading.Lock()

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """All addresses; EgressFailed at once where too many lookups have not ended."""
        return await asyncio.wrap_future(self._begun(host, port))

    def _begun(self, host: str, port: int) -> _Found:
        with self._lock:
            found = self._running.get((host, port))
            if found is None:
                if len(self._running) >= self._most:
                    raise EgressFailed(
                        f"{host} is not looked up now: {self._most} names are, and none has an answer yet"
                    )
                found = Future()
                found.set_running_or_notify_cancel()  # who stops waiting does not stop the others
                threading.Thread(target=self._look, args=(host, port, found), name="lookup", daemon=True).start()
                self._running[host, port] = found
        return found

    def _look(self, host: str, port: int, found: _Found) -> None:
        answer: Sequence[Address] | Exception
        try:
            told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer = tuple(dict.fromkeys(ip_address(where[0]) for _, _, _, _, where in told))
        except Exception as error:  # noqa: BLE001 - for whoever waits
            answer = error
        with self._lock:
            del self._running[host, port]
        if isinstance(answer, Exception):
            found.set_exception(answer)
        else:
            found.set_result(answer)


system = Lookups(16)
for_hall = Lookups(4)  # what the hall itself asks for: tools that fill all places of theirs hold up nobody's login
