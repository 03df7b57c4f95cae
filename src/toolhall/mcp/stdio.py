"""`McpStdio`: MCP over standard input and output, one message per line, all revisions in one process."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from toolhall.dialects.mcp.protocol import (
    INVALID_REQUEST,
    RATE_LIMITED,
    STATEFUL_REVISIONS,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    McpDecodeError,
    McpRefusal,
    PlainCall,
    RequestId,
    read_message,
    read_plain_call,
)
from toolhall.dialects.mcp.requests import (
    RequestMeta,
    is_stateless_request,
    read_initialize,
    read_plain_meta,
    read_request_meta,
)
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_error
from toolhall.eager_tasks import EagerStarter
from toolhall.http.sse import EventStream
from toolhall.http.stdio_lines import Line, StdioLines
from toolhall.mcp.response import StatelessSinkLink
from toolhall.mcp.sessions import InflightRequests
from toolhall.mcp.stateful import StatefulSession
from toolhall.mcp.stateless import LISTEN_METHOD, StatelessMcp
from toolhall.mcp.tool_requests import refuse_call
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolhallError
from toolhall.pipeline.dispatcher import Dispatcher

DRAIN_SECONDS = 2.0
MAX_CONCURRENT_REQUESTS = 1_000
_NOTIFICATION = b'"method":"notifications/'


class McpStdio:
    """Serves MCP on stdin and stdout; each request runs in its own task, as the local caller."""

    def __init__(
        self, dispatcher: Dispatcher, server: ServerInfo, stateless: StatelessMcp, lines: StdioLines, max_body: int
    ) -> None:
        self._dispatcher = dispatcher
        self._stateless = stateless
        self._lines = lines
        self._max_body = max_body
        self._encoders = {revision.name: McpEncoder(server, revision) for revision in STATEFUL_REVISIONS.values()}
        self._session: StatefulSession | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._inflight = InflightRequests()
        self._starter = EagerStarter(asyncio.get_running_loop(), "MCP request")

    async def run(self) -> None:
        """Serve until the input ends, then give running calls two seconds to finish."""
        try:
            await self._lines.serve(self._receive_all)
            for cancellation in self._stateless.subscriptions.cancellations():
                self.send(cancellation)
            self._stateless.subscriptions.close()
        finally:
            if self._unsubscribe:
                self._unsubscribe()
            await self._inflight.drain(DRAIN_SECONDS)
            self._lines.flush()

    def send(self, message: bytes) -> None:
        """Write one message as a line."""
        self._lines.write(message)

    def _receive_all(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._receive(line)

    def _receive(self, line: Line) -> None:
        if line is None or len(line) > self._max_body:
            refusal = McpRefusal(INVALID_REQUEST, f"the message is larger than {self._max_body} bytes")
            self.send(write_error(None, refusal).body)
            return
        try:
            plain = read_plain_call(line)
            if plain is not None:
                self._handle_call(plain, len(line))
            else:
                self._handle(read_message(line), len(line))
        except McpDecodeError as unreadable:
            error = refuse_call(self._dispatcher, unreadable.request, LOCAL, len(line), unreadable.refusal)
            self.send(write_error(unreadable.id, error).body)

    def _handle(self, message: JsonRpcMessage, size: int) -> None:
        match message:
            case JsonRpcRequest():
                self._handle_request(message, size)
            case JsonRpcNotification(method="notifications/initialized") if self._session:
                self._session.mark_initialized()
            case JsonRpcNotification(method="notifications/cancelled"):
                self._inflight.cancel(message)
            case JsonRpcResponse() if self._session:
                self._session.handle_response(message)
            case _:
                pass  # other notifications have no meaning here

    def _handle_call(self, plain: PlainCall, size: int) -> None:
        """Start a plain call; one that must be looked at, or refused, is handled in its general form."""
        meta, session = read_plain_meta(plain), self._session
        is_unserved = plain.kind != "tool" and plain.kind not in self._dispatcher.registry.snapshot.kinds
        is_general = self._dispatcher.shortlist.pins or plain.id in self._inflight or is_unserved
        if is_general or len(self._inflight) >= MAX_CONCURRENT_REQUESTS:
            self._handle_request(plain.to_request(), size)
        elif meta is not None:
            self._start(plain.id, self._call(plain, meta, size))
        elif session is not None and not plain.raw_meta:
            self._start(plain.id, self._call_in_session(session, plain, size))
        else:
            self._handle_request(plain.to_request(), size)

    def _handle_request(self, request: JsonRpcRequest, size: int) -> None:
        if len(self._inflight) >= MAX_CONCURRENT_REQUESTS:
            refusal = McpRefusal(
                RATE_LIMITED, f"{MAX_CONCURRENT_REQUESTS} requests are running; wait for some to be answered"
            )
            raise McpDecodeError(refusal, request.id, request)
        if request.id in self._inflight:
            refusal = McpRefusal(INVALID_REQUEST, "a request with this id is still running; use another id")
            raise McpDecodeError(refusal, request.id, request)
        if is_stateless_request(request):
            listens = request.method == LISTEN_METHOD
            self._start(request.id, self._listen(request) if listens else self._answer(request, size))
        elif request.method == "initialize":
            self._initialize(request)
        else:
            self._start(request.id, self._answer_in_session(request, size))

    def _start(self, request_id: RequestId, work: Coroutine[Any, Any, None]) -> None:
        """Run a request; most are answered in the first step, and need not be known to a cancellation."""
        task = self._starter.start(work)
        if not task.done():
            self._inflight.add(request_id, task)

    def _notify(self, notification: bytes) -> None:
        """Write a notification at once: a change of the list has been told when it returns."""
        self._lines.write(notification)
        self._lines.flush()

    def _initialize(self, request: JsonRpcRequest) -> None:
        try:
            params = read_initialize(request)
        except McpRefusal as refusal:
            raise McpDecodeError(refusal, request.id) from None
        encoder = self._encoders[params.revision.name]
        if self._unsubscribe:  # a second initialize replaces the session
            self._unsubscribe()
        self._session = StatefulSession(self._dispatcher, encoder, LOCAL, params.capabilities)
        self._unsubscribe = self._session.on_change(self._notify)
        served = self._dispatcher.registry.snapshot.kinds
        self.send(encoder.initialize_result(request.id, served, self._session.tasks.capability).body)

    async def _answer(self, request: JsonRpcRequest, size: int) -> None:
        try:
            meta = read_request_meta(request)
        except McpRefusal as refusal:
            error = refuse_call(self._dispatcher, request, LOCAL, size, refusal)
            self.send(self._stateless.encoder.error(request.id, error).body)
            return
        with _StdioSink(self._lines) as sink:
            link = StatelessSinkLink(sink, meta, self._stateless.encoder)
            response = await self._stateless.answer(request, meta, LOCAL, link, size)
        self.send(response.body)

    async def _call(self, plain: PlainCall, meta: RequestMeta, size: int) -> None:
        with _StdioSink(self._lines) as sink:
            link = StatelessSinkLink(sink, meta, self._stateless.encoder)
            response = await self._stateless.answer_plain(plain, meta, LOCAL, link, size)
        self.send(response.body)

    async def _call_in_session(self, session: StatefulSession, plain: PlainCall, size: int) -> None:
        with _StdioSink(self._lines) as sink:
            response = await session.answer_plain(plain, sink, size, session.caller)
        self.send(response.body)

    async def _answer_in_session(self, request: JsonRpcRequest, size: int) -> None:
        if self._session is None:
            refusal = McpRefusal(
                INVALID_REQUEST, "send initialize first, or put the protocol version into params._meta"
            )
            self.send(write_error(request.id, refuse_call(self._dispatcher, request, LOCAL, size, refusal)).body)
        else:
            with _StdioSink(self._lines) as sink:
                response = await self._session.answer(request, sink, size)
            self.send(response.body)

    async def _listen(self, request: JsonRpcRequest) -> None:
        stream = EventStream()
        try:
            tasks = await self._stateless.tasks.feed(request, read_request_meta(request), LOCAL)
            end = self._stateless.subscriptions.listen(request, LOCAL, stream, tasks)
        except ToolhallError as error:
            self.send(self._stateless.encoder.error(request.id, error).body)
            return
        try:
            async for item in stream.read():
                if item.message:
                    self.send(item.message)
        finally:
            end()


class _StdioSink:
    """The sink of one request; after its response or cancellation, further messages of its tool are dropped."""

    def __init__(self, lines: StdioLines) -> None:
        self._lines: StdioLines | None = lines

    def __enter__(self) -> "_StdioSink":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines = None

    def send(self, message: bytes) -> None:
        """Write one message as a line; notifications are dropped while the client does not read."""
        if self._lines is not None and not (self._lines.is_congested and _NOTIFICATION in message):
            self._lines.write(message)

    def disconnect_reader(self, retry_ms: int) -> None:
        """Do nothing: there is no connection to close."""
