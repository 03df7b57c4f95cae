"""`StatelessTasks`: the tasks extension of MCP 2026-07-28: its methods, and the notifications on listen streams."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from toolhall.dialects.mcp.protocol import TASKS_EXTENSION, JsonRpcRequest, RequestId, method_not_found
from toolhall.dialects.mcp.requests import RequestMeta
from toolhall.dialects.mcp.responses import SUBSCRIPTION_KEY, McpEncoder
from toolhall.dialects.mcp.tasks import (
    EXTENSION_METHODS,
    check_extension,
    read_answers,
    read_task_id,
    read_task_ids,
    write_created,
    write_task,
)
from toolhall.http.sse import EventStream
from toolhall.mcp.response import StatelessLink
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import Answer, CallTool, TaskView, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.tasks.engine import StoredTasks
from toolhall.stores.tasks import StoredTask

MAX_QUEUED = 10_000  # changes that are not yet told
_log = logging.getLogger("toolhall.mcp")


class StatelessTasks:
    """Answers requests about tasks, of clients that declare the extension with each of them."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder) -> None:
        self._dispatcher = dispatcher
        self._encoder = encoder

    @property
    def extensions(self) -> JsonObject:
        """The extensions that `server/discover` declares."""
        return {TASKS_EXTENSION: {}} if self._dispatcher.tasks.is_offered else {}

    def offers(self, call: CallTool) -> bool:
        """Whether a call may become a task."""
        entry = self._dispatcher.registry.snapshot.find(call.tool) if call.kind == "tool" else None
        return entry is not None and entry.tool.task is not None

    async def start(
        self, call: CallTool, caller: Caller, link: StatelessLink, on_suspend: Callable[[], None] | None
    ) -> Answer | TaskView:
        """Start a call of a client that takes tasks."""
        if on_suspend is not None:
            on_suspend()
        return await self._dispatcher.tasks.start(call, caller, link)

    def created(self, request_id: RequestId, view: TaskView) -> WireResponse:
        """The response to a call that became a task."""
        return self._encoder.typed_response(request_id, write_created(view))

    async def answer(self, request: JsonRpcRequest, meta: RequestMeta, caller: Caller) -> WireResponse:
        """Return the response to one of the extension's methods; raises McpRefusal, NotFound or Limited."""
        if not self._dispatcher.tasks.is_offered or request.method not in EXTENSION_METHODS:
            raise method_not_found(request.method)
        check_extension(meta)
        task_id, tasks = read_task_id(request), self._dispatcher.tasks
        match request.method:
            case "tasks/get":
                view = await tasks.find(task_id, caller)
                return self._encoder.response(request.id, write_task(view, self._encoder))
            case "tasks/update":
                questions = await tasks.questions(task_id, caller)
                await tasks.answer(task_id, caller, read_answers(request, questions))
            case _:
                await tasks.cancel(task_id, caller)
        return self._encoder.response(request.id, {})

    async def feed(self, request: JsonRpcRequest, meta: RequestMeta, caller: Caller) -> "TaskFeed | None":
        """Return the feed of the tasks that a listen request names; None if it names none. Raises McpRefusal."""
        requested = request.params.get("notifications")
        if not isinstance(requested, dict) or "taskIds" not in requested or not self._dispatcher.tasks.is_offered:
            return None
        check_extension(meta)
        rows = await self._dispatcher.tasks.own(read_task_ids(requested), caller, counted=True)
        return TaskFeed(self._dispatcher.tasks, caller, self._encoder, request.id, rows)


class TaskFeed:
    """Sends `notifications/tasks` to one listen stream: each state of its tasks once, in order."""

    def __init__(
        self,
        tasks: StoredTasks,
        caller: Caller,
        encoder: McpEncoder,
        subscription: RequestId,
        rows: Iterable[StoredTask],
    ) -> None:
        self._tasks = tasks
        self._caller = caller
        self._encoder = encoder
        self._subscription = subscription
        self._rows = {row.id: row for row in rows}
        self._changed: asyncio.Queue[StoredTask] = asyncio.Queue(MAX_QUEUED)
        self._ends: list[Callable[[], None]] = []
        self._sending: asyncio.Task[None] | None = None

    @property
    def task_ids(self) -> list[str]:
        """The ids that are honoured."""
        return list(self._rows)

    def open(self, stream: EventStream) -> None:
        """Send from now on."""
        self._ends = [self._tasks.watch(task_id, self._put) for task_id in self._rows]
        self._sending = asyncio.get_running_loop().create_task(self._send(stream))

    def close(self) -> None:
        """Send no more."""
        for end in self._ends:
            end()
        if self._sending is not None:
            self._sending.cancel()

    def _put(self, row: StoredTask | None) -> None:
        """Queue a row unless only the tool's progress, or its holder, has changed."""
        if row is None:
            return
        before = self._rows[row.id]
        self._rows[row.id] = row
        if row.serial > before.serial and (row.state, row.sealed_memory) != (before.state, before.sealed_memory):
            with suppress(asyncio.QueueFull):  # a client that does not read misses states, and can look
                self._changed.put_nowait(row)

    async def _send(self, stream: EventStream) -> None:
        sent: dict[str, object] = {}
        while True:
            row = await self._changed.get()
            try:
                if not await self._tasks.may_still_see(row, self._caller):
                    continue
                view = await self._tasks.view(row)
            except ToolhallError as error:
                _log.warning("a change of a task could not be told: %s", error.detail or error)
                continue
            told = (view.state, tuple(view.questions))
            if sent.get(view.id) != told:  # also results of ctx.once change its memory
                sent[view.id] = told
                params = {**write_task(view, self._encoder), "_meta": {SUBSCRIPTION_KEY: self._subscription}}
                stream.send(self._encoder.notification("notifications/tasks", params))
