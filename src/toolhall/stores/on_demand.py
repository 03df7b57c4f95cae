"""A file that is made with its first change: a hall that nothing was ever kept by need not wait for it."""

import asyncio
from collections.abc import Callable

from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.lock import Lock

_NOTHING_YET = -1  # no version of a file that is there


class OnDemand:
    """Empty until then; the lock on the folder is held from the start.

    Where several processes share the folder, `is_there` tells whether another one has made the file.
    """

    def __init__(
        self, make: Callable[[Lock], Stores], lock: Lock, is_there: Callable[[], bool] = lambda: False
    ) -> None:
        self._make = make
        self._lock = lock
        self._is_there = is_there
        self._making: asyncio.Task[Stores] | None = None
        self._made: Stores | None = None
        self._empty = in_memory()  # only ever read, except for the audit's anchor
        self._closed = False

    def now(self) -> Stores:
        """What can be read."""
        return self._made or self._empty

    async def writer(self) -> Stores:
        """Make the file once, whoever waits for that, and whether anybody still does."""
        if self._made is not None:
            return self._made
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make, self._lock))
            self._making.add_done_callback(self._take)
        return await asyncio.shield(self._making)

    async def version(self) -> int:
        """Another number once another process has changed something; opens the file that another has made."""
        if self._made is None and not self._is_there():
            return _NOTHING_YET
        made = await self.writer()
        return _NOTHING_YET if made.version is None else await made.version()

    def close(self) -> None:
        """Finish what is being written, then let another process have the folder."""
        self._closed = True
        if self._made is not None:
            self._made.close()
        elif self._making is None:
            self._lock.release()

    def _take(self, making: "asyncio.Task[Stores]") -> None:
        self._making = None
        if making.cancelled() or making.exception() is not None:
            if self._closed:
                self._lock.release()
            return  # whoever waits hears of it, and the next change tries again
        self._made = making.result()
        known = self._empty.anchors.read()
        if known.public:  # what was told of the audit while there was no file
            self._made.anchors.advance(known.public, tuple(known.marks.values()))
        if self._closed:
            self._made.close()
