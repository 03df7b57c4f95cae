"""WriteBatcher: writes the responses that become ready in one iteration of the event loop right after one another.

Most of what sending costs is to wake the reader. Responses that are written in one go wake a client of several
connections once. The batch is bounded: the first of many clients must not wait until the last one is answered.
"""

import asyncio
import logging
from typing import Protocol
from weakref import WeakKeyDictionary

MAX_BATCH = 64  # responses; about a millisecond of calls

_log = logging.getLogger("toolhall.http")


class PendingWrite(Protocol):
    """A response that is ready to be written."""

    def flush(self) -> None:
        """Write it now."""
        ...


class WriteBatcher:
    """Collects the responses of all connections of an event loop, and writes them in a callback of their own.

    A response that cannot be written is logged and delays no other.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[PendingWrite] = []

    def schedule(self, write: PendingWrite, loop: asyncio.AbstractEventLoop) -> None:
        """Write it after what the event loop is doing in this iteration, or now, with MAX_BATCH - 1 others."""
        pending = self._pending
        pending.append(write)
        if len(pending) == 1:
            loop.call_soon(self._flush)
        elif len(pending) == MAX_BATCH:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for write in pending:
            try:
                write.flush()
            except Exception:  # noqa: BLE001 - the other responses are written all the same
                _log.exception("a reply could not be sent")


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def write_batcher_for(loop: asyncio.AbstractEventLoop) -> WriteBatcher:
    """The WriteBatcher that all connections of this event loop share."""
    batcher = _batchers.get(loop)
    if batcher is None:
        batcher = _batchers[loop] = WriteBatcher()
    return batcher
