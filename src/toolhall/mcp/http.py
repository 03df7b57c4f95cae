"""`McpHttp`, the `/mcp` endpoint: stateless requests, and sessions with resumable streams (`StatefulHttp`)."""

import asyncio
from collections.abc import Callable

from toolhall.concurrency import OnFirstSuspend
from toolhall.dialects.mcp.protocol import (
    INVALID_REQUEST,
    REVISION_2026_07_28,
    STATEFUL_REVISIONS,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    McpDecodeError,
    McpRefusal,
    read_message,
)
from toolhall.dialects.mcp.requests import (
    RequestMeta,
    check_headers,
    check_parameter_headers,
    check_version_header,
    is_stateless_request,
    read_initialize,
    read_request_meta,
)
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_error
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.http.sse import EventStream, ResumePoint, priming_event, serve_events, start_events
from toolhall.mcp.response import ResponseWriter
from toolhall.mcp.sessions import HttpSession, McpSessions, ResumableRequest
from toolhall.mcp.stateful import McpSession
from toolhall.mcp.stateless import LISTEN_METHOD, StatelessMcp
from toolhall.mcp.tool_requests import refuse_call, resolve_name
from toolhall.model.errors import ToolhallError
from toolhall.model.messages import WireResponse
from toolhall.pipeline.dispatcher import Dispatcher

SESSION_HEADER = b"mcp-session-id"
RETRY_MS = 1_000
_ACCEPTED = WireResponse(b"", 202)
_ENDED = WireResponse(b"", 200)
_MODERN = REVISION_2026_07_28.name.encode()


class StatefulHttp:
    """Finds the session of a request and lets it answer."""

    def __init__(self, dispatcher: Dispatcher, server: ServerInfo, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._encoders = {revision.name: McpEncoder(server, revision) for revision in STATEFUL_REVISIONS.values()}
        self._sessions = McpSessions(clock)

    async def handle_request(self, http_request: HttpRequest, request: JsonRpcRequest, size: int) -> None:
        """Answer a request, or open a session for it."""
        if request.method == "initialize" and SESSION_HEADER not in http_request.headers:
            await self._initialize(http_request, request)
            return
        session = await self._session(http_request, request, size)
        if session:
            await self._answer(http_request, session, request, size)

    async def handle_message(self, request: HttpRequest, message: JsonRpcNotification | JsonRpcResponse) -> None:
        """Take a notification or a reply to a question of ours."""
        session = await self._session(request)
        if session is None:
            return
        if isinstance(message, JsonRpcResponse):
            session.session.handle_response(message)
        elif message.method == "notifications/initialized":
            session.session.mark_initialized()
        elif message.method == "notifications/cancelled":
            session.inflight.cancel(message)
        await request.reply(_ACCEPTED)

    async def get_or_delete(self, request: HttpRequest) -> None:
        """GET opens a stream, DELETE ends the session; without a session there is neither."""
        # MCP 2026-07-28 has neither, and ignores the session header.
        newest = request.headers.get(b"mcp-protocol-version") == REVISION_2026_07_28.name.encode()
        if newest or request.method not in ("GET", "DELETE") or SESSION_HEADER not in request.headers:
            await request.refuse(
                405, "use POST; GET and DELETE need the session of an older revision", (b"allow", b"POST")
            )
            return
        session = await self._session(request)
        if session is None:
            return
        if request.method == "DELETE":
            self._sessions.end(session)
            await request.reply(_ENDED)
        else:
            await self._open_stream(request, session)

    def end_streams(self) -> None:
        """End every standalone stream; what runs may finish."""
        self._sessions.end_streams()

    def close(self) -> None:
        """End every session."""
        self._sessions.close()

    async def _initialize(self, http_request: HttpRequest, request: JsonRpcRequest) -> None:
        try:
            hello = read_initialize(request)
            writer = self._encoders[hello.revision.name]
            opened = self._sessions.open(McpSession(self._dispatcher, writer, http_request.caller, hello.capabilities))
        except McpRefusal as refusal:
            await http_request.reply(write_error(request.id, refusal))
            return
        await http_request.reply(writer.initialize_result(request.id), (SESSION_HEADER, opened.id.encode()))

    async def _session(
        self, http_request: HttpRequest, request: JsonRpcRequest | None = None, size: int = 0
    ) -> HttpSession | None:
        """The caller's session; where there is none, the refusal has been sent."""
        try:
            return self._find_session(http_request)
        except McpRefusal as refusal:
            error = refuse_call(self._dispatcher, request, http_request.caller, size, refusal)
            await http_request.reply(write_error(request.id if request else None, error))
            return None

    def _find_session(self, request: HttpRequest) -> HttpSession:
        version = request.headers.get(b"mcp-protocol-version")
        if version is not None and version.decode("latin-1") not in STATEFUL_REVISIONS:
            known = ", ".join(STATEFUL_REVISIONS)
            raise McpRefusal(INVALID_REQUEST, f"in a session MCP-Protocol-Version must be one of {known}")
        session_id = request.headers.get(SESSION_HEADER)
        if session_id is None:
            raise McpRefusal(INVALID_REQUEST, "send initialize first, then its Mcp-Session-Id with every request")
        session = self._sessions.find(session_id.decode("latin-1"), request.caller)
        if session is None:
            raise McpRefusal(INVALID_REQUEST, "there is no such session; send initialize again", status=404)
        return session

    async def _answer(
        self, http_request: HttpRequest, session: HttpSession, request: JsonRpcRequest, size: int
    ) -> None:
        """The request outlives this connection, which only reads what it sends: to hang up is not to cancel here."""
        answered = session.begin(request, size, session.session.policy_key(http_request.caller))
        stream = answered.stream
        replies: list[WireResponse] = []

        async def work() -> None:
            wire = await session.session.answer(request, stream, size, http_request.caller)
            replies.append(wire)
            stream.finish(wire.body)

        give_back = http_request.detach_slot()

        def done(_: object) -> None:
            # A cancelled request gets no answer, but its stream must end, also if it was cancelled before it began.
            stream.finish()
            give_back()

        session.inflight.start(request.id, work()).add_done_callback(done)
        await stream.wait_until_started()
        if stream.has_only_answer and replies:
            session.discard(answered)
            await http_request.reply(replies[0])
        else:
            await self._stream(http_request, session, stream)

    async def _stream(self, request: HttpRequest, session: HttpSession, stream: EventStream) -> None:
        await start_events(request)
        if session.session.revision.priming_event:
            retry = stream.retry_ms if stream.retry_ms is not None else RETRY_MS
            await request.send_body(priming_event(f"{stream.name}-0", retry), more=True)
        await serve_events(request, stream, ResumePoint(f"{stream.name}-"))

    async def _open_stream(self, request: HttpRequest, session: HttpSession) -> None:
        request.detach_slot()()  # one stream a session is bound enough
        last = request.headers.get(b"last-event-id", b"").decode("latin-1")
        found = session.find_event(last)
        if found and await _may_read(request, session, found[0]):
            await self._resume(request, session, *found)
        elif session.is_reading:  # what may not be read is answered like an id that was never given
            await request.refuse(409, "this session has a GET stream already")
        else:
            await self._standalone(request, session)

    async def _resume(
        self, request: HttpRequest, session: HttpSession, resumable: ResumableRequest, number: int
    ) -> None:
        """Replay what came after an event, then go on; for every message the credential and the policy are asked."""

        async def permitted() -> bool:
            return await request.is_still_authenticated() and await _may_read(request, session, resumable)

        place = ResumePoint(f"{resumable.stream.name}-", number, resumed=True)
        await start_events(request)
        await serve_events(request, resumable.stream, place, is_permitted=permitted)

    async def _standalone(self, request: HttpRequest, session: HttpSession) -> None:
        session.is_reading = True
        try:
            await start_events(request)
            place, permitted = ResumePoint(after=session.read_number), request.is_still_authenticated
            await serve_events(request, session.standalone, place, is_permitted=permitted)
        finally:
            session.is_reading = False
            session.read_number = session.standalone.last_number


async def _may_read(request: HttpRequest, session: HttpSession, resumable: ResumableRequest) -> bool:
    """Whether the caller of this exchange may read the answer to an earlier request of its session.

    A caller may hold several credentials, and its grants may have changed since: unless nothing that decides has
    changed, the call is judged again.
    """
    standing = session.session.policy_key(request.caller)
    if standing == resumable.policy_key:
        return True
    if not await session.session.may_read(resumable.request, resumable.size, request.caller):
        return False
    resumable.policy_key = standing
    return True


class McpHttp:
    """Reads one message per POST and lets the era it belongs to answer."""

    def __init__(
        self, dispatcher: Dispatcher, validator: RequestValidator, stateless: StatelessMcp, stateful: StatefulHttp
    ) -> None:
        self._dispatcher = dispatcher
        self._validator = validator
        self._stateless = stateless
        self._stateful = stateful

    async def __call__(self, request: HttpRequest) -> None:
        """`POST /mcp`: answer one message."""
        body = await self._validator.read_body(request.headers, request.receive)
        try:
            message = read_message(body)
        except McpDecodeError as unreadable:
            error = refuse_call(self._dispatcher, unreadable.request, request.caller, len(body), unreadable.refusal)
            await request.reply(write_error(unreadable.id, error))
            return
        says_modern = request.headers.get(b"mcp-protocol-version") == _MODERN
        if isinstance(message, JsonRpcRequest):
            if says_modern or is_stateless_request(message):
                await self._answer(request, message, len(body))
            else:
                await self._stateful.handle_request(request, message, len(body))
        elif says_modern:
            await request.reply(_ACCEPTED)
        else:
            await self._stateful.handle_message(request, message)

    async def get_or_delete(self, request: HttpRequest) -> None:
        """`GET` and `DELETE /mcp`: only the older revisions' sessions know them."""
        await self._stateful.get_or_delete(request)

    def end_streams(self) -> None:
        """Say goodbye to every client that only listens; what runs may finish."""
        self._stateless.subscriptions.close()
        self._stateful.end_streams()

    def close(self) -> None:
        """End every stream and every session."""
        self._stateless.subscriptions.close()
        self._stateful.close()

    async def _answer(self, http_request: HttpRequest, request: JsonRpcRequest, size: int) -> None:
        try:
            terms = self._read_meta(http_request, request)
        except McpRefusal as refusal:
            error = refuse_call(self._dispatcher, request, http_request.caller, size, refusal)
            await http_request.reply(self._stateless.encoder.error(request.id, error))
            return
        if request.method == LISTEN_METHOD:
            await self._listen(http_request, request)
            return
        delivery = ResponseWriter(http_request)
        try:
            work = self._stateless.answer(request, terms, http_request.caller, delivery, size)
            wire = await OnFirstSuspend(work, delivery.watch_disconnect)
            if delivery.streaming:
                await delivery.finish(wire)
            else:
                await http_request.reply(wire)
        except asyncio.CancelledError:
            if not delivery.is_cancelled_by_disconnect():
                raise
        finally:
            if delivery.watching:
                await delivery.close()

    def _read_meta(self, http_request: HttpRequest, request: JsonRpcRequest) -> RequestMeta:
        """The request's terms, once its headers agree with its body; the tool is always the body's."""
        try:
            terms = read_request_meta(request)
        except McpRefusal:
            check_version_header(
                http_request.headers, request
            )  # a header that says something else is the first thing wrong
            raise
        check_headers(http_request.headers, request, terms)
        if self._dispatcher.registry.snapshot.repeats_in_headers and request.method == "tools/call":
            self._check_parameters(http_request, request)
        return terms

    def _check_parameters(self, http_request: HttpRequest, request: JsonRpcRequest) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = (
            self._dispatcher.find(resolve_name(self._dispatcher, name), http_request.caller)
            if isinstance(name, str)
            else None
        )
        if tool and isinstance(arguments, dict):
            check_parameter_headers(http_request.headers, tool.header_parameters, arguments)

    async def _listen(self, http_request: HttpRequest, request: JsonRpcRequest) -> None:
        stream = EventStream()
        try:
            end = self._stateless.subscriptions.listen(request, http_request.caller, stream)
        except ToolhallError as error:
            await http_request.reply(self._stateless.encoder.error(request.id, error))
            return
        http_request.detach_slot()()  # listeners have a bound of their own
        try:
            await start_events(http_request)
            await serve_events(http_request, stream, is_permitted=http_request.is_still_authenticated)
        finally:
            end()
