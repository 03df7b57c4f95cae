"""`Lifespans`: enters toolkits and the hall's lifespan before the first call, and leaves them at shutdown.

A toolkit may be an asynchronous context manager (`__aenter__` and `__aexit__`), and a hall may have a lifespan of
its own. `Lifespans` enters each of them once, in the order in which they were added, and leaves them in reverse.

All of it happens in one task that lives as long as the lifespans do, because task groups and cancel scopes have to
be left by the task that entered them. The task also leaves them when it is cancelled, as `asyncio.run` does to every
task that is left at its end. That is no guarantee: a server that ends its process in another way, as uvicorn does
after SIGTERM, leaves nothing unless it was told to (`hall.lifespan`, or the ASGI lifespan events).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from toolhall.authoring.definition import Definition
from toolhall.model.errors import LifespanFailed

LEAVE_SECONDS = 5.0  # for one toolkit: one that hangs must not hold up the end of the process
SLOW_ENTER_SECONDS = 10.0  # of entering, after which the log names the toolkit
_log = logging.getLogger("toolhall.lifespan")
ContextFactory: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


class Lifespans:
    """Enters context managers before the first call, and leaves them at shutdown; both can be repeated."""

    def __init__(self) -> None:
        self._members: list[tuple[str, ContextFactory]] = []
        self._known: set[int] = set()  # of toolkits, which are kept alive by their factories
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()

    def add(self, name: str, factory: ContextFactory) -> None:
        """Enter this context too, after those added before; `name` is its name in errors and in the log."""
        self._members.append((name, factory))

    def add_toolkits(self, definitions: Iterable[Definition]) -> None:
        """Enter the toolkits of these tools, each once; those of isolated tools are entered in their workers."""
        for definition in definitions:
            context = definition.lifespan
            if context is not None and not definition.body.isolated and id(context) not in self._known:
                self._known.add(id(context))
                self.add(f"toolkit '{definition.tool.id.toolkit}'", _factory_of(context))

    def find_unknown_toolkit(self, definitions: Iterable[Definition]) -> str | None:
        """The name of a toolkit among these that has a lifespan and was not added yet."""
        for each in definitions:
            if each.lifespan is not None and not each.body.isolated and id(each.lifespan) not in self._known:
                return each.tool.id.toolkit
        return None

    @property
    def entered(self) -> bool:
        """Whether `enter` was called, and neither `leave` nor the end of its loop has left everything again."""
        return self._loop is not None and not self._loop.is_closed()

    async def enter(self) -> None:
        """Enter everything, unless that is done. If one fails, leave those entered before and raise LifespanFailed."""
        loop = self._loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            if not self._members:
                return
            self._stop, self._ready = asyncio.Event(), loop.create_future()
            self._task = loop.create_task(self._run(self._ready, self._stop), name="toolhall lifespans")
        task, ready = self._task, self._ready
        if ready is None or (ready.done() and not ready.cancelled() and ready.exception() is None):
            return
        try:
            await asyncio.shield(ready)
        except asyncio.CancelledError:
            if not ready.done():
                task.cancel()
            raise

    async def leave(self) -> None:
        """Leave everything in reverse order; a failure is logged, and the others are still left."""
        task, self._task, self._loop = self._task, None, None
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            return  # a loop that has ended cancelled the task, and so left everything
        self._stop.set()
        if self._ready is not None and not self._ready.done():
            task.cancel()
        await asyncio.wait({task})

    async def _run(self, ready: "asyncio.Future[None]", stop: asyncio.Event) -> None:
        entered: list[tuple[str, AbstractAsyncContextManager[Any]]] = []
        failed: LifespanFailed | None = None
        try:
            for name, factory in self._members:
                entered.append((name, await _enter_context(name, factory)))
            ready.set_result(None)
            await stop.wait()
        except LifespanFailed as error:
            failed = error
        finally:
            for name, context in reversed(entered):
                await _exit_context(name, context)
            if not ready.done():
                ready.set_exception(failed) if failed is not None else ready.cancel()


def _factory_of(context: AbstractAsyncContextManager[Any]) -> ContextFactory:
    return lambda: context


async def _enter_context(name: str, factory: ContextFactory) -> AbstractAsyncContextManager[Any]:
    slow = asyncio.get_running_loop().call_later(SLOW_ENTER_SECONDS, _log.warning, "%s takes long to be entered", name)
    try:
        context = factory()
        await context.__aenter__()
    except Exception as error:
        _log.exception("%s could not be entered", name)
        raise LifespanFailed(name, error) from error
    finally:
        slow.cancel()
    return context


async def _exit_context(name: str, context: AbstractAsyncContextManager[Any]) -> None:
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await context.__aexit__(None, None, None)
    except TimeoutError:
        _log.exception("%s was not left within %g seconds", name, LEAVE_SECONDS)
    except Exception:  # noqa: BLE001 - the author's own code may raise anything
        _log.exception("%s failed to be left: its __aexit__ raised", name)
    except asyncio.CancelledError:  # the loop ends in a hurry: the others are still left
        _log.warning("%s was interrupted while it was left", name)
