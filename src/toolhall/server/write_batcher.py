"""WriteBatcher: answers at most MAX_BATCH requests in one callback of the event loop, and writes the answers together.

Theory of operation. Connections only note here what they have read, and one callback then starts these requests and
writes what is answered. That is cheaper than an answer inside each read, for two reasons:

- Most of what sending costs is to wake the reader. Responses that are written right after one another wake a client of
  several connections once.
- uvloop gives the interpreter's lock away after every read. A thread that waits for it, as the audit's does, is woken
  each time and hardly ever gets it, because the loop goes on with the next read: two switches of context for nothing.
  Reads that only note a request follow each other so quickly that it wakes once for all of them.

A batch is bounded, because an event loop may deliver the requests of a thousand clients in one iteration, and uvloop
sends what was written at its end: requests beyond the batch wait for the next callback, in the order in which they
came, so that the first client does not wait until the last one is answered.
"""

import asyncio
import logging
from collections import deque
from typing import Protocol
from weakref import WeakKeyDictionary

MAX_BATCH = 64  # requests; a millisecond or two of calls

_log = logging.getLogger("toolhall.http")


class ReceivedRequest(Protocol):
    """A request that is ready to be run."""

    def start(self) -> None:
        """Run it, at least to where it first has to wait."""
        ...


class PendingWrite(Protocol):
    """A response that is ready to be written."""

    def flush(self) -> None:
        """Write it now."""
        ...


class WriteBatcher:
    """Collects the requests and the responses of all connections of an event loop, and runs and writes them together.

    A request or a response that fails is logged and delays no other.
    """

    __slots__ = ("_is_scheduled", "_pending", "_received")

    def __init__(self) -> None:
        self._received: deque[ReceivedRequest] = deque()  # one for each connection at most
        self._pending: list[PendingWrite] = []
        self._is_scheduled = False  # `_answer`

    def start(self, request: ReceivedRequest, loop: asyncio.AbstractEventLoop) -> None:
        """Start a request after what the event loop is reading in this iteration."""
        self._received.append(request)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._answer, loop)

    def schedule(self, write: PendingWrite, loop: asyncio.AbstractEventLoop) -> None:
        """Write a response together with the others of this iteration."""
        self._pending.append(write)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._answer, loop)

    def _answer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start as many requests as a batch has room for, then write what is answered by now."""
        received = self._received
        try:
            for _ in range(min(MAX_BATCH, len(received))):
                try:
                    received.popleft().start()
                except Exception:  # noqa: BLE001 - the other requests are answered all the same
                    _log.exception("a request could not be started")
            pending, self._pending = self._pending, []
            for write in pending:
                try:
                    write.flush()
                except Exception:  # noqa: BLE001 - the other responses are written all the same
                    _log.exception("a reply could not be sent")
        finally:
            self._is_scheduled = bool(received or self._pending)
            if self._is_scheduled:
                loop.call_soon(self._answer, loop)


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def write_batcher_for(loop: asyncio.AbstractEventLoop) -> WriteBatcher:
    """The WriteBatcher that all connections of this event loop share."""
    batcher = _batchers.get(loop)
    if batcher is None:
        batcher = _batchers[loop] = WriteBatcher()
    return batcher
