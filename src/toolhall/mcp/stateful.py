"""`StatefulSession`: one initialized client of MCP 2025-06-18 or 2025-11-25, and the questions it has to answer."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Hashable

import msgspec

from toolhall.dialects.mcp.input_requests import write_input_request
from toolhall.dialects.mcp.protocol import (
    JsonRpcRequest,
    JsonRpcResponse,
    McpRefusal,
    PlainCall,
    RequestId,
    Revision,
    invalid_params,
    method_not_found,
)
from toolhall.dialects.mcp.requests import (
    CALL_METHODS,
    RequestMeta,
    read_call,
    read_hops,
    read_list,
    read_log_level,
    read_progress_token,
    read_resource_uri,
)
from toolhall.dialects.mcp.responses import LIST_MEMBERS, McpEncoder
from toolhall.dialects.mcp.tasks import related_task
from toolhall.mcp.resource_subscriptions import ResourceSubscriptions
from toolhall.mcp.response import MessageSink, StatefulLink, as_url_elicitations
from toolhall.mcp.session_tasks import QuestionUnanswered, SessionTasks
from toolhall.mcp.tool_requests import (
    ClientView,
    answer_completion,
    check_served,
    join_trace,
    list_page,
    refresh_files,
    refuse_call,
    resolve_call,
    subscribe_list_changes,
)
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, ToolFailed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Answer, CallTool, CompletedCall, InputRequired, Question, Visit, WireResponse
from toolhall.model.tool import KINDS, Kind
from toolhall.pipeline.dispatcher import Dispatcher

QUESTION_SECONDS = 300.0
INITIALIZED_SECONDS = 1.0
_session_keys = itertools.count(1)
_log = logging.getLogger("toolhall.mcp")


class StatefulSession:
    """One client after `initialize`: its revision, capabilities and log level, and its unanswered questions."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder, caller: Caller, capabilities: JsonObject) -> None:
        self._dispatcher = dispatcher
        self._capabilities = capabilities
        self._meta = RequestMeta(encoder.revision, capabilities, "info")  # of requests without a progress token
        self._dialect = f"mcp@{encoder.revision.name}"
        self._pending_questions: dict[str, asyncio.Future[Json]] = {}
        self._question_ids = itertools.count(1)
        self._initialized = asyncio.Event()
        self._wants_versions = False  # whether it ever listed all versions
        self.key = next(_session_keys)  # stands for the session where it must be told from others
        self.encoder = encoder
        self.caller = caller
        self.tasks = SessionTasks(dispatcher, encoder, caller, self._ask_for_task)
        self.resources = ResourceSubscriptions(dispatcher, lambda: self.caller)

    def mark_initialized(self) -> None:
        """`notifications/initialized`: the server may send requests from now on."""
        self._initialized.set()

    def on_change(self, notify: Callable[[bytes], None]) -> Callable[[], None]:
        """Call `notify` with the notification of each change that this client hears of; returns what ends that.

        These are changes of the lists that it is shown, and of the resources that it subscribes to.
        """

        def view() -> ClientView:
            return ClientView(self.caller, self.revision, self._wants_versions)

        def listen(kind: Kind) -> Callable[[], None]:
            notification = self.encoder.list_changed(kind)
            return subscribe_list_changes(self._dispatcher, view, lambda: notify(notification), kind)

        self.resources.notify = lambda uri: notify(self.encoder.resource_updated(uri))
        ends = [listen(kind) for kind in KINDS]

        def end() -> None:
            for each in (*ends, self.resources.close):
                each()

        return end

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self.encoder.revision

    async def answer(
        self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller | None = None
    ) -> WireResponse:
        """Return the response to a request, authorized by its caller; by default the session's last one."""
        try:
            return await self._answer(request, sink, size, caller or self.caller)
        except McpRefusal as refusal:
            # Only 2026-07-28 has HTTP statuses for refused methods.
            return WireResponse(self.encoder.error(request.id, refusal).body)
        except ToolhallError as error:
            return self.encoder.error(request.id, error, "tool" if request.method == "tools/call" else "resource")
        except Exception:  # noqa: BLE001 - a tool can return what cannot be encoded; the client still gets a response
            _log.exception("the answer to %s could not be written", request.method)
            return self.encoder.error(request.id, Broken())

    async def _answer(self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        check_served(self._dispatcher, request.method)
        if request.method in CALL_METHODS:
            return await self._call(request, sink, size, caller)
        if request.method in LIST_MEMBERS:
            return await self._list(request, caller)
        if request.method == "completion/complete":
            return await answer_completion(self._dispatcher, self.encoder, request, caller)
        if request.method.startswith("tasks/"):
            return await self.tasks.answer(request, sink, caller)
        self._acknowledge(request, caller)
        return self.encoder.response(request.id, {})

    def _acknowledge(self, request: JsonRpcRequest, caller: Caller) -> None:
        """Do what a request asks whose response is empty."""
        match request.method:
            case "ping":
                pass
            case "logging/setLevel":
                level = read_log_level(request.params.get("level"))
                self._meta = msgspec.structs.replace(self._meta, log_level=level)
            case "resources/subscribe":
                self.resources.subscribe(read_resource_uri(request), caller)
            case "resources/unsubscribe":
                self.resources.unsubscribe(read_resource_uri(request))
            case "initialize":
                raise invalid_params("this session is initialized already")
            case _:
                raise method_not_found(request.method)

    def policy_key(self, caller: Caller) -> Hashable:
        """Return an object that stands for the policy's decisions for a caller; it changes when any of them could."""
        return self._dispatcher.policy.cache_key(caller)

    async def may_read(self, request: JsonRpcRequest, size: int, caller: Caller) -> bool:
        """Whether a caller may read the response to an earlier request, with another credential or under newer rules.

        It is authorized, rate limited and audited like the same call sent now. Only calls are ever resumed.
        """
        if request.method not in CALL_METHODS:
            return False
        try:
            call = resolve_call(self._dispatcher, read_call(request, self._dialect, size))
        except McpRefusal:
            return False
        return await self._dispatcher.record_repeat(call, caller) is None

    async def _list(self, request: JsonRpcRequest, caller: Caller) -> WireResponse:
        params = read_list(request)
        await refresh_files(self._dispatcher, params, request.method)
        self._wants_versions = self._wants_versions or params.versions
        page = list_page(self._dispatcher, caller, params, request.method)
        return self.encoder.list_result(request.id, page, request.method)

    async def _call(self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        join_trace(request)
        try:
            call = resolve_call(self._dispatcher, read_call(request, self._dialect, size))
            meta = msgspec.structs.replace(
                self._meta, progress_token=read_progress_token(request), hops=read_hops(request)
            )
        except McpRefusal as refusal:
            raise refuse_call(self._dispatcher, request, caller, size, refusal, self._dialect) from None
        link = StatefulLink(sink, meta, self.encoder, self._ask_client, self.key)
        answer: Answer
        if self.tasks.wants(request):
            created = await self.tasks.start(request, call, caller, link)
            if isinstance(created, WireResponse):
                return created
            answer = created
        else:
            answer = await self._dispatcher.answer(call, caller, link)
        return self._response(request.id, answer, meta, call.kind)

    async def answer_plain(self, plain: PlainCall, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        """Return the response to a plain call, authorized by its caller."""
        if plain.kind != "tool":
            return await self.answer(plain.to_request(), sink, size, caller)
        call = CallTool(plain.name, plain.arguments, self._dialect, size, None, None, None, plain.encoded_arguments)
        if self._dispatcher.shortlist.pins:
            call = resolve_call(self._dispatcher, call)
        meta = self._meta
        link = StatefulLink(sink, meta, self.encoder, self._ask_client, self.key)
        answer = await self._dispatcher.answer(call, caller, link)
        try:
            return self._response(plain.id, answer, meta)
        except Exception:  # noqa: BLE001 - a tool can return what cannot be encoded; the client still gets a response
            _log.exception("the answer to tools/call could not be written")
            return self.encoder.error(plain.id, Broken())

    def _response(self, request_id: RequestId, answer: Answer, meta: RequestMeta, kind: Kind = "tool") -> WireResponse:
        if type(answer) is CompletedCall:
            if kind != "tool":
                return self.encoder.result(request_id, answer)
            return self.encoder.call_result(request_id, answer)
        match as_url_elicitations(answer, meta):
            case InputRequired(questions) if visits := [each for each in questions.values() if isinstance(each, Visit)]:
                return self.encoder.url_elicitation_required(request_id, visits)
            case ToolhallError() as error:
                refusal = self.tasks.needs_task(error)
                if refusal is not None:
                    return WireResponse(self.encoder.error(request_id, refusal).body)
                return self.encoder.error(request_id, error, kind)
            case _:
                raise TypeError("a legacy session asks its questions while the call runs")

    def handle_response(self, response: JsonRpcResponse) -> None:
        """Pass the response of the client to the call that waits for it."""
        future = self._pending_questions.pop(str(response.id), None)
        if future is None or future.done():
            return
        if response.error is not None:
            future.set_exception(QuestionUnanswered(refused=True))
        else:
            future.set_result(response.result)

    def fail_questions(self) -> None:
        """Fail all unanswered questions, because the server stops."""
        for future in self._pending_questions.values():
            if not future.done():
                future.set_exception(ToolFailed("the server stopped before the tool's question was answered"))

    async def _ask_client(self, sink: MessageSink, question: Question) -> Json:
        """Ask the client for a call that waits; raises ToolFailed if there is no answer."""
        try:
            return await self._request_answer(sink, write_input_request(question, self.revision))
        except QuestionUnanswered as unanswered:
            if unanswered.refused:
                raise ToolFailed("the client could not answer the tool's question") from None
            raise ToolFailed("nobody answered the tool's question in time") from None

    async def _ask_for_task(self, sink: MessageSink, question: Question, task_id: str) -> Json:
        """Ask the client for a task; raises QuestionUnanswered."""
        asked = write_input_request(question, self.revision)
        asked["params"] = {**asked["params"], "_meta": related_task(task_id)}
        return await self._request_answer(sink, asked)

    async def _request_answer(self, sink: MessageSink, asked: JsonObject) -> Json:
        """Send a question as a request and wait up to five minutes for its response."""
        await self._wait_initialized()
        question_id = f"toolhall-{next(self._question_ids)}"
        future = self._pending_questions[question_id] = asyncio.get_running_loop().create_future()
        sink.send(encode({"jsonrpc": "2.0", "id": question_id, **asked}))
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                return await future
        except TimeoutError:
            self._cancel_question(sink, question_id, "no answer in time")
            raise QuestionUnanswered(refused=False) from None
        except asyncio.CancelledError:  # the call was cancelled, or its own time is up
            self._cancel_question(sink, question_id, "the call has ended")
            raise
        finally:
            self._pending_questions.pop(question_id, None)

    async def _wait_initialized(self) -> None:
        """Wait a second for `notifications/initialized`; MCP allows no requests before it, but some clients omit it."""
        if not self._initialized.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INITIALIZED_SECONDS):
                    await self._initialized.wait()
            self._initialized.set()

    def _cancel_question(self, sink: MessageSink, question_id: str, reason: str) -> None:
        """Send `notifications/cancelled`, so that the client stops working on a question that has ended."""
        sink.send(self.encoder.notification("notifications/cancelled", {"requestId": question_id, "reason": reason}))
