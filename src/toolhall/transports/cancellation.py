"""Calls that a later message may cancel, in dialects where cancelling is a message of its own."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeAlias, TypeVar

from toolhall.model.errors import Cancelled
from toolhall.runners.suspension import Noticed

T = TypeVar("T")
# The caller, the line (two programs of one caller may use the same ids, each on a line of its own), and the call's id.
Key: TypeAlias = tuple[str, str, str | int]


class _Call:
    """A call, and the task that waits for it once it has to wait."""

    __slots__ = ("cancelled", "keys", "task")

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = keys
        self.task: asyncio.Task[object] | None = None
        self.cancelled = False


class Cancellation:
    """Knows the calls that wait; one that answers at once cannot be cancelled and costs nothing."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[_Call]] = {}

    async def run(self, keys: Sequence[Key], work: Awaitable[T]) -> T:
        """Await work that can be cancelled under each of these keys; raises Cancelled when a message did."""
        call = _Call(keys)
        try:
            return await Noticed(work, lambda: self._wait(call))
        except asyncio.CancelledError:
            # Whoever else cancels the task ends more than this one call.
            if call.cancelled and call.task is not None and call.task.cancelling() == 1:
                raise Cancelled from None
            raise
        finally:
            if call.task is not None:
                self._forget(call, call.task)

    def cancel(self, key: Key) -> bool:
        """Cancel a caller's own calls of this key; False if none waits (any more)."""
        found = self._waiting.get(key, ())
        for call in found:
            # Once is enough: a second time would end what the tool does to clean up.
            if call.task is not None and not call.cancelled:
                call.cancelled = True
                call.task.cancel()
        return bool(found)

    def _wait(self, call: _Call) -> None:
        call.task = asyncio.current_task()
        for key in call.keys:
            self._waiting.setdefault(key, []).append(call)

    def _forget(self, call: _Call, task: "asyncio.Task[object]") -> None:
        for key in call.keys:
            calls = self._waiting[key]
            calls.remove(call)
            if not calls:
                del self._waiting[key]
        if call.cancelled:
            task.uncancel()
