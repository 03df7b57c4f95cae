"""`ProcessValidator`: validates costly values against a schema in a killable process, within a time budget.

Validation is C code that holds the GIL and cannot be interrupted. A value that may take long is therefore sent to a
process, which is killed when it overruns the budget.
"""

import asyncio
import os
import threading
from concurrent.futures import BrokenExecutor
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.validator import Validator

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

BUDGET_SECONDS = 0.2
_START_SECONDS = 10.0


class ProcessValidator:
    """One validating process, started when first needed and replaced when it overruns its budget."""

    def __init__(self, budget: float = BUDGET_SECONDS) -> None:
        self._budget = budget
        self._pool: ProcessPoolExecutor | None = None
        self._lock = asyncio.Lock()

    async def problems(self, schema: JsonObject, value: Json, size: int) -> list[Problem]:
        """The problems of the value; raises BadArguments if finding them takes longer than the budget."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            try:
                pool = await self._ensure_started()
                work = loop.run_in_executor(pool, _validate, encode(schema), encode(value), size)
                return await asyncio.wait_for(work, self._budget)
            except asyncio.CancelledError:
                self.close()  # the process would go on, and the next value would wait for it
                raise
            except (TimeoutError, BrokenExecutor):
                self.close()
                reason = "these arguments take too long to check against the schema; send smaller or flatter ones"
                raise BadArguments([Problem("", reason)]) from None

    async def _ensure_started(self) -> "ProcessPoolExecutor":
        if self._pool is None:
            from concurrent.futures import ProcessPoolExecutor  # lazy: multiprocessing, for costly values only
            from multiprocessing import get_context  # lazy: as above

            self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_exit_with_parent)
            ready = asyncio.get_running_loop().run_in_executor(self._pool, _ping)
            await asyncio.wait_for(ready, _START_SECONDS)
        return self._pool

    def close(self) -> None:
        """Kill the process, also in the middle of its work."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):  # an executor has no public way to kill one
                process.kill()
            pool.shutdown(wait=True, cancel_futures=True)


def _exit_with_parent() -> None:
    """End this process when its parent ends, also when the parent was killed."""
    from multiprocessing import parent_process  # lazy: as in _ensure_started

    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _ping() -> None:
    """Do nothing; returns once the process has imported this module."""


@lru_cache(64)
def _compile(schema: bytes) -> Validator:
    return Validator(msgspec.json.decode(schema))


def _validate(schema: bytes, value: bytes, size: int) -> list[Problem]:
    return _compile(schema).problems(msgspec.json.decode(value), size)
