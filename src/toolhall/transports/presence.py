"""A call ends with its client: whoever closes the connection no longer wants the answer."""

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

from toolhall.runners.suspension import is_brief
from toolhall.transports.exchange import Exchange

T = TypeVar("T")
_MOST_IDLE = 3


class WhilePresent(Generic[T]):
    """`await WhilePresent(exchange, work)` is what the work gives; None once the client has closed the connection.

    That cancels the work. A call that answers at once pays for no watch.
    """

    __slots__ = ("_exchange", "_work")

    def __init__(self, exchange: Exchange, work: Awaitable[T]) -> None:
        self._exchange = exchange
        self._work = work

    def __await__(self) -> Generator[Any, Any, T | None]:
        steps = self._work.__await__()
        try:
            waiting_for = next(steps)
            while is_brief(waiting_for):
                thrown: BaseException | None = None
                try:
                    yield waiting_for
                except BaseException as error:  # noqa: BLE001 - a cancellation must reach the work
                    thrown = error
                waiting_for = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        return (yield from _watched(self._exchange, _Begun(waiting_for, steps)).__await__())


class _Begun(Generic[T]):
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


class _Watch:
    """Cancels the task that waits for a call once the client is gone."""

    __slots__ = ("_caller", "_exchange", "_over", "_task", "gone")

    def __init__(self, exchange: Exchange) -> None:
        self.gone = False
        self._over = False
        self._exchange = exchange
        self._caller = asyncio.current_task()
        self._task: asyncio.Task[None] | None = None
        if not exchange.watch(self._lost):
            self._task = asyncio.create_task(self._watch(exchange))

    async def stop(self) -> None:
        """The call has ended."""
        self._over = True
        self._exchange.watch(None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, exchange: Exchange) -> None:
        # A server says nothing between the body and the end; one that goes on saying it has no more never tells.
        for _ in range(_MOST_IDLE):
            if (await exchange.receive())["type"] == "http.disconnect":
                break
        else:
            return
        self._lost()

    def _lost(self) -> None:
        if self._caller is not None and not self._over:
            self.gone = True
            self._caller.cancel()


async def _watched(exchange: Exchange, work: Awaitable[T]) -> T | None:
    watch, task = _Watch(exchange), asyncio.current_task()
    try:
        return await work
    except asyncio.CancelledError:
        if not watch.gone or (task is not None and task.cancelling() > 1):
            raise  # the server's own: it ends more than this one call
        return None
    finally:
        if watch.gone and task is not None:
            task.uncancel()  # it was ours; the server's task goes on
        await watch.stop()
