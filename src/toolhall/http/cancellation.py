"""Cancellation of running calls: by a closed connection (`cancel_on_disconnect`) or a message (`CancellableCalls`).

Both drive the call with `on_first_suspend` and arm themselves when it first has to wait: a call that finishes at once
creates no task and no watcher.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeAlias, TypeVar

from toolhall.concurrency import on_first_suspend
from toolhall.http.request import HttpRequest
from toolhall.model.errors import Cancelled

T = TypeVar("T")
_MAX_IDLE_MESSAGES = 3
# Caller, connection (two programs of one caller may use the same ids on two connections) and call id.
CallKey: TypeAlias = tuple[str, str, str | int]


async def cancel_on_disconnect(request: HttpRequest, work: Awaitable[T]) -> T | None:
    """Return the result of the work; if the client closes the connection first, cancel the work and return None."""
    watch = DisconnectWatch(request)
    try:
        return await on_first_suspend(work, watch.start)
    except asyncio.CancelledError:
        if not watch.is_sole_cause():
            raise
        return None
    finally:
        if watch.started:
            await watch.stop()


class DisconnectWatch:
    """Cancels the task that serves a request once its client has closed the connection.

    Armed by `start`, in the task that is to be cancelled. The owner handles CancelledError: it is the client's if
    `is_sole_cause`, and must be raised otherwise. `stop`, which must follow every `start`, takes the cancellation back.
    """

    __slots__ = ("_receiver", "_request", "_stopped", "_task", "disconnected", "started")

    def __init__(self, request: HttpRequest) -> None:
        self.started = False
        self.disconnected = False
        self._request = request
        self._stopped = False
        self._task: asyncio.Task[object] | None = None  # the one to cancel
        self._receiver: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch from now on; the server calls back, or a task receives on its behalf."""
        self.started = True
        self._task = asyncio.current_task()
        if not self._request.on_disconnect(self._on_disconnect):
            self._receiver = asyncio.create_task(self._receive())

    def is_sole_cause(self) -> bool:
        """Whether the disconnect, and nothing else, cancelled the task; the server's own cancellation ends more."""
        return self.disconnected and (self._task is None or self._task.cancelling() <= 1)

    async def stop(self) -> None:
        """Stop watching, and take back the cancellation: the server's task goes on."""
        self._stopped = True
        if self.disconnected and self._task is not None:
            self._task.uncancel()
        self._request.on_disconnect(None)
        if self._receiver is not None:
            self._receiver.cancel()
            await asyncio.gather(self._receiver, return_exceptions=True)

    async def _receive(self) -> None:
        # ASGI servers send nothing between the end of the body and the disconnect. One that repeats empty messages
        # instead would make this a busy loop, and never reports the disconnect.
        for _ in range(_MAX_IDLE_MESSAGES):
            if (await self._request.receive())["type"] == "http.disconnect":
                self._on_disconnect()
                return

    def _on_disconnect(self) -> None:
        if self._task is not None and not self._stopped:
            self.disconnected = True
            self._task.cancel()


class _CancellableCall:
    """A call with its cancellation keys, and its task once it is suspended."""

    __slots__ = ("cancelled", "keys", "task")

    def __init__(self, keys: Sequence[CallKey]) -> None:
        self.keys = keys
        self.task: asyncio.Task[object] | None = None
        self.cancelled = False


class CancellableCalls:
    """Suspended calls by key; a call that finishes without suspending is not registered and cannot be cancelled."""

    def __init__(self) -> None:
        self._waiting: dict[CallKey, list[_CancellableCall]] = {}

    async def run(self, keys: Sequence[CallKey], work: Awaitable[T]) -> T:
        """Await work that can be cancelled by each of these keys; raises Cancelled if a message cancelled it."""
        call = _CancellableCall(keys)
        try:
            return await on_first_suspend(work, lambda: self._register(call))
        except asyncio.CancelledError:
            # A cancellation by another party ends more than this call.
            if call.cancelled and call.task is not None and call.task.cancelling() == 1:
                raise Cancelled from None
            raise
        finally:
            if call.task is not None:
                self._unregister(call, call.task)

    def cancel(self, key: CallKey) -> bool:
        """Cancel the calls of this key; False if none is suspended."""
        calls = self._waiting.get(key, ())
        for call in calls:
            # Only once: a second cancellation would interrupt the cleanup of the tool.
            if call.task is not None and not call.cancelled:
                call.cancelled = True
                call.task.cancel()
        return bool(calls)

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
