"""`McpSession`: one initialized client of MCP 2025-06-18 or 2025-11-25, and the questions that it has yet to answer."""

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
from toolhall.dialects.mcp.requests import RequestMeta, read_call, read_list, read_log_level, read_progress_token
from toolhall.dialects.mcp.responses import McpEncoder
from toolhall.mcp.response import MessageSink, StatefulLink, as_url_elicitations
from toolhall.mcp.tool_requests import (
    ClientView,
    join_trace,
    list_page,
    refuse_call,
    resolve_call,
    subscribe_list_changes,
)
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, ToolFailed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Answer, CallTool, CompletedCall, InputRequired, Question, Visit, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher

QUESTION_SECONDS = 300.0
INITIALIZED_SECONDS = 1.0
_log = logging.getLogger("toolhall.mcp")


class McpSession:
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
        self.encoder = encoder
        self.caller = caller

    def mark_initialized(self) -> None:
        """`notifications/initialized`: the server may send requests from now on."""
        self._initialized.set()

    def on_list_changed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call the listener when the list that this client is shown changes; return the function that unsubscribes."""
        return subscribe_list_changes(
            self._dispatcher, lambda: ClientView(self.caller, self.revision, self._wants_versions), listener
        )

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
            return self.encoder.error(request.id, error)
        except Exception:  # noqa: BLE001 - a tool can return what cannot be encoded; the client still gets a response
            _log.exception("the answer to %s could not be written", request.method)
            return self.encoder.error(request.id, Broken())

    async def _answer(self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        match request.method:
            case "tools/call":
                return await self._call(request, sink, size, caller)
            case "tools/list":
                return self._list(request, caller)
            case "ping":
                return self.encoder.response(request.id, {})
            case "logging/setLevel":
                level = read_log_level(request.params.get("level"))
                self._meta = msgspec.structs.replace(self._meta, log_level=level)
                return self.encoder.response(request.id, {})
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
        if request.method != "tools/call":
            return False
        try:
            call = resolve_call(self._dispatcher, read_call(request, self._dialect, size))
        except McpRefusal:
            return False
        return await self._dispatcher.record_repeat(call, caller) is None

    def _list(self, request: JsonRpcRequest, caller: Caller) -> WireResponse:
        params = read_list(request)
        self._wants_versions = self._wants_versions or params.versions
        return self.encoder.list_result(request.id, list_page(self._dispatcher, caller, params))

    async def _call(self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        join_trace(request)
        try:
            call = resolve_call(self._dispatcher, read_call(request, self._dialect, size))
            meta = msgspec.structs.replace(self._meta, progress_token=read_progress_token(request))
        except McpRefusal as refusal:
            raise refuse_call(self._dispatcher, request, caller, size, refusal, self._dialect) from None
        link = StatefulLink(sink, meta, self.encoder, self._ask_client)
        return self._response(request.id, await self._dispatcher.answer(call, caller, link), meta)

    async def answer_plain(self, plain: PlainCall, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        """Return the response to a plain call, authorized by its caller."""
        call = CallTool(plain.name, plain.arguments, self._dialect, size, None, None, None, plain.encoded_arguments)
        if self._dispatcher.shortlist.pins:
            call = resolve_call(self._dispatcher, call)
        meta = self._meta
        link = StatefulLink(sink, meta, self.encoder, self._ask_client)
        answer = await self._dispatcher.answer(call, caller, link)
        try:
            return self._response(plain.id, answer, meta)
        except Exception:  # noqa: BLE001 - a tool can return what cannot be encoded; the client still gets a response
            _log.exception("the answer to tools/call could not be written")
            return self.encoder.error(plain.id, Broken())

    def _response(self, request_id: RequestId, answer: Answer, meta: RequestMeta) -> WireResponse:
        if type(answer) is CompletedCall:
            return self.encoder.call_result(request_id, answer)
        match as_url_elicitations(answer, meta):
            case InputRequired(questions) if visits := [each for each in questions.values() if isinstance(each, Visit)]:
                return self.encoder.url_elicitation_required(request_id, visits)
            case ToolhallError() as error:
                return self.encoder.error(request_id, error)
            case _:
                raise TypeError("a legacy session asks its questions while the call runs")

    def handle_response(self, response: JsonRpcResponse) -> None:
        """Pass the response of the client to the call that waits for it."""
        future = self._pending_questions.pop(str(response.id), None)
        if future is None or future.done():
            return
        if response.error is not None:
            future.set_exception(ToolFailed("the client could not answer the tool's question"))
        else:
            future.set_result(response.result)

    def fail_questions(self) -> None:
        """Fail all unanswered questions, because the server stops."""
        for future in self._pending_questions.values():
            if not future.done():
                future.set_exception(ToolFailed("the server stopped before the tool's question was answered"))

    async def _ask_client(self, sink: MessageSink, question: Question) -> Json:
        """Send a question as a request and wait up to five minutes for its response."""
        await self._wait_initialized()
        question_id = f"toolhall-{next(self._question_ids)}"
        future = self._pending_questions[question_id] = asyncio.get_running_loop().create_future()
        sink.send(encode({"jsonrpc": "2.0", "id": question_id, **write_input_request(question, self.revision)}))
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                return await future
        except TimeoutError:
            self._cancel_question(sink, question_id, "no answer in time")
            raise ToolFailed("nobody answered the tool's question in time") from None
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
