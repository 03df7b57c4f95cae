"""Tasks of upstreams: `created_task` recognizes one in a result, `TaskPoller` waits until it has ended.

2025-11-25 has tasks in its core: the caller asks for one, and `tasks/result` returns what the call would have returned.
2026-07-28 has them as an extension: the server decides, and `tasks/get` holds the result or the questions.
"""

import asyncio
import contextlib
from typing import Any

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.client_messages import MAX_ERROR_TEXT
from toolhall.dialects.mcp.client_questions import MAX_QUESTIONS, OpenQuestions, read_question
from toolhall.execution.upstream.call_hooks import CallHooks
from toolhall.execution.upstream.connection import UpstreamConnection
from toolhall.mcp_client.session import McpRequest, NotSent, RequestLost, RpcError, SessionError, Unauthorized
from toolhall.model.errors import BadOutput, Malformed, ToolFailed, Unavailable
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import CLIENT_FEATURES, TASKS_FEATURE
from toolhall.model.text import clean_line

CANCEL_SECONDS = 5.0
MIN_POLL_SECONDS = 0.2
MAX_POLL_SECONDS = 30.0
_DEFAULT_POLL_SECONDS = 1.0
_MAX_ID = 512
_MAX_ATTEMPTS = 3
_FEATURES = (TASKS_FEATURE, *CLIENT_FEATURES)
_ENDED = frozenset({"completed", "failed", "cancelled"})


class CreatedTask(msgspec.Struct, frozen=True):
    """A task that the upstream made of a call."""

    id: str


class _TaskState(msgspec.Struct, rename="camel"):
    """A task in either revision."""

    task_id: str = ""
    status: str = "working"
    status_message: str | None = None
    poll_interval: float | None = None
    poll_interval_ms: float | None = None
    input_requests: Json = None
    result: msgspec.Raw = msgspec.Raw()
    error: JsonObject | None = None

    @property
    def poll_seconds(self) -> float:
        """The pause until the next look."""
        stated = self.poll_interval_ms if self.poll_interval_ms is not None else self.poll_interval
        seconds = _DEFAULT_POLL_SECONDS if stated is None else stated / 1000
        return min(max(seconds, MIN_POLL_SECONDS), MAX_POLL_SECONDS)


class _Created(msgspec.Struct, rename="camel"):
    result_type: str | None = None
    task_id: str | None = None
    task: _TaskState | None = None


def created_task(raw: msgspec.Raw | bytes, *, core: bool) -> CreatedTask | None:
    """The task that a result tells of instead of an answer; None for an answer."""
    if bytes(raw).find(b'"taskId"') < 0:
        return None
    try:
        created = msgspec.json.decode(raw, type=_Created)
    except (msgspec.MsgspecError, RecursionError):
        return None
    task_id = (created.task.task_id if created.task is not None else None) if core else created.task_id
    if not task_id or (not core and created.result_type != "task"):
        return None
    if len(task_id) > _MAX_ID:
        raise BadOutput(f"the upstream made a task whose id is longer than {_MAX_ID} characters")
    return CreatedTask(task_id)


class TaskPoller:
    """Waits for one task; cancelling this cancels the task at the upstream."""

    def __init__(
        self,
        connection: UpstreamConnection,
        hooks: CallHooks,
        task_id: str,
        meta: JsonObject,
        stragglers: BackgroundTasks,
    ) -> None:
        self._connection = connection
        self._hooks = hooks
        self._id = task_id
        self._meta = meta
        self._stragglers = stragglers

    async def until_done(self, replies: dict[str, JsonObject] | None) -> msgspec.Raw | bytes | OpenQuestions:
        """The result of the call, or the questions of a modern task; `replies` answer those that were open before."""
        try:
            if replies:
                await self._request("tasks/update", {"taskId": self._id, "inputResponses": replies})
            return await self._until_done()
        except asyncio.CancelledError:
            self._stragglers.start(self._cancel())
            raise
        except SessionError as lost:
            raise Unavailable(
                f"the upstream {self._connection.name!r} was lost while a task of it ran this call; whether it had an"
                " effect is not known",
                detail=lost.reason,
            ) from None

    async def _until_done(self) -> msgspec.Raw | bytes | OpenQuestions:
        while True:
            state = await self._state()
            if self._connection.era == "legacy" and state.status in ("completed", "failed", "input_required"):
                return await self._request("tasks/result", {"taskId": self._id})  # questions come on its stream
            if state.status == "input_required":
                return self._questions(state.input_requests)
            if state.status in _ENDED:
                return self._ending(state)
            await asyncio.sleep(state.poll_seconds)

    async def _state(self) -> _TaskState:
        raw = await self._request("tasks/get", {"taskId": self._id})
        try:
            return msgspec.json.decode(raw, type=_TaskState)
        except (msgspec.MsgspecError, RecursionError):
            raise BadOutput("the upstream says of its task what cannot be read") from None

    def _questions(self, requests: Json) -> OpenQuestions:
        questions = {}
        asking = requests if isinstance(requests, dict) else {}
        if len(asking) > MAX_QUESTIONS:
            raise BadOutput(f"a task of the upstream asks more than {MAX_QUESTIONS} questions at a time")
        try:
            for key, asked in asking.items():
                questions[key] = read_question(asked["method"], asked.get("params", {}), key)
        except (Malformed, KeyError, TypeError, AttributeError):
            raise BadOutput("a task of the upstream asks what cannot be read") from None
        if not questions:
            raise BadOutput("a task of the upstream waits for input, and asks nothing")
        return OpenQuestions(questions, None)

    def _ending(self, state: _TaskState) -> msgspec.Raw:
        if state.status == "completed" and bytes(state.result):
            return state.result
        message = (state.error or {}).get("message") or state.status_message
        said = clean_line(message, MAX_ERROR_TEXT) if isinstance(message, str) else ""
        raise ToolFailed(self._clean(said or f"the upstream's task is {clean_line(state.status, 64)}"))

    async def _request(self, method: str, params: JsonObject) -> msgspec.Raw:
        """Send one request about the task, once more if it was not sent."""
        has_refreshed = False
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            credentials = await self._connection.headers(self._hooks.call)
            self._hooks.redact_also(self._connection.sent_secrets(self._hooks.call))
            own: dict[str, Any] = {
                "method": method,
                "params": params,
                "name": self._id,
                "meta": self._meta,
                "features": _FEATURES,
            }
            request = McpRequest(**own, credentials=credentials)
            try:
                pooled = await self._connection.acquire(self._hooks.call, credentials)
                return await self._connection.send(pooled, request, self._hooks)
            except NotSent:
                if attempt == _MAX_ATTEMPTS:
                    raise
                await asyncio.sleep(MIN_POLL_SECONDS)
            except Unauthorized as refused:  # a task may live longer than the token that it was made with
                if has_refreshed or not await self._connection.refresh(self._hooks.call, refused.challenge):
                    raise await self._connection.missing(self._hooks.call, refused.challenge) from None
                has_refreshed = True
            except RpcError as error:
                if self._hooks.refusal is not None:
                    raise self._hooks.refusal from None
                raise ToolFailed(self._clean(f"{self._connection.name}: {error.reason}")) from None
        raise RequestLost("it refused every attempt")

    def _clean(self, text: str) -> str:
        """The text without credentials of the hall, or of this call."""
        return self._connection.redact(self._hooks.clean_text(text))

    async def _cancel(self) -> None:
        """Tell the upstream that nobody waits for the task any more."""
        with contextlib.suppress(SessionError, Exception):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._request("tasks/cancel", {"taskId": self._id})
