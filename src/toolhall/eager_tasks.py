"""`EagerStarter`: starts tasks whose first step runs at once, in the caller's turn of the event loop.

Most requests are answered in their first step. A task that is started the usual way takes that step in a callback of
the next iteration, which costs more than many an answer. The request needs a task all the same: timeouts, task groups
and the current task of asyncio belong to one.

Since Python 3.12, `asyncio.Task` has `eager_start`. On 3.11 the same comes about with the task's own means: its
constructor hands the first step to `loop.call_soon`, which is replaced for that moment, and the step is run here. A
task that is current meanwhile steps aside, as it does for `eager_start`: `_leave_task` and `_enter_task` are what
asyncio documents for this, under "Extending".
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class EagerStarter:
    """Starts tasks of one event loop, each in a copy of the context in which the starter was made.

    So no task sees context variables of another one, wherever it is started from. A name that all tasks share saves
    asyncio from making one up for each.
    """

    __slots__ = ("_base", "_context", "_first_step", "_name", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.loop: Any = loop
        self._name = name
        self._base = copy_context()
        self._context: Context | None = None
        self._first_step: Callable[[], object]

    if sys.version_info >= (3, 12):

        def start(self, coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> asyncio.Task[T]:
            """Start a task, in this context or a copy of the starter's, and return it after its first step."""
            if context is None:  # an empty one is false, too
                context = self._base.copy()
            return asyncio.Task(coroutine, loop=self.loop, name=self._name, context=context, eager_start=True)

    else:

        def start(self, coroutine: Coroutine[Any, Any, T], context: Context | None = None) -> asyncio.Task[T]:
            """Start a task, in this context or a copy of the starter's, and return it after its first step."""
            loop = self.loop
            if context is None:
                context = self._base.copy()
            self._context = context
            loop.call_soon = self._call_soon
            try:
                task = asyncio.Task(coroutine, loop=loop, name=self._name, context=context)
            finally:
                del loop.call_soon
            first_step, current = self._first_step, asyncio.current_task(loop)
            del self._first_step  # it refers to the task
            if current is None:
                context.run(first_step)
                return task
            asyncio.tasks._leave_task(loop, current)  # pyright: ignore[reportPrivateUsage] - see above
            try:
                context.run(first_step)
            finally:
                asyncio.tasks._enter_task(loop, current)  # pyright: ignore[reportPrivateUsage]
            return task

        def _call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> object:
            """Take the first step from the task's constructor; whatever a finalizer schedules meanwhile passes."""
            if context is self._context:
                self._first_step = callback
                return None
            return type(self.loop).call_soon(self.loop, callback, *args, context=context)
