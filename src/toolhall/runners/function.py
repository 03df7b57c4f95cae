"""Runs a tool that is a Python function: async ones in the loop, the others in a thread."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from toolhall.authoring.context import Context, Patience
from toolhall.authoring.definition import Body
from toolhall.model.call import Call
from toolhall.model.exchange import Asking, Event, Link
from toolhall.model.json import JsonObject
from toolhall.model.question import Answered, Question
from toolhall.model.tool import Tool
from toolhall.schema.types import to_json


class FunctionRunner:
    """Binds the checked arguments to the function's parameters and calls it."""

    __slots__ = ("_body", "_threads")

    def __init__(self, body: Body, threads: ThreadPoolExecutor) -> None:
        self._body = body
        self._threads = threads

    def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> Awaitable[object]:
        """The function's return value."""
        body = self._body
        bound = body.bind(arguments)
        if not body.is_async:
            return self._in_thread(tool, call, bound)
        if body.takes_context:
            return body.function(Context(call.link, call.caller, tool.name, patience), **bound)  # type: ignore[no-any-return]
        return body.function(**bound)  # type: ignore[no-any-return]

    async def _in_thread(self, tool: Tool, call: Call, bound: JsonObject) -> object:
        """A thread cannot be stopped: when the call ends early the context says so, and its result is dropped."""
        loop = asyncio.get_running_loop()
        link = _ThreadLink(call.link, loop)
        context = Context(link, call.caller, tool.name)
        work = partial(self._body.function, *((context,) if self._body.takes_context else ()), **bound)
        try:
            return await loop.run_in_executor(self._threads, _carried, work)
        finally:
            context.cancelled = link.ended = True


def _carried(work: Callable[[], object]) -> object:
    """A future cannot carry StopIteration, and must not carry a call to exit into the loop."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error
    except (Exception, Asking):
        raise
    except BaseException as error:
        raise RuntimeError(f"the tool raised {type(error).__name__}") from error


class _ThreadLink:
    """Hands events of a tool in a thread over to the loop, as long as its call runs."""

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop
        self.ended = False

    def emit(self, event: Event) -> None:
        to_json(event)  # what cannot be written fails here, in the tool, and not later in the loop
        self._loop.call_soon_threadsafe(self._deliver, event)

    def _deliver(self, event: Event) -> None:
        if not self.ended:
            self._link.emit(event)

    def can(self, feature: str) -> bool:
        return self._link.can(feature)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        return await self._link.ask(questions)

    async def detach(self, retry_ms: int) -> None:
        await self._link.detach(retry_ms)
