"""`McpHttp`, the `/mcp` endpoint: stateless requests, and sessions with resumable streams (`StatefulHttp`)."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any

from toolhall.dialects.mcp.protocol import (
    INVALID_REQUEST,
    REVISION_2026_07_28,
    STATEFUL_REVISIONS,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    McpDecodeError,
    McpRefusal,
    PlainCall,
    read_message,
    read_plain_call,
)
from toolhall.dialects.mcp.requests import (
    RequestMeta,
    check_headers,
    check_parameter_headers,
    check_version_header,
    is_stateless_request,
    read_initialize,
    read_plain_meta,
    read_request_meta,
    stated_call,
)
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_error
from toolhall.eager_tasks import EagerStarter
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.http.sse import EventStream, ResumePoint, priming_event, serve_events, start_events
from toolhall.mcp.response import HttpResponseLink
from toolhall.mcp.sessions import HttpSession, McpSessions, ResumableRequest, SessionResponse
from toolhall.mcp.stateful import StatefulSession
from toolhall.mcp.stateless import LISTEN_METHOD, StatelessMcp
from toolhall.mcp.tool_requests import refuse_call, resolve_name
from toolhall.model.errors import ToolhallError
from toolhall.model.messages import WireResponse
from toolhall.pipeline.dispatcher import Dispatcher

SESSION_HEADER = b"mcp-session-id"
_VERSION_HEADER = b"mcp-protocol-version"
RETRY_MS = 1_000
_ACCEPTED = WireResponse(b"", 202)
_ENDED = WireResponse(b"", 200)
_STATELESS_VERSION = REVISION_2026_07_28.name.encode()


class StatefulHttp:
    """The stateful revisions over HTTP: finds the session of a request, runs it, and streams its messages."""

    def __init__(self, dispatcher: Dispatcher, server: ServerInfo, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._encoders = {revision.name: McpEncoder(server, revision) for revision in STATEFUL_REVISIONS.values()}
        self._sessions = McpSessions(clock)
        self._starter: EagerStarter | None = None  # of the loop that served last

    async def handle_request(self, http_request: HttpRequest, request: JsonRpcRequest, size: int) -> None:
        """Answer a request in its session; `initialize` opens one."""
        if request.method == "initialize" and SESSION_HEADER not in http_request.headers:
            await self._initialize(http_request, request)
            return
        session = await self._session(http_request, request, size)
        if session:
            response = SessionResponse(session, request, size, http_request.caller)
            work = session.session.answer(request, response, size, http_request.caller)
            await self._answer(http_request, response, work)

    async def handle_message(self, request: HttpRequest, message: JsonRpcNotification | JsonRpcResponse) -> None:
        """Handle a notification, or the response to a question of a tool."""
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
        """GET opens a stream, DELETE ends the session; without a session both get 405."""
        # MCP 2026-07-28 has neither, and ignores the session header.
        is_stateless = request.headers.get(_VERSION_HEADER) == _STATELESS_VERSION
        if is_stateless or request.method not in ("GET", "DELETE") or SESSION_HEADER not in request.headers:
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
        """End every standalone stream; running calls may finish."""
        self._sessions.end_streams()

    def close(self) -> None:
        """End every session."""
        self._sessions.close()

    async def _initialize(self, http_request: HttpRequest, request: JsonRpcRequest) -> None:
        try:
            params = read_initialize(request)
            encoder = self._encoders[params.revision.name]
            session = self._sessions.open(
                StatefulSession(self._dispatcher, encoder, http_request.caller, params.capabilities)
            )
        except McpRefusal as refusal:
            await http_request.reply(write_error(request.id, refusal))
            return
        served = self._dispatcher.registry.snapshot.kinds
        result = encoder.initialize_result(request.id, served, session.session.tasks.capability)
        await http_request.reply(result, (SESSION_HEADER, session.id.encode()))

    async def _session(
        self, http_request: HttpRequest, request: JsonRpcRequest | None = None, size: int = 0
    ) -> HttpSession | None:
        """Return the caller's session; None after sending the refusal."""
        try:
            return self._find_session(http_request)
        except McpRefusal as refusal:
            error = refuse_call(self._dispatcher, request, http_request.caller, size, refusal)
            await http_request.reply(write_error(request.id if request else None, error))
            return None

    def _find_session(self, request: HttpRequest) -> HttpSession:
        version = request.headers.get(_VERSION_HEADER)
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

    def call(self, http_request: HttpRequest, plain: PlainCall, size: int) -> Awaitable[None]:
        """Answer a plain call in its session."""
        try:
            session = self._find_session(http_request)
        except McpRefusal:
            return self.handle_request(http_request, plain.to_request(), size)  # which reports it
        response = SessionResponse(session, plain, size, http_request.caller)
        work = session.session.answer_plain(plain, response, size, http_request.caller)
        return self._answer(http_request, response, work)

    async def _answer(
        self, http_request: HttpRequest, response: SessionResponse, work: Coroutine[Any, Any, WireResponse]
    ) -> None:
        """Run the request in its own task; this connection only reads its stream: a disconnect does not cancel it."""
        loop = asyncio.get_running_loop()
        if self._starter is None or self._starter.loop is not loop:
            self._starter = EagerStarter(loop, "MCP request")
        task = self._starter.start(response.finish_with(work), copy_context())
        session, wire = response.session, response.wire
        if wire is not None and not response.has_stream:  # the usual case: answered in the first step
            if not http_request.try_reply(wire):
                await http_request.reply(wire)
            return
        resumable, release_slot = response.resumable, http_request.detach_slot()
        stream = resumable.stream

        def done(_: object) -> None:
            # A cancelled request gets no response, but its stream must end.
            stream.finish()
            release_slot()

        session.inflight.add(response.request.id, task).add_done_callback(done)
        await stream.wait_until_started()
        if stream.has_only_answer and response.wire is not None:
            session.discard(resumable)
            await http_request.reply(response.wire)
        else:
            await self._stream(http_request, session, stream)

    async def _stream(self, request: HttpRequest, session: HttpSession, stream: EventStream) -> None:
        await start_events(request)
        if session.session.revision.priming_event:
            retry = stream.retry_ms if stream.retry_ms is not None else RETRY_MS
            await request.send_body(priming_event(f"{stream.name}-0", retry), more=True)
        await serve_events(request, stream, ResumePoint(f"{stream.name}-"))

    async def _open_stream(self, request: HttpRequest, session: HttpSession) -> None:
        request.detach_slot()()  # limited to one stream per session instead
        last_event_id = request.headers.get(b"last-event-id", b"").decode("latin-1")
        position = session.find_event(last_event_id)
        if position and await _may_read(request, session, position[0]):
            await self._resume(request, session, *position)
        elif session.is_reading:  # a forbidden event id is answered like an unknown one
            await request.refuse(409, "this session has a GET stream already")
        else:
            await self._standalone(request, session)

    async def _resume(
        self, request: HttpRequest, session: HttpSession, resumable: ResumableRequest, number: int
    ) -> None:
        """Replay the events after an id, then continue; credential and policy are checked before each event."""

        async def is_permitted() -> bool:
            return await request.is_still_authenticated() and await _may_read(request, session, resumable)

        resume_point = ResumePoint(f"{resumable.stream.name}-", number, resumed=True)
        await start_events(request)
        await serve_events(request, resumable.stream, resume_point, is_permitted=is_permitted)

    async def _standalone(self, request: HttpRequest, session: HttpSession) -> None:
        session.is_reading = True
        try:
            await start_events(request)
            resume_point, is_permitted = ResumePoint(after=session.read_number), request.is_still_authenticated
            await serve_events(request, session.standalone, resume_point, is_permitted=is_permitted)
        finally:
            session.is_reading = False
            session.read_number = session.standalone.last_number


async def _may_read(request: HttpRequest, session: HttpSession, resumable: ResumableRequest) -> bool:
    """Whether the caller of this GET may read the response to an earlier request of its session.

    A caller may hold several credentials, and its grants may have changed since: unless the policy's decisions are the
    same objects as then, the call is authorized again.
    """
    policy_key = session.session.policy_key(request.caller)
    if policy_key == resumable.policy_key:
        return True
    if not await session.session.may_read(resumable.request, resumable.size, request.caller):
        return False
    resumable.policy_key = policy_key
    return True


class McpHttp:
    """Reads one message per POST, and passes it to the stateless or the stateful side."""

    def __init__(
        self, dispatcher: Dispatcher, validator: RequestValidator, stateless: StatelessMcp, stateful: StatefulHttp
    ) -> None:
        self._dispatcher = dispatcher
        self._validator = validator
        self._stateless = stateless
        self._stateful = stateful

    def __call__(self, request: HttpRequest) -> Awaitable[None]:
        """`POST /mcp`: answer one message."""
        body, headers = request.body, request.headers
        plain = None if body is None else read_plain_call(body)
        if body is None or plain is None:
            return self._receive(request)
        if SESSION_HEADER in headers and not plain.raw_meta and headers.get(_VERSION_HEADER) != _STATELESS_VERSION:
            return self._stateful.call(request, plain, len(body))
        meta = read_plain_meta(plain) if request.derived(stated_call) == (plain.kind, plain.name) else None
        dispatcher = self._dispatcher
        # Names that are pinned, and headers that repeat arguments, need a look at the tool first.
        snapshot = dispatcher.registry.snapshot
        is_unserved = plain.kind != "tool" and plain.kind not in snapshot.kinds
        if meta is None or dispatcher.shortlist.pins or snapshot.repeats_in_headers or is_unserved:
            return self._receive_request(request, plain.to_request(), len(body))
        link = HttpResponseLink(request, meta, self._stateless.encoder)
        work = self._stateless.answer_plain(plain, meta, request.caller, link, len(body), link.watch_disconnect)
        return self._respond(request, link, work)

    async def _receive(self, request: HttpRequest) -> None:
        body = request.body or await self._validator.read_body(request.headers, request.receive)
        try:
            message = read_message(body)
        except McpDecodeError as unreadable:
            error = refuse_call(self._dispatcher, unreadable.request, request.caller, len(body), unreadable.refusal)
            await request.reply(write_error(unreadable.id, error))
            return
        if isinstance(message, JsonRpcRequest):
            await self._receive_request(request, message, len(body))
        elif request.headers.get(_VERSION_HEADER) == _STATELESS_VERSION:
            await request.reply(_ACCEPTED)
        else:
            await self._stateful.handle_message(request, message)

    async def _receive_request(self, http_request: HttpRequest, request: JsonRpcRequest, size: int) -> None:
        if http_request.headers.get(_VERSION_HEADER) == _STATELESS_VERSION or is_stateless_request(request):
            await self._answer(http_request, request, size)
        else:
            await self._stateful.handle_request(http_request, request, size)

    async def get_or_delete(self, request: HttpRequest) -> None:
        """`GET` and `DELETE /mcp`, for sessions only."""
        await self._stateful.get_or_delete(request)

    def end_streams(self) -> None:
        """End all streams that only listen; running calls may finish."""
        self._stateless.subscriptions.close()
        self._stateful.end_streams()

    def close(self) -> None:
        """End every stream and session."""
        self._stateless.subscriptions.close()
        self._stateful.close()

    async def _answer(self, http_request: HttpRequest, request: JsonRpcRequest, size: int) -> None:
        try:
            meta = self._read_meta(http_request, request)
        except McpRefusal as refusal:
            error = refuse_call(self._dispatcher, request, http_request.caller, size, refusal)
            await http_request.reply(self._stateless.encoder.error(request.id, error))
            return
        if request.method == LISTEN_METHOD:
            await self._listen(http_request, request, meta)
            return
        link = HttpResponseLink(http_request, meta, self._stateless.encoder)
        work = self._stateless.answer(request, meta, http_request.caller, link, size, link.watch_disconnect)
        await self._respond(http_request, link, work)

    @staticmethod
    async def _respond(request: HttpRequest, link: HttpResponseLink, work: Awaitable[WireResponse]) -> None:
        """Send the response once the work is done; a disconnect of the client cancels it."""
        try:
            wire = await work
            if link.streaming:
                await link.finish(wire)
            elif not request.try_reply(wire):
                await request.reply(wire)
        except asyncio.CancelledError:
            if not link.is_cancelled_by_disconnect():
                raise
        finally:
            if link.watch is not None:
                await link.close()

    def _read_meta(self, http_request: HttpRequest, request: JsonRpcRequest) -> RequestMeta:
        """Return the request's metadata after checking that the headers agree with the body."""
        try:
            meta = read_request_meta(request)
        except McpRefusal:
            check_version_header(http_request.headers, request)  # a mismatch is reported first
            raise
        check_headers(http_request.headers, request, meta)
        if self._dispatcher.registry.snapshot.repeats_in_headers and request.method == "tools/call":
            self._check_parameters(http_request, request)
        return meta

    def _check_parameters(self, http_request: HttpRequest, request: JsonRpcRequest) -> None:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = (
            self._dispatcher.find(resolve_name(self._dispatcher, name), http_request.caller)
            if isinstance(name, str)
            else None
        )
        if tool and isinstance(arguments, dict):
            check_parameter_headers(http_request.headers, tool.header_parameters, arguments)

    async def _listen(self, http_request: HttpRequest, request: JsonRpcRequest, meta: RequestMeta) -> None:
        stream = EventStream()
        try:
            tasks = await self._stateless.tasks.feed(request, meta, http_request.caller)
            end = self._stateless.subscriptions.listen(request, http_request.caller, stream, tasks)
        except ToolhallError as error:
            await http_request.reply(self._stateless.encoder.error(request.id, error))
            return
        http_request.detach_slot()()  # listeners have a limit of their own
        try:
            await start_events(http_request)
            await serve_events(http_request, stream, is_permitted=http_request.is_still_authenticated)
        finally:
            end()
