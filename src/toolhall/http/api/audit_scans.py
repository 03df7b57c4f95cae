"""`AuditScans`: bounds how many requests read the audit at once, each of which may read all of it.

A search that finds little reads every record, in a thread. Threads are shared with everything else that may block, and
whoever may look at a hall must not keep it from its work: readers wait for their turn, and who waits with too many
requests is refused. Callers that read their own calls wait for a turn of their own, and have half of the places, so
that observers always find one.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from toolhall.model.caller import Caller
from toolhall.model.errors import Limited

MAX_RUNNING = 3
MAX_RUNNING_OWN = 1  # beside them, of callers that read their own calls
MAX_OF_CALLER = 8  # those that wait included
MAX_OF_ALL = 32
MAX_OF_OWNER, MAX_OF_OWNERS = 2, 16  # of a caller, and of all callers, that read their own calls
RETRY_SECONDS = 1.0


class AuditScans:
    """The readings of one process."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_RUNNING)
        self._own_slots = asyncio.Semaphore(MAX_RUNNING_OWN)
        self._asked: Counter[str] = Counter()  # by caller, those that wait included

    @asynccontextmanager
    async def turn(self, caller: Caller, *, own: bool = False) -> AsyncGenerator[None]:
        """Wait for a turn, of `own` calls only; raises Limited if this caller, or all of them, wait with too many."""
        of_caller, of_all = (MAX_OF_OWNER, MAX_OF_OWNERS) if own else (MAX_OF_CALLER, MAX_OF_ALL)
        if self._asked[caller.id] >= of_caller or self._asked.total() >= of_all:
            raise Limited(RETRY_SECONDS)
        self._asked[caller.id] += 1
        try:
            async with self._own_slots if own else self._slots:
                yield
        finally:
            self._asked -= Counter([caller.id])
