"""Calls that a later message may cancel, in dialects where cancelling is a message of its own."""

import asyncio
from collections.abc import Awaitable
from typing import TypeAlias, TypeVar

from toolhall.model.errors import Cancelled
from toolhall.runners.suspension import Noticed

T = TypeVar("T")
Key: TypeAlias = tuple[str, str]  # the caller, and the caller's own id for the call


class _Waiting:
    """A call that has to wait, and the task that waits."""

    def __init__(self, task: "asyncio.Task[object] | None") -> None:
        self.task = task
        self.cancelled = False


class Cancellation:
    """Knows the calls that wait; one that answers at once cannot be cancelled and costs nothing."""

    def __init__(self) -> None:
        self._waiting: dict[Key, _Waiting] = {}

    async def run(self, key: Key, work: Awaitable[T]) -> T:
        """Await the work; raises Cancelled when a message cancelled it."""
        try:
            return await Noticed(work, lambda: self._wait(key))
        except asyncio.CancelledError:
            waiting = self._waiting.get(key)
            if waiting is None or not waiting.cancelled or waiting.task is None:
                raise
            waiting.task.uncancel()
            raise Cancelled from None
        finally:
            self._waiting.pop(key, None)

    def cancel(self, key: Key) -> bool:
        """Cancel a caller's own call; False if it does not wait (any more)."""
        waiting = self._waiting.get(key)
        if waiting is None or waiting.task is None:
            return False
        waiting.cancelled = True
        waiting.task.cancel()
        return True

    def _wait(self, key: Key) -> None:
        self._waiting[key] = _Waiting(asyncio.current_task())
