"""Replies that are ready in one turn of the loop go out one right after the other.

Most of what it costs to send a reply is to wake its reader; one that reads from many connections is then awake already
for all replies but the first.
"""

import asyncio
import logging
from typing import Protocol
from weakref import WeakKeyDictionary

_log = logging.getLogger("toolhall.http")


class Reply(Protocol):
    """A reply that is ready."""

    def go(self) -> None:
        """Go out now."""
        ...


class Outbox:
    """Shared by all connections of a loop."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: list[Reply] = []

    def put(self, reply: Reply, loop: asyncio.AbstractEventLoop) -> None:
        """Send it once everything has run that is to run in this turn."""
        if not self._ready:
            loop.call_soon(self._send)
        self._ready.append(reply)

    def _send(self) -> None:
        ready, self._ready = self._ready, []
        for reply in ready:
            try:
                reply.go()
            except Exception:  # noqa: BLE001 - the other replies are not to wait for ever
                _log.exception("a reply could not be sent")


_outboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Outbox] = WeakKeyDictionary()


def outbox_of(loop: asyncio.AbstractEventLoop) -> Outbox:
    """The one of this loop."""
    found = _outboxes.get(loop)
    if found is None:
        found = _outboxes[loop] = Outbox()
    return found
