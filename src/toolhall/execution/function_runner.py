"""`FunctionRunner`: runs a tool that is a Python function, async ones in the event loop and sync ones in a thread.

A function that left MAX_ABANDONED_THREADS threads hanging, or blocked the loop MAX_LOOP_BLOCKS times for long, is moved
to the fallback runner (a worker process), or refused if it has none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from toolhall.authoring.context import Context, PausableDeadline
from toolhall.authoring.definition import FunctionBody
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.client_link import ThrottledLink
from toolhall.execution.deadline import Deadline
from toolhall.execution.thread_pool import ThreadPool
from toolhall.execution.worker_protocol import caller_for_tool
from toolhall.model.errors import Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import (
    Answered,
    Call,
    CallEvent,
    ClientLink,
    InputRequiredSignal,
    Question,
    memory_of,
)
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Runner
from toolhall.schema.types import to_json

MAX_ABANDONED_THREADS = 4  # threads that a tool may leave hanging
MAX_LOOP_BLOCKS = 3  # times that an async tool may block the loop for long
_EGRESS = LazyEgressClient()
_log = logging.getLogger("toolhall.run")


class FunctionRunner:
    """Binds the validated arguments to the function's parameters and calls it."""

    __slots__ = ("_body", "_egress", "_fallback", "_loop_blocks", "_make_fallback", "_thread_pool", "is_interactive")

    def __init__(
        self,
        body: FunctionBody,
        thread_pool: ThreadPool,
        make_fallback: Callable[[], Runner | None] | None = None,
        egress: LazyEgressClient = _EGRESS,
    ) -> None:
        self._body = body
        self._thread_pool = thread_pool
        self._make_fallback = make_fallback
        self._egress = egress
        self._fallback: Runner | None = None
        self._loop_blocks = 0
        self.is_interactive = body.takes_context

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Call the function; the awaitable gives its return value."""
        if self._fallback is not None:
            return self._fallback.run(tool, call, arguments, deadline)
        body = self._body
        if not body.is_async:
            if self._thread_pool.abandoned and self._thread_pool.abandoned_by(str(tool.id)) >= MAX_ABANDONED_THREADS:
                return self._fallback_for_threads(tool).run(tool, call, arguments, deadline)
            return self._run_in_thread(tool, call, body.bind(arguments), deadline)
        bound = body.bind(arguments, call.encoded_arguments if arguments is call.arguments else None)
        if body.takes_context:
            context = Context(call.link, caller_for_tool(call), tool.name, deadline, call.credentials, self._egress)
            return body.function(context, **bound)  # type: ignore[no-any-return]
        return body.function(**bound)  # type: ignore[no-any-return]

    def record_loop_block(self, tool: Tool) -> None:
        """Count that the tool blocked the loop for long; the third time, move it to the fallback runner."""
        self._loop_blocks += 1
        if self._loop_blocks >= MAX_LOOP_BLOCKS and self._fallback is None and self._switch_to_fallback():
            _log.warning("tool %s blocks the loop again and again: it runs in a process of its own now", tool.id)

    def _fallback_for_threads(self, tool: Tool) -> Runner:
        if not self._switch_to_fallback() or self._fallback is None:
            raise Unavailable(
                f"{MAX_ABANDONED_THREADS} earlier calls of this tool still hang; it is refused until they end"
            )
        _log.warning("tool %s hangs in %d threads: it runs in a process of its own now", tool.id, MAX_ABANDONED_THREADS)
        return self._fallback

    def _switch_to_fallback(self) -> bool:
        self._fallback = self._make_fallback() if self._make_fallback is not None else None
        return self._fallback is not None

    async def _run_in_thread(self, tool: Tool, call: Call, bound: JsonObject, deadline: PausableDeadline) -> object:
        """Run the function in a thread, which cannot be stopped.

        If the call ends first, `context.cancelled` tells the function so, its events go nowhere, and its result is
        dropped.
        """
        loop = asyncio.get_running_loop()
        client_link = call.link
        link = _ThreadLink(client_link.link if isinstance(client_link, ThrottledLink) else client_link, loop)
        context = Context(
            client_link.rebind(link) if isinstance(client_link, ThrottledLink) else link,
            caller_for_tool(call),
            tool.name,
            equipment=call.credentials,
            outside=self._egress,
        )
        work = partial(self._body.function, *((context,) if self._body.takes_context else ()), **bound)
        try:
            return await self._thread_pool.run(
                str(tool.id), partial(_call_in_thread, work), partial(_grace_seconds, deadline)
            )
        finally:
            context.cancelled = link.ended = True


def _grace_seconds(deadline: PausableDeadline) -> float:
    """Seconds until the thread is abandoned: none after its deadline, the tool's whole time for a cancelled call."""
    return 0.0 if not isinstance(deadline, Deadline) or deadline.cancel_count else deadline.seconds


def _call_in_thread(work: Callable[[], object]) -> object:
    """Call the function; a future cannot carry StopIteration, and must not carry SystemExit into the loop."""
    try:
        return work()
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error
    except (Exception, InputRequiredSignal):
        raise
    except BaseException as error:
        raise RuntimeError(f"the tool raised {type(error).__name__}") from error


class _ThreadLink:
    """The client link of a tool in a thread: hands its events to the loop, until its call ends."""

    def __init__(self, link: ClientLink, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop
        self.memory = memory_of(link)
        self.ended = False

    def emit(self, event: CallEvent) -> None:
        to_json(event)  # an event that is not JSON fails here, in the tool, and not later in the loop
        self._loop.call_soon_threadsafe(self._deliver, event)

    def _deliver(self, event: CallEvent) -> None:
        if not self.ended:
            self._link.emit(event)

    def can(self, feature: str) -> bool:
        return self._link.can(feature)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        return await self._link.ask(questions)

    async def detach(self, retry_ms: int) -> None:
        await self._link.detach(retry_ms)
