"""Long calls over REST: `Prefer: respond-async` makes a task of a call, `/tasks` lists, shows, answers and cancels."""

import math
from collections.abc import Awaitable, Callable

from toolhall.dialects import strict_json
from toolhall.dialects.openapi.errors import write_error
from toolhall.dialects.openapi.tasks import read_answers, write_task
from toolhall.http.call_context import NoInteractionLink, respond
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.caller import Caller
from toolhall.model.errors import BadArguments, Malformed, NotFound, ToolhallError, Unsupported
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import TASKS_FEATURE, Answer, CallTool, TaskView, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.tasks.rows import TaskTerms

PREFIX = "/tasks/"
_RESPOND_ASYNC = b"respond-async"
_AT_ONCE = TaskTerms(at_once=True)


class _TaskClient(NoInteractionLink):
    """The link of a REST client that looks at its task: it can answer forms, and open pages."""

    def can(self, feature: str) -> bool:
        """Support questions to a person."""
        return feature.partition(".")[0] == "elicitation"


_CLIENT = _TaskClient()


class NeedsPreference(Unsupported):
    """A call of a tool that requires a task, without the preference that makes one."""

    def __init__(self) -> None:
        super().__init__(TASKS_FEATURE)
        self.message = f"{self.message}; send Prefer: respond-async"
        self.args = (self.message,)


def prefers_task(request: HttpRequest) -> bool:
    """Whether a client prefers not to wait (RFC 7240)."""
    preferences = request.headers.get(b"prefer")
    if preferences is None:
        return False
    return any(each.partition(b";")[0].strip().lower() == _RESPOND_ASYNC for each in preferences.split(b","))


async def start_task(
    dispatcher: Dispatcher, call: CallTool, caller: Caller, on_suspend: Callable[[], None]
) -> Answer | TaskView:
    """Start a call as a task."""
    on_suspend()
    return await dispatcher.tasks.start(call, caller, _CLIENT, _AT_ONCE)


def accepted_response(view: TaskView, prefix: str) -> WireResponse:
    """The response to a call that became a task."""
    headers = (
        (b"location", f"{prefix}{PREFIX}{view.id}".encode()),
        (b"preference-applied", _RESPOND_ASYNC),
        (b"retry-after", b"%d" % max(1, math.ceil(view.poll))),
    )
    return WireResponse(encode(write_task(view)), 202, headers)


class TasksEndpoint:
    """`/tasks`, `/tasks/{id}` and `/tasks/{id}/input`: the caller's own long calls."""

    def __init__(self, dispatcher: Dispatcher, validator: RequestValidator) -> None:
        self._tasks = dispatcher.tasks
        self._validator = validator

    def endpoints(self) -> dict[str, Methods]:
        """Return the routes of long calls."""
        return {
            "/tasks": {"GET": self._bind(self._list)},
            PREFIX: {"GET": self._bind(self._show), "DELETE": self._bind(self._cancel), "POST": self._answer},
        }

    def _bind(self, answer: Callable[[HttpRequest], Awaitable[JsonObject]]) -> Callable[[HttpRequest], Awaitable[None]]:
        async def serve(request: HttpRequest) -> None:
            try:
                wire = WireResponse(encode(await answer(request)))
            except ToolhallError as error:
                wire = write_error(error)
            await request.reply(wire)

        return serve

    async def _list(self, request: HttpRequest) -> JsonObject:
        parameters = request.parameters
        if not parameters.keys() <= {"cursor"}:
            raise Malformed("the query takes cursor only")
        try:
            views, cursor = await self._tasks.page(request.caller, parameters.get("cursor"))
        except BadArguments:  # as in every list of REST
            raise NotFound("unknown cursor: send the nextCursor of the page before, or none") from None
        return {"tasks": [write_task(view) for view in views], "nextCursor": cursor}

    async def _show(self, request: HttpRequest) -> JsonObject:
        return write_task(await self._tasks.find(_task_id(request), request.caller))

    async def _cancel(self, request: HttpRequest) -> JsonObject:
        return write_task(await self._tasks.cancel(_task_id(request), request.caller))

    def _answer(self, request: HttpRequest) -> Awaitable[None]:
        return respond(request, self._validator, self._answered)

    async def _answered(self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> WireResponse:
        on_suspend()
        caller = request.caller
        try:
            task_id = _task_id(request, "input")
            questions = await self._tasks.questions(task_id, caller)
            answers = read_answers(strict_json.decode(body), questions)
            return WireResponse(encode(write_task(await self._tasks.answer(task_id, caller, answers))))
        except ToolhallError as error:
            return write_error(error)


def _task_id(request: HttpRequest, *below: str) -> str:
    match request.path_segments(PREFIX):
        case [str(task_id), *rest] if task_id and tuple(rest) == below:
            return task_id
        case _:
            raise NotFound("there is nothing here; use /tasks/ID, or POST answers to /tasks/ID/input")
