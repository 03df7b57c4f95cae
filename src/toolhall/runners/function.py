"""Runs a tool that is a Python function: async ones in the loop, the others in a thread."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from toolhall.authoring.context import Context, Patience
from toolhall.authoring.definition import Body
from toolhall.egress.outside import Outside
from toolhall.model.call import Call
from toolhall.model.errors import Unavailable
from toolhall.model.exchange import Asking, Event, Link
from toolhall.model.json import JsonObject
from toolhall.model.question import Answered, Question
from toolhall.model.tool import Tool
from toolhall.registry.entry import Runner
from toolhall.runners.deadline import Deadline
from toolhall.runners.supply import known_to
from toolhall.runners.telling import Telling
from toolhall.runners.threads import Threads
from toolhall.schema.types import to_json

MOST_LOST = 4  # threads that a tool may leave hanging
MOST_BLOCKED = 3  # times that an async tool may hold up everybody for long
_OUTSIDE = Outside()
_log = logging.getLogger("toolhall.run")


class FunctionRunner:
    """Binds the checked arguments to the function's parameters and calls it.

    A tool that cannot be trusted with our threads or our loop is moved `elsewhere`, if there is such a place.
    """

    __slots__ = ("_blocked", "_body", "_elsewhere", "_moved", "_outside", "_threads", "tells")

    def __init__(
        self,
        body: Body,
        threads: Threads,
        elsewhere: Callable[[], Runner | None] | None = None,
        outside: Outside = _OUTSIDE,
    ) -> None:
        self._body = body
        self._threads = threads
        self._elsewhere = elsewhere
        self._outside = outside
        self._moved: Runner | None = None
        self._blocked = 0
        self.tells = body.takes_context

    def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> Awaitable[object]:
        """The function's return value."""
        if self._moved is not None:
            return self._moved.run(tool, call, arguments, patience)
        body = self._body
        if not body.is_async:
            if self._threads.lost and self._threads.lost_by(str(tool.id)) >= MOST_LOST:
                return self._without_threads(tool).run(tool, call, arguments, patience)
            return self._in_thread(tool, call, body.bind(arguments), patience)
        bound = body.bind(arguments)
        if body.takes_context:
            context = Context(call.link, known_to(call), tool.name, patience, call.equipment, self._outside)
            return body.function(context, **bound)  # type: ignore[no-any-return]
        return body.function(**bound)  # type: ignore[no-any-return]

    def blocked(self, tool: Tool) -> None:
        """It held up the loop for long; the third time it is moved."""
        self._blocked += 1
        if self._blocked >= MOST_BLOCKED and self._moved is None and self._move():
            _log.warning("tool %s blocks the loop again and again: it runs in a process of its own now", tool.id)

    def _without_threads(self, tool: Tool) -> Runner:
        if not self._move() or self._moved is None:
            raise Unavailable(f"{MOST_LOST} earlier calls of this tool still hang; it is refused until they end")
        _log.warning("tool %s hangs in %d threads: it runs in a process of its own now", tool.id, MOST_LOST)
        return self._moved

    def _move(self) -> bool:
        self._moved = self._elsewhere() if self._elsewhere is not None else None
        return self._moved is not None

    async def _in_thread(self, tool: Tool, call: Call, bound: JsonObject, patience: Patience) -> object:
        """A thread cannot be stopped: when the call ends early the context says so, and its result is dropped."""
        loop = asyncio.get_running_loop()
        told = call.link
        link = _ThreadLink(told.link if isinstance(told, Telling) else told, loop)
        context = Context(
            told.through(link) if isinstance(told, Telling) else link,
            known_to(call),
            tool.name,
            equipment=call.equipment,
            outside=self._outside,
        )
        work = partial(self._body.function, *((context,) if self._body.takes_context else ()), **bound)
        try:
            return await self._threads.run(str(tool.id), partial(_carried, work), partial(_grace, patience))
        finally:
            context.cancelled = link.ended = True


def _grace(patience: Patience) -> float:
    """A thread whose deadline has passed is lost at once; that of a cancelled call may end in its own time first."""
    return 0.0 if not isinstance(patience, Deadline) or patience.passed else patience.seconds


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
