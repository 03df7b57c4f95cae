"""`McpStdio`: MCP over standard input and output, one message per line, all revisions in one process."""

from collections.abc import Callable

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
    read_message,
)
from toolhall.dialects.mcp.requests import is_stateless_request, read_initialize, read_request_meta
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_error
from toolhall.http.sse import EventStream
from toolhall.http.stdio_lines import StdioLines
from toolhall.mcp.sessions import InflightRequests
from toolhall.mcp.stateful import McpSession
from toolhall.mcp.stateless import LISTEN_METHOD, StatelessMcp
from toolhall.mcp.tool_requests import refuse_call
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolhallError
from toolhall.pipeline.dispatcher import Dispatcher

DRAIN_SECONDS = 2.0
MAX_CONCURRENT_REQUESTS = 1_000
_NOTIFICATION = b'"method":"notifications/'


class McpStdio:
    """Answers each request in a task of its own; the user of this machine is the caller."""

    def __init__(
        self, dispatcher: Dispatcher, server: ServerInfo, stateless: StatelessMcp, lines: StdioLines, max_body: int
    ) -> None:
        self._dispatcher = dispatcher
        self._stateless = stateless
        self._lines = lines
        self._max_body = max_body
        self._encoders = {revision.name: McpEncoder(server, revision) for revision in STATEFUL_REVISIONS.values()}
        self._session: McpSession | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._inflight = InflightRequests()

    async def run(self) -> None:
        """Serve until the input ends, then give running calls a moment to answer."""
        try:
            async for line in self._lines.read():
                self._receive(line)
                await self._lines.drain()
            for cancellation in self._stateless.subscriptions.cancellations():
                self.send(cancellation)
            self._stateless.subscriptions.close()
        except ConnectionError:
            pass  # the client reads no more, so there is nobody to serve
        finally:
            if self._unsubscribe:
                self._unsubscribe()
            await self._inflight.drain(DRAIN_SECONDS)

    def send(self, message: bytes) -> None:
        """Every message is a line."""
        self._lines.write(message)

    def _receive(self, line: bytes | None) -> None:
        if line is None or len(line) > self._max_body:
            refusal = McpRefusal(INVALID_REQUEST, f"the message is larger than {self._max_body} bytes")
            self.send(write_error(None, refusal).body)
            return
        try:
            self._handle(read_message(line), len(line))
        except McpDecodeError as unreadable:
            error = refuse_call(self._dispatcher, unreadable.request, LOCAL, len(line), unreadable.refusal)
            self.send(write_error(unreadable.id, error).body)

    def _handle(self, message: JsonRpcMessage, size: int) -> None:
        match message:
            case JsonRpcRequest() if len(self._inflight) >= MAX_CONCURRENT_REQUESTS:
                refusal = McpRefusal(
                    RATE_LIMITED, f"{MAX_CONCURRENT_REQUESTS} requests are running; wait for some to be answered"
                )
                raise McpDecodeError(refusal, message.id, message)
            case JsonRpcRequest() if message.id in self._inflight:
                refusal = McpRefusal(INVALID_REQUEST, "a request with this id is still running; use another id")
                raise McpDecodeError(refusal, message.id, message)
            case JsonRpcRequest() if is_stateless_request(message):
                work = self._listen(message) if message.method == LISTEN_METHOD else self._answer(message, size)
                self._inflight.start(message.id, work)
            case JsonRpcRequest(method="initialize"):
                self._initialize(message)
            case JsonRpcRequest():
                self._inflight.start(message.id, self._answer_in_session(message, size))
            case JsonRpcNotification(method="notifications/initialized") if self._session:
                self._session.mark_initialized()
            case JsonRpcNotification(method="notifications/cancelled"):
                self._inflight.cancel(message)
            case JsonRpcResponse() if self._session:
                self._session.handle_response(message)
            case _:
                pass  # a notification that means nothing to a tool server

    def _initialize(self, request: JsonRpcRequest) -> None:
        try:
            hello = read_initialize(request)
        except McpRefusal as refusal:
            raise McpDecodeError(refusal, request.id) from None
        writer = self._encoders[hello.revision.name]
        if self._unsubscribe:  # who shakes hands again speaks another revision from now on
            self._unsubscribe()
        self._session = McpSession(self._dispatcher, writer, LOCAL, hello.capabilities)
        self._unsubscribe = self._session.on_list_changed(lambda: self.send(writer.tools_list_changed()))
        self.send(writer.initialize_result(request.id).body)

    async def _answer(self, request: JsonRpcRequest, size: int) -> None:
        try:
            terms = read_request_meta(request)
        except McpRefusal as refusal:
            error = refuse_call(self._dispatcher, request, LOCAL, size, refusal)
            self.send(self._stateless.encoder.error(request.id, error).body)
            return
        with _StdioSink(self._lines) as voice:
            answer = await self._stateless.answer(request, terms, LOCAL, voice, size)
        self.send(answer.body)

    async def _answer_in_session(self, request: JsonRpcRequest, size: int) -> None:
        if self._session is None:
            refusal = McpRefusal(
                INVALID_REQUEST, "send initialize first, or put the protocol version into params._meta"
            )
            self.send(write_error(request.id, refuse_call(self._dispatcher, request, LOCAL, size, refusal)).body)
        else:
            with _StdioSink(self._lines) as voice:
                answer = await self._session.answer(request, voice, size)
            self.send(answer.body)

    async def _listen(self, request: JsonRpcRequest) -> None:
        stream = EventStream()
        try:
            read_request_meta(request)
            end = self._stateless.subscriptions.listen(request, LOCAL, stream)
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
    """The outlet of one request; once that is answered or cancelled, what its tool still says is not heard."""

    def __init__(self, lines: StdioLines) -> None:
        self._lines: StdioLines | None = lines

    def __enter__(self) -> "_StdioSink":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines = None

    def send(self, message: bytes) -> None:
        """Every message is a line; to a client that does not read, notices are not added."""
        if self._lines is not None and not (self._lines.is_congested and _NOTIFICATION in message):
            self._lines.write(message)

    def disconnect_reader(self, retry_ms: int) -> None:
        """There is no connection to let go."""
