"""`McpSession`: one initialized client of MCP 2025-06-18 or 2025-11-25, and the questions that it has yet to answer."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Hashable

from toolhall.dialects.mcp.input_requests import write_input_request
from toolhall.dialects.mcp.protocol import (
    JsonRpcRequest,
    JsonRpcResponse,
    McpRefusal,
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
from toolhall.model.messages import CompletedCall, InputRequired, LogLevel, WireResponse
from toolhall.model.questions import Question, Visit
from toolhall.pipeline.dispatcher import Dispatcher

QUESTION_SECONDS = 300.0
INITIALIZED_SECONDS = 1.0
_log = logging.getLogger("toolhall.mcp")


class McpSession:
    """One client after its handshake: its terms, and the questions it has yet to answer."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder, caller: Caller, capabilities: JsonObject) -> None:
        self._dispatcher = dispatcher
        self._capabilities = capabilities
        self._log_level: LogLevel = "info"
        self._pending_questions: dict[str, asyncio.Future[Json]] = {}
        self._question_ids = itertools.count(1)
        self._initialized = asyncio.Event()
        self._wants_versions = False  # whether it ever asked for every version
        self.encoder = encoder
        self.caller = caller

    def mark_initialized(self) -> None:
        """`notifications/initialized`: from now on the client may be asked."""
        self._initialized.set()

    def on_list_changed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the list changes that this client is shown; returns how to end that."""
        return subscribe_list_changes(
            self._dispatcher, lambda: ClientView(self.caller, self.revision, self._wants_versions), listener
        )

    @property
    def revision(self) -> Revision:
        """The revision that was negotiated."""
        return self.encoder.revision

    async def answer(
        self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller | None = None
    ) -> WireResponse:
        """The one reply to a request, which its own credential decides; without one, that of the last request."""
        try:
            return await self._answer(request, sink, size, caller or self.caller)
        except McpRefusal as refusal:
            # Only 2026-07-28 gives refused methods an HTTP status of their own.
            return WireResponse(self.encoder.error(request.id, refusal).body)
        except ToolhallError as error:
            return self.encoder.error(request.id, error)
        except Exception:  # noqa: BLE001 - a tool can return what no dialect can write; its caller gets an answer still
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
                self._log_level = read_log_level(request.params.get("level"))
                return self.encoder.response(request.id, {})
            case "initialize":
                raise invalid_params("this session is initialized already")
            case _:
                raise method_not_found(request.method)

    def policy_key(self, caller: Caller) -> Hashable:
        """What the policy has decided for a caller: the same object until a decision could be another."""
        return self._dispatcher.policy.cache_key(caller)

    async def may_read(self, request: JsonRpcRequest, size: int, caller: Caller) -> bool:
        """Whether a caller may be sent the answer to a request, by another of its credentials or under newer rules.

        That is decided, counted and recorded as if the caller had sent the same call now. Only calls are ever resumed.
        """
        if request.method != "tools/call":
            return False
        try:
            call = resolve_call(self._dispatcher, read_call(request, f"mcp@{self.revision.name}", size))
        except McpRefusal:
            return False
        return await self._dispatcher.record_repeat(call, caller) is None

    def _list(self, request: JsonRpcRequest, caller: Caller) -> WireResponse:
        asked = read_list(request)
        self._wants_versions = self._wants_versions or asked.versions
        return self.encoder.list_result(request.id, list_page(self._dispatcher, caller, asked))

    async def _call(self, request: JsonRpcRequest, sink: MessageSink, size: int, caller: Caller) -> WireResponse:
        join_trace(request)
        dialect = f"mcp@{self.revision.name}"
        try:
            call = resolve_call(self._dispatcher, read_call(request, dialect, size))
            terms = RequestMeta(self.revision, self._capabilities, self._log_level, read_progress_token(request))
        except McpRefusal as refusal:
            raise refuse_call(self._dispatcher, request, caller, size, refusal, dialect) from None
        link = StatefulLink(sink, terms, self.encoder, self._ask_client)
        return self._response(request, as_url_elicitations(await self._dispatcher.answer(call, caller, link), terms))

    def _response(self, request: JsonRpcRequest, answer: object) -> WireResponse:
        match answer:
            case InputRequired(questions) if visits := [each for each in questions.values() if isinstance(each, Visit)]:
                return self.encoder.url_elicitation_required(request.id, visits)
            case CompletedCall():
                return self.encoder.call_result(request.id, answer)
            case ToolhallError():
                return self.encoder.error(request.id, answer)
            case _:
                raise TypeError("a legacy session asks its questions while the call runs")

    def handle_response(self, response: JsonRpcResponse) -> None:
        """Hand the client's reply to the call that waits for it."""
        waiting = self._pending_questions.pop(str(response.id), None)
        if waiting is None or waiting.done():
            return
        if response.error is not None:
            waiting.set_exception(ToolFailed("the client could not answer the tool's question"))
        else:
            waiting.set_result(response.result)

    def fail_questions(self) -> None:
        """Nobody will answer any more, because the server stops: tools that wait for a reply hear so."""
        for waiting in self._pending_questions.values():
            if not waiting.done():
                waiting.set_exception(ToolFailed("the server stopped before the tool's question was answered"))

    async def _ask_client(self, sink: MessageSink, question: Question) -> Json:
        """Send a question as a request of ours and wait for its response."""
        await self._wait_initialized()
        question_id = f"toolhall-{next(self._question_ids)}"
        waiting = self._pending_questions[question_id] = asyncio.get_running_loop().create_future()
        sink.send(encode({"jsonrpc": "2.0", "id": question_id, **write_input_request(question, self.revision)}))
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                return await waiting
        except TimeoutError:
            self._cancel_question(sink, question_id, "no answer in time")
            raise ToolFailed("nobody answered the tool's question in time") from None
        except asyncio.CancelledError:  # the call was cancelled, or its own time is up
            self._cancel_question(sink, question_id, "the call has ended")
            raise
        finally:
            self._pending_questions.pop(question_id, None)

    async def _wait_initialized(self) -> None:
        """MCP: before `notifications/initialized` a server should send no requests; a client may forget to say it."""
        if not self._initialized.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INITIALIZED_SECONDS):
                    await self._initialized.wait()
            self._initialized.set()

    def _cancel_question(self, sink: MessageSink, question_id: str, reason: str) -> None:
        """MCP: a request that is no longer waited for is cancelled, so that the client stops working on it."""
        sink.send(self.encoder.notification("notifications/cancelled", {"requestId": question_id, "reason": reason}))
