"""MCP on standard input and output: one message a line, both eras in one process."""

from collections.abc import Callable

from toolhall.dialects.mcp.asks import read_initialize
from toolhall.dialects.mcp.jsonrpc import Message, Notification, Request, Response, Unreadable, read_message
from toolhall.dialects.mcp.refusals import INVALID_REQUEST, LIMITED, McpRefusal
from toolhall.dialects.mcp.revisions import LEGACY
from toolhall.dialects.mcp.terms import is_modern, modern_terms
from toolhall.dialects.mcp.write import Server, Writer, write_error
from toolhall.hall import Hall
from toolhall.model.caller import LOCAL
from toolhall.model.errors import ToolhallError
from toolhall.transports.lines import Lines
from toolhall.transports.mcp.legacy import Session
from toolhall.transports.mcp.modern import LISTEN, Modern
from toolhall.transports.mcp.refusing import refused
from toolhall.transports.mcp.running import Running
from toolhall.transports.stream import Stream

LAST_ANSWERS_SECONDS = 2.0
MAX_AT_ONCE = 1_000
_NOTICE = b'"method":"notifications/'


class McpStdio:
    """Answers each request in a task of its own; the user of this machine is the caller."""

    def __init__(self, hall: Hall, server: Server, modern: Modern, lines: Lines, max_body: int) -> None:
        self._hall = hall
        self._modern = modern
        self._lines = lines
        self._max_body = max_body
        self._writers = {revision.name: Writer(server, revision) for revision in LEGACY.values()}
        self._session: Session | None = None
        self._stop_hearing: Callable[[], None] | None = None
        self._running = Running()

    async def run(self) -> None:
        """Serve until the input ends, then give running calls a moment to answer."""
        try:
            async for line in self._lines.read():
                self._receive(line)
                await self._lines.drain()
            for cancellation in self._modern.subscriptions.cancellations():
                self.send(cancellation)
            self._modern.subscriptions.close()
        except ConnectionError:
            pass  # the client reads no more, so there is nobody to serve
        finally:
            if self._stop_hearing:
                self._stop_hearing()
            await self._running.finish(LAST_ANSWERS_SECONDS)

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
        except Unreadable as unreadable:
            error = refused(self._hall, unreadable.request, LOCAL, len(line), unreadable.refusal)
            self.send(write_error(unreadable.id, error).body)

    def _handle(self, message: Message, size: int) -> None:
        match message:
            case Request() if len(self._running) >= MAX_AT_ONCE:
                refusal = McpRefusal(LIMITED, f"{MAX_AT_ONCE} requests are running; wait for some to be answered")
                raise Unreadable(refusal, message.id, message)
            case Request() if message.id in self._running:
                refusal = McpRefusal(INVALID_REQUEST, "a request with this id is still running; use another id")
                raise Unreadable(refusal, message.id, message)
            case Request() if is_modern(message):
                work = self._listen(message) if message.method == LISTEN else self._answer(message, size)
                self._running.start(message.id, work)
            case Request(method="initialize"):
                self._initialize(message)
            case Request():
                self._running.start(message.id, self._answer_in_session(message, size))
            case Notification(method="notifications/initialized") if self._session:
                self._session.greet()
            case Notification(method="notifications/cancelled"):
                self._running.cancel(message)
            case Response() if self._session:
                self._session.reply(message)
            case _:
                pass  # a notification that means nothing to a tool server

    def _initialize(self, request: Request) -> None:
        try:
            hello = read_initialize(request)
        except McpRefusal as refusal:
            raise Unreadable(refusal, request.id) from None
        writer = self._writers[hello.revision.name]
        if self._stop_hearing:  # who shakes hands again speaks another revision from now on
            self._stop_hearing()
        self._session = Session(self._hall, writer, LOCAL, hello.capabilities)
        self._stop_hearing = self._session.hear(lambda: self.send(writer.tools_changed()))
        self.send(writer.initialized(request.id).body)

    async def _answer(self, request: Request, size: int) -> None:
        try:
            terms = modern_terms(request)
        except McpRefusal as refusal:
            error = refused(self._hall, request, LOCAL, size, refusal)
            self.send(self._modern.writer.error(request.id, error).body)
            return
        with _Voice(self._lines) as voice:
            answer = await self._modern.answer(request, terms, LOCAL, voice, size)
        self.send(answer.body)

    async def _answer_in_session(self, request: Request, size: int) -> None:
        if self._session is None:
            refusal = McpRefusal(
                INVALID_REQUEST, "send initialize first, or put the protocol version into params._meta"
            )
            self.send(write_error(request.id, refused(self._hall, request, LOCAL, size, refusal)).body)
        else:
            with _Voice(self._lines) as voice:
                answer = await self._session.answer(request, voice, size)
            self.send(answer.body)

    async def _listen(self, request: Request) -> None:
        stream = Stream()
        try:
            modern_terms(request)
            end = self._modern.subscriptions.listen(request, LOCAL, stream)
        except ToolhallError as error:
            self.send(self._modern.writer.error(request.id, error).body)
            return
        try:
            async for item in stream.read():
                if item.message:
                    self.send(item.message)
        finally:
            end()


class _Voice:
    """The outlet of one request; once that is answered or cancelled, what its tool still says is not heard."""

    def __init__(self, lines: Lines) -> None:
        self._lines: Lines | None = lines

    def __enter__(self) -> "_Voice":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines = None

    def send(self, message: bytes) -> None:
        """Every message is a line; to a client that does not read, notices are not added."""
        if self._lines is not None and not (self._lines.crowded and _NOTICE in message):
            self._lines.write(message)

    def hang_up(self, retry_ms: int) -> None:
        """There is no connection to let go."""
