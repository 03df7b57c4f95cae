"""The older revisions over HTTP: handshake, session header, GET streams that can be resumed, DELETE."""

from collections.abc import Callable

from toolhall.dialects.mcp.asks import read_initialize
from toolhall.dialects.mcp.jsonrpc import Notification, Request, Response
from toolhall.dialects.mcp.refusals import INVALID_REQUEST, McpRefusal
from toolhall.dialects.mcp.revisions import LEGACY, MODERN
from toolhall.dialects.mcp.write import Server, Writer, write_error
from toolhall.hall import Hall
from toolhall.model.exchange import Wire
from toolhall.transports.exchange import Exchange
from toolhall.transports.mcp.legacy import Session
from toolhall.transports.mcp.refusing import refused
from toolhall.transports.mcp.sessions import AnsweredRequest, HttpSession, Sessions
from toolhall.transports.sse import Place, primer, serve_events, start_events
from toolhall.transports.stream import Stream

SESSION_HEADER = b"mcp-session-id"
RETRY_MS = 1_000
_ACCEPTED = Wire(b"", 202)
_ENDED = Wire(b"", 200)


class LegacyHttp:
    """Finds the session of a request and lets it answer."""

    def __init__(self, hall: Hall, server: Server, clock: Callable[[], float]) -> None:
        self._hall = hall
        self._writers = {revision.name: Writer(server, revision) for revision in LEGACY.values()}
        self._sessions = Sessions(clock)

    async def request(self, exchange: Exchange, request: Request, size: int) -> None:
        """Answer a request, or open a session for it."""
        if request.method == "initialize" and SESSION_HEADER not in exchange.headers:
            await self._initialize(exchange, request)
            return
        session = await self._session(exchange, request, size)
        if session:
            await self._answer(exchange, session, request, size)

    async def other_message(self, exchange: Exchange, message: Notification | Response) -> None:
        """Take a notification or a reply to a question of ours."""
        session = await self._session(exchange)
        if session is None:
            return
        if isinstance(message, Response):
            session.session.reply(message)
        elif message.method == "notifications/initialized":
            session.session.greet()
        elif message.method == "notifications/cancelled":
            session.running.cancel(message)
        await exchange.reply(_ACCEPTED)

    async def other(self, exchange: Exchange) -> None:
        """GET opens a stream, DELETE ends the session; without a session there is neither."""
        # MCP 2026-07-28 has neither, and ignores the session header.
        newest = exchange.headers.get(b"mcp-protocol-version") == MODERN.name.encode()
        if newest or exchange.method not in ("GET", "DELETE") or SESSION_HEADER not in exchange.headers:
            await exchange.refuse(
                405, "use POST; GET and DELETE need the session of an older revision", (b"allow", b"POST")
            )
            return
        session = await self._session(exchange)
        if session is None:
            return
        if exchange.method == "DELETE":
            self._sessions.end(session)
            await exchange.reply(_ENDED)
        else:
            await self._open_stream(exchange, session)

    def end_streams(self) -> None:
        """End every standalone stream; what runs may finish."""
        self._sessions.retire()

    def close(self) -> None:
        """End every session."""
        self._sessions.close()

    async def _initialize(self, exchange: Exchange, request: Request) -> None:
        try:
            hello = read_initialize(request)
            writer = self._writers[hello.revision.name]
            opened = self._sessions.open(Session(self._hall, writer, exchange.caller, hello.capabilities))
        except McpRefusal as refusal:
            await exchange.reply(write_error(request.id, refusal))
            return
        await exchange.reply(writer.initialized(request.id), (SESSION_HEADER, opened.id.encode()))

    async def _session(self, exchange: Exchange, request: Request | None = None, size: int = 0) -> HttpSession | None:
        """The caller's session; where there is none, the refusal has been sent."""
        try:
            return self._found(exchange)
        except McpRefusal as refusal:
            error = refused(self._hall, request, exchange.caller, size, refusal)
            await exchange.reply(write_error(request.id if request else None, error))
            return None

    def _found(self, exchange: Exchange) -> HttpSession:
        version = exchange.headers.get(b"mcp-protocol-version")
        if version is not None and version.decode("latin-1") not in LEGACY:
            known = ", ".join(LEGACY)
            raise McpRefusal(INVALID_REQUEST, f"in a session MCP-Protocol-Version must be one of {known}")
        session_id = exchange.headers.get(SESSION_HEADER)
        if session_id is None:
            raise McpRefusal(INVALID_REQUEST, "send initialize first, then its Mcp-Session-Id with every request")
        session = self._sessions.find(session_id.decode("latin-1"), exchange.caller)
        if session is None:
            raise McpRefusal(INVALID_REQUEST, "there is no such session; send initialize again", status=404)
        return session

    async def _answer(self, exchange: Exchange, session: HttpSession, request: Request, size: int) -> None:
        """The request outlives this connection, which only reads what it sends: to hang up is not to cancel here."""
        answered = session.begin(request, size, session.session.standing(exchange.caller))
        stream = answered.stream
        replies: list[Wire] = []

        async def work() -> None:
            wire = await session.session.answer(request, stream, size, exchange.caller)
            replies.append(wire)
            stream.finish(wire.body)

        give_back = exchange.take_place()

        def done(_: object) -> None:
            # A cancelled request gets no answer, but its stream must end, also if it was cancelled before it began.
            stream.finish()
            give_back()

        session.running.start(request.id, work()).add_done_callback(done)
        await stream.started()
        if stream.untouched and replies:
            session.forget(answered)
            await exchange.reply(replies[0])
        else:
            await self._stream(exchange, session, stream)

    async def _stream(self, exchange: Exchange, session: HttpSession, stream: Stream) -> None:
        await start_events(exchange)
        if session.session.revision.primed:
            retry = stream.retry_ms if stream.retry_ms is not None else RETRY_MS
            await exchange.part(primer(f"{stream.name}-0", retry), more=True)
        await serve_events(exchange, stream, Place(f"{stream.name}-"))

    async def _open_stream(self, exchange: Exchange, session: HttpSession) -> None:
        exchange.take_place()()  # one stream a session is bound enough
        last = exchange.headers.get(b"last-event-id", b"").decode("latin-1")
        found = session.find_event(last)
        if found and await _may_read(exchange, session, found[0]):
            await self._resume(exchange, session, *found)
        elif session.reading:  # what may not be read is answered like an id that was never given
            await exchange.refuse(409, "this session has a GET stream already")
        else:
            await self._standalone(exchange, session)

    async def _resume(self, exchange: Exchange, session: HttpSession, answered: AnsweredRequest, number: int) -> None:
        """Replay what came after an event, then go on; for every message the credential and the policy are asked."""

        async def permitted() -> bool:
            return await exchange.is_still_proven() and await _may_read(exchange, session, answered)

        place = Place(f"{answered.stream.name}-", number, resumed=True)
        await start_events(exchange)
        await serve_events(exchange, answered.stream, place, permitted=permitted)

    async def _standalone(self, exchange: Exchange, session: HttpSession) -> None:
        session.reading = True
        try:
            await start_events(exchange)
            place, permitted = Place(after=session.heard), exchange.is_still_proven
            await serve_events(exchange, session.standalone, place, permitted=permitted)
        finally:
            session.reading = False
            session.heard = session.standalone.last


async def _may_read(exchange: Exchange, session: HttpSession, answered: AnsweredRequest) -> bool:
    """Whether the caller of this exchange may read the answer to an earlier request of its session.

    A caller may hold several credentials, and its grants may have changed since: unless nothing that decides has
    changed, the call is judged again.
    """
    standing = session.session.standing(exchange.caller)
    if standing == answered.standing:
        return True
    if not await session.session.may_read(answered.request, answered.size, exchange.caller):
        return False
    answered.standing = standing
    return True
