"""`SessionTasks`: tasks of MCP 2025-11-25, where the client asks for them, and questions are requests on a stream."""

from collections.abc import Awaitable, Mapping
from typing import Protocol

from toolhall.dialects.mcp.input_requests import read_input_response
from toolhall.dialects.mcp.protocol import (
    METHOD_NOT_FOUND,
    JsonRpcRequest,
    McpRefusal,
    invalid_params,
    method_not_found,
)
from toolhall.dialects.mcp.requests import read_list
from toolhall.dialects.mcp.responses import McpEncoder
from toolhall.dialects.mcp.tasks import (
    CORE_METHODS,
    cannot_cancel,
    read_task_id,
    read_task_metadata,
    write_core_task,
    write_task_payload,
)
from toolhall.mcp.response import MessageSink, StatefulLink
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError, Unsupported
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import (
    TASKS_FEATURE,
    Answered,
    CallTool,
    Filled,
    Form,
    Question,
    TaskView,
    Visit,
    WireResponse,
)
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.tasks.rows import TaskTerms


class QuestionUnanswered(Exception):
    """The client did not answer a question in time, or said that it cannot."""

    def __init__(self, *, refused: bool) -> None:
        self.refused = refused
        super().__init__("refused" if refused else "no answer in time")


class AskClient(Protocol):
    """Sends a question as a request of a task, and waits for its response; raises QuestionUnanswered."""

    def __call__(self, sink: MessageSink, question: Question, task_id: str) -> Awaitable[Json]:
        """Ask one question."""
        ...


class SessionTasks:
    """Answers requests about tasks in one session."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder, caller: Caller, ask_client: AskClient) -> None:
        self._dispatcher = dispatcher
        self._encoder = encoder
        self._caller = caller
        self._ask_client = ask_client

    @property
    def _is_served(self) -> bool:
        return self._encoder.revision.core_tasks and self._dispatcher.tasks.is_offered

    @property
    def capability(self) -> JsonObject | None:
        """The capability that `initialize` declares; None if there are no tasks."""
        if not self._is_served:
            return None
        lists: JsonObject = {"list": {}} if self._dispatcher.tasks.can_list(self._caller) else {}
        return {**lists, "cancel": {}, "requests": {"tools": {"call": {}}}}

    def wants(self, request: JsonRpcRequest) -> bool:
        """Whether a request asks for a task; undeclared, its parameter is ignored."""
        return "task" in request.params and request.method == "tools/call" and self._is_served

    async def start(
        self, request: JsonRpcRequest, call: CallTool, caller: Caller, link: StatefulLink
    ) -> WireResponse | ToolhallError:
        """Start a call as a task; returns the created task, or the error for a call that was refused before."""
        keep = read_task_metadata(request)
        entry = self._dispatcher.registry.snapshot.find(call.tool)
        if entry is not None and entry.tool.task is None and self._dispatcher.policy.can_see(caller, entry.tool):
            raise McpRefusal(METHOD_NOT_FOUND, "calls of this tool cannot be tasks; leave params.task out")
        answer = await self._dispatcher.tasks.start(call, caller, link, TaskTerms(at_once=True, keep=keep))
        if isinstance(answer, TaskView):
            return self._encoder.response(request.id, {"task": write_core_task(answer)})
        if isinstance(answer, ToolhallError):
            return answer
        raise TypeError("a task answers nothing before it is made")

    def needs_task(self, error: ToolhallError) -> McpRefusal | None:
        """2025-11-25: a plain call of a tool that requires a task is -32601."""
        if self._is_served and isinstance(error, Unsupported) and error.feature == TASKS_FEATURE:
            return McpRefusal(METHOD_NOT_FOUND, "calls of this tool must be tasks; send params.task")
        return None

    async def answer(self, request: JsonRpcRequest, sink: MessageSink, caller: Caller) -> WireResponse:
        """Return the response to one of the methods of tasks; raises McpRefusal, NotFound or Limited."""
        if not self._is_served or request.method not in CORE_METHODS:
            raise method_not_found(request.method)
        if request.method == "tasks/list":
            return await self._list(request, caller)
        task_id, tasks = read_task_id(request), self._dispatcher.tasks
        match request.method:
            case "tasks/get":
                return self._encoder.response(request.id, write_core_task(await tasks.find(task_id, caller)))
            case "tasks/cancel":
                view = await tasks.look(task_id, caller)
                if view.has_ended:
                    raise cannot_cancel(view)
                return self._encoder.response(request.id, write_core_task(await tasks.cancel(task_id, caller)))
            case _:
                return write_task_payload(request.id, await self._ended(task_id, sink, caller), self._encoder)

    async def _list(self, request: JsonRpcRequest, caller: Caller) -> WireResponse:
        if not self._dispatcher.tasks.can_list(caller):
            raise method_not_found(request.method)
        views, cursor = await self._dispatcher.tasks.page(caller, read_list(request).cursor)
        result: JsonObject = {"tasks": [write_core_task(view) for view in views]}
        return self._encoder.response(request.id, result | ({"nextCursor": cursor} if cursor is not None else {}))

    async def _ended(self, task_id: str, sink: MessageSink, caller: Caller) -> TaskView:
        """Wait for the end of a task; its questions are sent as requests on the stream of this one meanwhile."""
        tasks = self._dispatcher.tasks
        while True:
            view = await tasks.wait(task_id, caller)
            if view.has_ended:
                return view
            key, question = next(iter(view.questions.items()))
            answers = await self._ask(sink, key, question, task_id)
            await tasks.answer(task_id, caller, answers)

    async def _ask(self, sink: MessageSink, key: str, question: Question, task_id: str) -> Mapping[str, Answered]:
        """Ask one question; nothing if nobody answers it, so that it is asked again."""
        try:
            return {key: read_input_response(question, await self._ask_client(sink, question, task_id), key)}
        except QuestionUnanswered as unanswered:
            if not unanswered.refused:
                return {}
            if isinstance(question, Form | Visit):
                return {key: Filled("cancel")}
            raise invalid_params("the client cannot answer the tool's question; cancel the task") from None
