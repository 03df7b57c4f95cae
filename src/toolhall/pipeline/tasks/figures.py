"""TaskFigures: how many tasks are open, for health and metrics; counted when asked for, once a second at most."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from toolhall.pipeline.tasks.rows import TaskRows
from toolhall.stores.common import StoreFailed

_CACHE_SECONDS = 1.0  # health needs no credential
_log = logging.getLogger("toolhall.tasks")


class TaskFigures:
    """The numbers of all processes of the hall."""

    def __init__(self, rows: TaskRows, timer: Callable[[], float] = time.monotonic) -> None:
        self._rows = rows
        self._timer = timer
        self._fresh_until = float("-inf")
        self.open: Mapping[str, int] = {}  # by state
        self.oldest: float | None = None  # when the oldest open task was made
        self.failing = False  # the tasks cannot be counted now

    def readings(self) -> Iterator[tuple[str, Callable[[], float]]]:
        """Return for each state of an open task what reads its number."""
        for state in ("working", "input_required"):
            yield state, partial(self._number, state)

    def _number(self, state: str) -> float:
        return float(self.open.get(state, 0))

    async def refresh(self) -> None:
        """Count again, unless that was done within the last second."""
        now = self._timer()
        if now < self._fresh_until:
            return
        self._fresh_until = now + _CACHE_SECONDS
        try:
            counts = await self._rows.store.counts(self._rows.clock())
        except StoreFailed as failed:
            _log.error("open tasks cannot be counted: %s", failed)
            self.failing = True
            return
        self.open, self.oldest, self.failing = counts.open, counts.oldest, False
