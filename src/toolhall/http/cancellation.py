"""Cancellation of running calls: by a closed connection (`CancelOnDisconnect`) or a message (`CancellableCalls`).

Both run the call step by step and arm themselves when it first has to wait: a call that finishes at once creates no
task and no watcher.
"""

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from toolhall.execution.deadline import OnFirstSuspend, is_short_wait
from toolhall.http.request import HttpRequest
from toolhall.model.errors import Cancelled

T = TypeVar("T")
_MAX_IDLE_MESSAGES = 3


class CancelOnDisconnect(Generic[T]):
    """`await WhilePresent(exchange, work)` is what the work gives; None once the client has closed the connection.

    That cancels the work. A call that answers at once pays for no watch.
    """

    __slots__ = ("_request", "_work")

    def __init__(self, request: HttpRequest, work: Awaitable[T]) -> None:
        self._request = request
        self._work = work

    def __await__(self) -> Generator[Any, Any, T | None]:
        steps = self._work.__await__()
        try:
            waiting_for = next(steps)
            while is_short_wait(waiting_for):
                thrown: BaseException | None = None
                try:
                    yield waiting_for
                except BaseException as error:  # noqa: BLE001 - a cancellation must reach the work
                    thrown = error
                waiting_for = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        return (yield from _run_watched(self._request, _StartedAwaitable(waiting_for, steps)).__await__())


class _StartedAwaitable(Generic[T]):
    """The rest of a work that has begun, and what it waits for."""

    __slots__ = ("_steps", "_waiting_for")

    def __init__(self, waiting_for: object, steps: Generator[Any, Any, T]) -> None:
        self._waiting_for = waiting_for
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, T]:
        waiting_for = self._waiting_for
        while True:
            thrown: BaseException | None = None
            try:
                yield waiting_for
            except BaseException as error:  # noqa: BLE001 - a cancellation must reach the work, as it would without us
                thrown = error
            try:
                waiting_for = next(self._steps) if thrown is None else self._steps.throw(thrown)
            except StopIteration as finished:
                return finished.value  # type: ignore[no-any-return]


class _DisconnectWatch:
    """Cancels the task that waits for a call once the client is gone."""

    __slots__ = ("_finished", "_request", "_task", "_waiting_task", "disconnected")

    def __init__(self, request: HttpRequest) -> None:
        self.disconnected = False
        self._finished = False
        self._request = request
        self._waiting_task = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        if not request.on_disconnect(self._on_disconnect):
            self._task = asyncio.create_task(self._watch(request))

    async def stop(self) -> None:
        """The call has ended."""
        self._finished = True
        self._request.on_disconnect(None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, request: HttpRequest) -> None:
        # A server says nothing between the body and the end; one that goes on saying it has no more never tells.
        for _ in range(_MAX_IDLE_MESSAGES):
            if (await request.receive())["type"] == "http.disconnect":
                break
        else:
            return
        self._on_disconnect()

    def _on_disconnect(self) -> None:
        if self._waiting_task is not None and not self._finished:
            self.disconnected = True
            self._waiting_task.cancel()


async def _run_watched(request: HttpRequest, work: Awaitable[T]) -> T | None:
    watch, task = _DisconnectWatch(request), asyncio.current_task()
    try:
        return await work
    except asyncio.CancelledError:
        if not watch.disconnected or (task is not None and task.cancelling() > 1):
            raise  # the server's own: it ends more than this one call
        return None
    finally:
        if watch.disconnected and task is not None:
            task.uncancel()  # it was ours; the server's task goes on
        await watch.stop()


# The caller, the line (two programs of one caller may use the same ids, each on a line of its own), and the call's id.
CallKey: TypeAlias = tuple[str, str, str | int]


class _CancellableCall:
    """A call, and the task that waits for it once it has to wait."""

    __slots__ = ("cancelled", "keys", "task")

    def __init__(self, keys: Sequence[CallKey]) -> None:
        self.keys = keys
        self.task: asyncio.Task[object] | None = None
        self.cancelled = False


class CancellableCalls:
    """Knows the calls that wait; one that answers at once cannot be cancelled and costs nothing."""

    def __init__(self) -> None:
        self._waiting: dict[CallKey, list[_CancellableCall]] = {}

    async def run(self, keys: Sequence[CallKey], work: Awaitable[T]) -> T:
        """Await work that can be cancelled under each of these keys; raises Cancelled when a message did."""
        call = _CancellableCall(keys)
        try:
            return await OnFirstSuspend(work, lambda: self._register(call))
        except asyncio.CancelledError:
            # Whoever else cancels the task ends more than this one call.
            if call.cancelled and call.task is not None and call.task.cancelling() == 1:
                raise Cancelled from None
            raise
        finally:
            if call.task is not None:
                self._unregister(call, call.task)

    def cancel(self, key: CallKey) -> bool:
        """Cancel a caller's own calls of this key; False if none waits (any more)."""
        found = self._waiting.get(key, ())
        for call in found:
            # Once is enough: a second time would end what the tool does to clean up.
            if call.task is not None and not call.cancelled:
                call.cancelled = True
                call.task.cancel()
        return bool(found)

    def _register(self, call: _CancellableCall) -> None:
        call.task = asyncio.current_task()
        for key in call.keys:
            self._waiting.setdefault(key, []).append(call)

    def _unregister(self, call: _CancellableCall, task: "asyncio.Task[object]") -> None:
        for key in call.keys:
            calls = self._waiting[key]
            calls.remove(call)
            if not calls:
                del self._waiting[key]
        if call.cancelled:
            task.uncancel()
