"""`/api/tasks`: everybody's long calls, for whoever runs the hall; observers see them, administrators cancel them.

What callers sent and what they get back is shown to nobody: of a task's call there is who made it and which tool it
called, of its questions there is their text, and of its end there is the code of the error.
"""

import logging
import re

import msgspec

from toolhall.dialects.openapi.errors import write_error
from toolhall.dialects.openapi.managed_tasks import OPEN, STATE_FILTERS
from toolhall.http.api.base import (
    EmptyBody,
    ItemHandlers,
    ManagementContext,
    dispatch_below,
    iso_time,
    json_response,
    limit_parameter,
    parse_body,
    query_parameters,
    read_json,
    respond,
)
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.errors import Malformed, NotFound, ToolhallError, Unavailable
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import ENDED_STATES, TASK_STATES, Form, Question, Sample, TaskState, Visit, WireResponse
from toolhall.pipeline.tasks.engine import StoredTasks
from toolhall.stores.tasks import StoredTask, TaskQuery

PREFIX = "/api/tasks/"
PARAMETERS = ("state", "tool", "caller", "limit", "cursor")
_CURSOR = re.compile(r"(\d{1,12}\.\d{1,12})-([0-9A-Za-z_-]{1,64})")
_log = logging.getLogger("toolhall.api")


class TasksApi:
    """`/api/tasks`, `/api/tasks/{id}` and `/api/tasks/{id}/cancel`."""

    def __init__(self, context: ManagementContext, tasks: StoredTasks, validator: RequestValidator) -> None:
        self._context = context
        self._tasks = tasks
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of everybody's tasks."""
        message = "there is nothing here; /api/tasks/ID is a task, /api/tasks/ID/cancel cancels it"
        return {"/api/tasks": {"GET": self.tasks}, PREFIX: dispatch_below(self._actions, message)}

    def _actions(self, request: HttpRequest) -> tuple[str, ItemHandlers] | None:
        match request.path_segments(PREFIX):
            case [str(task_id)] if task_id:
                return task_id, {"GET": self._show}
            case [str(task_id), "cancel"] if task_id:
                return task_id, {"POST": self._cancel}
            case _:
                return None

    async def tasks(self, request: HttpRequest) -> None:
        """`GET /api/tasks`."""
        await respond(request, self._list(request))

    async def _list(self, request: HttpRequest) -> WireResponse:
        self._context.require_observer(request.caller)
        parameters = query_parameters(request, PARAMETERS)
        limit = limit_parameter(parameters)
        query = TaskQuery(
            states=_states(parameters.get("state")),
            tool=parameters.get("tool"),
            caller=parameters.get("caller"),
            unexpired_at=self._context.clock(),
            before=_position(parameters.get("cursor")),
        )
        rows = await self._tasks.rows_of_all(query, limit + 1)
        document: JsonObject = {"tasks": [await self._summary(row) for row in rows[:limit]]}
        if len(rows) > limit:
            document["nextCursor"] = f"{rows[limit - 1].created_at!r}-{rows[limit - 1].id}"
        return json_response(document)

    async def _show(self, request: HttpRequest, task_id: str) -> WireResponse:
        self._context.require_observer(request.caller)
        query_parameters(request)
        return json_response(await self._details(await self._tasks.find_any(task_id)))

    async def _cancel(self, request: HttpRequest, task_id: str) -> WireResponse:
        query_parameters(request)
        body = await read_json(request, self._validator)
        parse_body(body, EmptyBody)

        async def apply() -> StoredTask:
            await self._tasks.cancel_any(task_id)
            return await self._tasks.find_any(task_id)

        row = await self._context.change(f"cancel task {task_id[:64]}", body, request.caller, apply)
        return json_response(await self._details(row))

    async def _summary(self, row: StoredTask) -> JsonObject:
        caller, _, acting_for = row.owner.partition("\n")
        return {
            "id": row.id,
            "tool": row.tool,
            "caller": caller,
            "actingFor": acting_for or None,
            "dialect": row.dialect,
            "state": row.state,
            "questions": await self._questions(row),
            "attempts": row.attempt,
            "createdAt": iso_time(row.created_at),
            "updatedAt": iso_time(row.updated_at),
            "expiresAt": iso_time(row.expires_at),
        }

    async def _details(self, row: StoredTask) -> JsonObject:
        return {**await self._summary(row), "error": await self._error_code(row)}

    async def _questions(self, row: StoredTask) -> list[Json] | None:
        """Return the texts of open questions; None where the vault does not open them."""
        try:
            return [_text(each) for each in (await self._tasks.open_questions(row)).values()]
        except Unavailable as failed:
            _log.warning("%s", failed.detail or failed.message)
            return None

    async def _error_code(self, row: StoredTask) -> str | None:
        """Return the code of the error with which a task failed; its message is for its caller."""
        if row.state != "failed":
            return None
        try:
            outcome = (await self._tasks.view(row)).outcome
        except Unavailable as failed:
            _log.warning("%s", failed.detail or failed.message)
            return None
        if not isinstance(outcome, ToolhallError):
            return "tool_failed"
        code: str = msgspec.json.decode(write_error(outcome).body)["error"]["code"]
        return code


def _states(text: str | None) -> frozenset[TaskState] | None:
    """Return the states of a filter; None without one."""
    if text is None:
        return None
    if text == OPEN:
        return frozenset(TASK_STATES) - ENDED_STATES
    for state in TASK_STATES:
        if state == text:
            return frozenset((state,))
    raise Malformed(f"state is one of {', '.join(STATE_FILTERS)}")


def _position(cursor: str | None) -> tuple[float, str] | None:
    if cursor is None:
        return None
    if (found := _CURSOR.fullmatch(cursor)) is None:
        raise NotFound("this is no cursor of a page; leave it out to begin again")
    return float(found[1]), found[2]


def _text(question: Question) -> str:
    match question:
        case Form() | Visit():
            return question.message
        case Sample():
            return "asks the client's model"
        case _:
            return "asks for the client's folders"
