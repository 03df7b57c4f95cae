"""WriteBatcher: answers at most MAX_BATCH requests in one iteration of the event loop, and writes the answers together.

Most of what sending costs is to wake the reader. Responses that are written right after one another wake a client of
several connections once. The batch is bounded, because an event loop may deliver the requests of a thousand clients in
one iteration, and uvloop sends what was written at its end: requests beyond the batch wait for the next iteration, in
the order in which they came, so that the first client does not wait until the last one is answered.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

MAX_BATCH = 64  # responses; a millisecond or two of calls

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

    __slots__ = ("_deferred", "_is_scheduled", "_pending", "is_full")

    def __init__(self) -> None:
        self._pending: list[PendingWrite] = []
        self._deferred: deque[Callable[[], None]] = deque()  # one for each connection at most
        self._is_scheduled = False  # `_flush` in the next iteration
        self.is_full = False  # this iteration has answered enough, or requests wait already: defer the next one

    def schedule(self, write: PendingWrite, loop: asyncio.AbstractEventLoop) -> None:
        """Write it after what the event loop is doing in this iteration."""
        pending = self._pending
        pending.append(write)
        if len(pending) == 1:
            self._schedule_flush(loop)
        elif len(pending) == MAX_BATCH:
            self.is_full = True

    def defer(self, start: Callable[[], None]) -> None:
        """Start this request in one of the next iterations; only while the batch `is_full`."""
        self._deferred.append(start)

    def _schedule_flush(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._flush, loop)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write what is ready, then start what was deferred, as much as a batch has room for."""
        self._is_scheduled = False
        pending, self._pending = self._pending, []
        for write in pending:
            try:
                write.flush()
            except Exception:  # noqa: BLE001 - the other responses are written all the same
                _log.exception("a reply could not be sent")
        if self._deferred:
            self._schedule_flush(loop)  # also if none of these is answered at once
            for _ in range(min(MAX_BATCH, len(self._deferred))):
                self._deferred.popleft()()
        self.is_full = bool(self._deferred) or len(self._pending) >= MAX_BATCH


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def write_batcher_for(loop: asyncio.AbstractEventLoop) -> WriteBatcher:
    """The WriteBatcher that all connections of this event loop share."""
    batcher = _batchers.get(loop)
    if batcher is None:
        batcher = _batchers[loop] = WriteBatcher()
    return batcher
