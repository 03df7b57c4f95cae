"""Sessions over streamable HTTP: ModernHttpSession (2026-07-28) and LegacyHttpSession (2025-03-26 to 2025-11-25).

Theory of operation
-------------------
Every request is a POST, answered with one JSON text or with a stream of events that ends with the response. The head
is made once for each session; a request adds its length and its body in one write. The usual answer, one JSON text in
one piece, is read without a task, a timer or a future besides that of the wait.

The eras differ in what a lost stream means:

- 2026-07-28: to close it cancels the request, and nothing can be resumed. Whatever else the server has to say comes on
  the stream of `subscriptions/listen`, which this session keeps open while the server has something to tell; a request
  of `resources/subscribe` changes what that stream is asked for.
- Before: to close it means nothing, so a cancelled request is cancelled by a message, and its stream is given
  CANCEL_SECONDS to end. A stream that broke behind an event with an id is resumed with GET and `Last-Event-ID`. What
  belongs to no request comes on the stream of a GET, which many servers do not offer.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.client_handshake import OFFERED_REVISION
from toolhall.dialects.mcp.client_messages import IncomingMessage, read_incoming
from toolhall.dialects.mcp.client_requests import method_headers, write_cancellation, write_notification
from toolhall.egress.exchange import ExchangeLost, ExchangeTooLarge
from toolhall.egress.http_connection import HttpConnection
from toolhall.egress.http_response import HttpResponse
from toolhall.mcp_client.http_line import SESSION_ERRORS, HttpLine, UnreadableAnswer, header_lines, wait_for_head
from toolhall.mcp_client.peer import CANCELLED, MessageRouter, PendingRequest, result_of
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    NotAcceptable,
    NotSent,
    RequestHooks,
    RequestLost,
    RpcError,
    ServerDescription,
    SessionError,
    SessionEvents,
    SessionExpired,
)
from toolhall.mcp_client.subscriptions import LISTS, SUBSCRIBE_METHODS, ListenStream
from toolhall.mcp_client.targets import ClientProfile, QuestionHandler
from toolhall.model.errors import Malformed
from toolhall.model.json import Json

CANCEL_SECONDS = 1.0
CLOSE_SECONDS = 5.0
DEFAULT_RETRY_SECONDS = 1.0
LISTEN_SECONDS = 1.0  # a session is open without its listening stream after this time
MIN_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 60.0
GAP_SECONDS = 30.0  # between two times that lists are fetched because a stream was lost
MAX_RESUMES = 5  # in a row without a message
CLOSED = "the session was closed"
_log = logging.getLogger("toolhall.upstreams")


class _HttpSession:
    """What both eras have in common."""

    _version_lines: ClassVar[bytes] = b""

    def __init__(
        self, line: HttpLine, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None
    ) -> None:
        self._line = line
        self._events = events
        self._router = MessageRouter(profile, events, questions, self._send)
        self._tasks = BackgroundTasks()
        self._why_closed: str | None = None
        self.refused_status: int | None = None  # of the last refusal
        self._credentials: tuple[Headers, bytes] = ((), b"")  # as they were given last, and as lines
        self.server: ServerDescription

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent, as far as is known."""
        return self._why_closed is None

    @property
    def running(self) -> int:
        """How many requests run now."""
        return len(self._router.pending)

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """Send a request and return its result; see McpSession."""
        if self._why_closed is not None:
            raise NotSent(self._why_closed)
        head = self._head(request)
        pending = self._router.begin(request, hooks)
        try:
            return result_of(await self._exchange(pending, head))
        finally:
            self._router.end(pending)

    async def notify(self, method: str, params: Mapping[str, Json]) -> None:
        """Send a notification; see McpSession."""
        if self._why_closed is not None:
            raise NotSent(self._why_closed)
        await self._post_notification(method, write_notification(method, params))

    async def close(self) -> None:
        """End the session."""
        if self._why_closed is None:
            self._why_closed = CLOSED
            await self._say_goodbye()
        self._router.close()
        await self._tasks.shutdown()
        self._line.close()

    # --- what the eras differ in ---

    def _head(self, request: McpRequest) -> bytes:
        raise NotImplementedError

    async def _post_notification(self, method: str, body: bytes) -> None:
        raise NotImplementedError

    async def _send(self, body: bytes) -> None:
        """Send an answer to a question."""
        raise NotImplementedError

    async def _say_goodbye(self) -> None:
        return

    def _on_cancelled(self, pending: PendingRequest, connection: HttpConnection, response: HttpResponse) -> None:
        """Cancel a request that was sent, and release its connection."""
        del pending, response
        connection.release(finished=False)

    async def _after_break(
        self, pending: PendingRequest, response: HttpResponse, lost: ExchangeLost
    ) -> IncomingMessage:
        """The response of a request whose stream has broken."""
        del pending, response
        raise self._line.lost(lost)

    @property
    def _in_session(self) -> bool:
        return False

    # --- shared ---

    def _credential_lines(self, credentials: Headers) -> bytes:
        """The lines of a request's credentials, which are mostly those of the one before."""
        known, lines = self._credentials
        if known is not credentials and known != credentials:
            lines = header_lines(credentials)
            self._credentials = credentials, lines
        return lines

    async def _exchange(self, pending: PendingRequest, head: bytes) -> IncomingMessage:
        """Post a request and read until its response has come."""
        connection = await self._line.connect(for_call=True)
        body = pending.body
        response = connection.send(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        try:
            message = await self._read_answer(response, pending)
        except ExchangeLost as lost:
            connection.release(finished=False)
            return await self._after_break(pending, response, lost)
        except asyncio.CancelledError:
            self._on_cancelled(pending, connection, response)
            raise
        except BaseException:
            connection.release(finished=False)
            raise
        connection.release(finished=True)
        return message

    async def _read_answer(self, response: HttpResponse, pending: PendingRequest) -> IncomingMessage:
        """The response of a request; other messages go where they belong. Raises ExchangeLost and SessionErrors."""
        await response.wait()  # nothing can have come yet
        text = response.pop() if response.status == 200 else None
        if text is not None and response.framing == "whole":  # as usual: one text in one piece
            try:
                message = read_incoming(text)
            except Malformed:  # a batch, or no MCP
                return await self._read_messages(response, pending, text)
            if message.id == pending.id and message.method is msgspec.UNSET:
                return message
        return await self._read_messages(response, pending, text)

    async def _read_messages(
        self, response: HttpResponse, pending: PendingRequest, text: bytes | None
    ) -> IncomingMessage:
        """The response of a request among the messages of any kind of answer; `text` is the first that has come."""
        while True:
            if response.status not in (200, 0):
                refused = await self._line.refusal(response, in_session=self._in_session)
                self.refused_status = response.status
                self._on_refused(refused)
                raise self._judged(refused)
            if text is None:
                text = response.pop() if response.status else None
            if text is None:
                await response.wait()
                continue
            try:
                messages = self._router.read(text)
            except Malformed:
                raise self._line.unreadable(response) from None
            text = None
            for message in messages:
                if pending.is_answered_by(message):
                    return message
                self._router.route(message, pending)

    def _on_refused(self, refused: SessionError) -> None:
        del refused

    def _judged(self, refused: SessionError) -> SessionError:
        """What a refusal means in this era."""
        return refused

    def _on_gap(self) -> None:
        """Nobody listened for a while: whatever can be listed may have changed."""
        for kind in LISTS:
            self._events.on_list_changed(kind)


class ModernHttpSession(_HttpSession):
    """A server of 2026-07-28: no session at all, only connections; every request says everything."""

    def __init__(
        self, line: HttpLine, profile: ClientProfile, events: SessionEvents, server: ServerDescription, own: Headers
    ) -> None:
        """`own` are the credentials of whoever listens, not of a caller."""
        super().__init__(line, profile, events, None)
        self.server = server
        self._router.speak(server.revision)
        version = f"MCP-Protocol-Version: {server.revision.name}\r\n".encode("ascii")
        start, _, self._end = line.head("POST", version + b"\0").partition(b"\0")
        self._start = start
        self._own = own
        self._listen_stream = ListenStream(server, super().request, own, self._on_gap)
        if profile.listens and self._listen_stream.is_needed:
            self._tasks.start(self._listen_stream.run())

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """Send a request and return its result; subscriptions change what the server is listened to for."""
        if request.method in SUBSCRIBE_METHODS:
            if self._listen_stream.change(request) and not self._listen_stream.is_running:
                self._tasks.start(self._listen_stream.run())
            return msgspec.Raw(b"{}")
        return await super().request(request, hooks)

    @property
    def hears_changes(self) -> bool:
        """Whether the server tells of changes while no request runs, as far as is known."""
        return self._listen_stream.is_running

    @property
    def running(self) -> int:
        """How many requests of others run now."""
        return max(0, super().running - self._listen_stream.is_running)

    def _head(self, request: McpRequest) -> bytes:
        lines = method_headers(request.method, request.params, request.name)
        if request.argument_headers:
            lines += header_lines(request.argument_headers)
        if request.credentials:
            lines += self._credential_lines(request.credentials)
        return self._start + lines + self._end

    async def _post_notification(self, method: str, body: bytes) -> None:
        head = self._start + method_headers(method, {}, None) + self._credential_lines(self._own) + self._end
        await self._line.post(head, body, in_session=False)

    async def _send(self, body: bytes) -> None:
        """Nothing: servers of this revision ask nothing."""

    def _judged(self, refused: SessionError) -> SessionError:
        """A server that asks for a session is one of an older revision by now: its era has to be detected again."""
        if isinstance(refused, RpcError) and self.refused_status in (400, 404) and refused.code in SESSION_ERRORS:
            return SessionExpired(f"{self._line.peer} wants a session: {refused.reason}")
        return refused


class LegacyHttpSession(_HttpSession):
    """A server with a handshake; `initialize` was answered with `session_id`, if it has sessions."""

    def __init__(
        self, line: HttpLine, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None
    ) -> None:
        super().__init__(line, profile, events, questions)
        self._router.speak(OFFERED_REVISION)
        self._session_lines = b""
        self._post_head = self._line.head("POST")
        self._plain_head = self._post_head  # without credentials
        self._session_id: str | None = None
        self.hears_changes = False  # whether the server tells of them while no request runs, as far as is known
        self._wants_to_listen = False  # but the server refused the credentials that were sent

    def begin(self, server: ServerDescription, session_id: str | None, credentials: Headers) -> None:
        """The handshake is done: from now on, requests state the session and the revision."""
        self.server = server
        self._session_id = session_id
        self._router.speak(server.revision)
        lines = b"" if session_id is None else f"Mcp-Session-Id: {session_id}\r\n".encode("ascii")
        if server.revision.version_header:
            lines += f"MCP-Protocol-Version: {server.revision.name}\r\n".encode("ascii")
        self._session_lines = lines
        self._credentials = (), b""
        self._plain_head = self._post_head = self._line.head("POST", lines)
        self._use(credentials)

    async def listen(self) -> None:
        """Hear what belongs to no request, if the server offers that.

        Returns once that is asked for: what a server sends to nobody who listens is lost, and many servers send the
        questions of a call there.
        """
        self._wants_to_listen = False
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.start(self._listen(asked))
        await asyncio.wait({asked}, timeout=LISTEN_SECONDS)

    async def initialize(self, request: McpRequest) -> tuple[msgspec.Raw, str | None]:
        """Send `initialize`; returns its result and the id of the new session."""
        pending = self._router.begin(request, None)
        self._use(request.credentials)
        connection = await self._line.connect(for_call=True)
        body = pending.body
        response = connection.send(b"%b%d\r\n\r\n%b" % (self._post_head, len(body), body))
        finished = False
        try:
            message = await self._read_answer(response, pending)
            finished = True
        except ExchangeLost as lost:
            is_answer = 300 <= response.status < 400 or isinstance(lost, ExchangeTooLarge)
            raise NotAcceptable(lost.reason) if is_answer else self._line.lost(lost) from None
        except UnreadableAnswer as unreadable:
            raise NotAcceptable(unreadable.reason) from None
        finally:
            self._router.end(pending)
            connection.release(finished=finished)
        stated = response.headers.get(b"mcp-session-id")
        return result_of(message), None if stated is None else _session_id(stated)

    @property
    def _in_session(self) -> bool:
        return self._session_id is not None

    def _use(self, credentials: Headers) -> None:
        """Send these credentials from now on: a session is of one owner, and they may have been renewed."""
        lines = self._credential_lines(credentials)
        self._post_head = self._line.head("POST", self._session_lines + lines) if lines else self._plain_head
        if self._wants_to_listen:
            self._wants_to_listen = False
            self._tasks.start(self.listen())

    def _head(self, request: McpRequest) -> bytes:
        if request.credentials and request.credentials != self._credentials[0]:
            self._use(request.credentials)
        return self._post_head

    async def _post_notification(self, method: str, body: bytes) -> None:
        del method
        try:
            await self._line.post(self._post_head, body, in_session=self._in_session)
        except SessionError as error:
            self._on_refused(error)
            raise

    async def _send(self, body: bytes) -> None:
        try:
            await self._line.post(self._post_head, body, in_session=self._in_session)
        except SessionError as error:
            self._on_refused(error)
            raise RequestLost(error.reason) from None

    def _on_refused(self, refused: SessionError) -> None:
        if isinstance(refused, SessionExpired) and self._why_closed is None:
            self._why_closed = refused.reason
            self._tasks.cancel()

    async def _say_goodbye(self) -> None:
        if self._session_id is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._line.delete(self._stream_head("DELETE"))
        except (SessionError, TimeoutError):
            return  # the server will expire it

    def _on_cancelled(self, pending: PendingRequest, connection: HttpConnection, response: HttpResponse) -> None:
        if self._why_closed is not None:
            connection.release(finished=False)
        else:
            self._tasks.start(self._cancel(pending, connection, response))

    async def _cancel(self, pending: PendingRequest, connection: HttpConnection, response: HttpResponse) -> None:
        """Tell the server, and give the stream of the request some time to end; what comes on it is dropped."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._send(write_cancellation(pending.id, CANCELLED))
                while not response.is_complete:
                    if response.pop() is None:
                        await response.wait()
        except (SessionError, ExchangeLost, TimeoutError):
            return
        finally:
            connection.release(finished=False)

    # --- streams of GET ---

    def _stream_head(self, method: "str", last_id: bytes | None = None) -> bytes:
        lines = self._session_lines + self._credentials[1]
        if last_id is not None:
            lines += b"Last-Event-ID: %b\r\n" % last_id
        return self._line.head("GET" if method == "GET" else "DELETE", lines)

    async def _after_break(
        self, pending: PendingRequest, response: HttpResponse, lost: ExchangeLost
    ) -> IncomingMessage:
        """Resume the stream behind its last event with an id, after the pause that it asked for."""
        try:
            return await self._resume(pending, response, lost)
        except asyncio.CancelledError:
            self._tasks.start(self._send_unnoticed(write_cancellation(pending.id, CANCELLED)))
            raise

    async def _send_unnoticed(self, body: bytes) -> None:
        try:
            await self._send(body)
        except SessionError as error:
            _log.info("%s did not take a message: %s", self._line.peer, error.reason)

    async def _resume(self, pending: PendingRequest, response: HttpResponse, lost: ExchangeLost) -> IncomingMessage:
        failures, retry_ms = 0, None
        while True:
            events = response.events
            if events is None or events.last_id is None or failures >= MAX_RESUMES:
                raise self._line.lost(lost)
            last_id = events.last_id
            retry_ms = events.retry_ms if events.retry_ms is not None else retry_ms
            await asyncio.sleep(_pause(retry_ms) * 2**failures)
            failures += 1
            try:
                connection = await self._line.connect(for_call=True)
            except SessionError:
                continue
            resumed = connection.send(self._stream_head("GET", last_id))
            try:
                message = await self._read_answer(resumed, pending)
            except ExchangeLost as again:
                lost = again
                if resumed.events is not None and resumed.events.last_id not in (None, last_id):
                    response, failures = resumed, 0
                connection.release(finished=False)
            except SessionError:  # it refused the stream, not the call, which may have run
                connection.release(finished=False)
                raise self._line.lost(lost) from None
            except BaseException:
                connection.release(finished=False)
                raise
            else:
                connection.release(finished=True)
                return message

    async def _listen(self, asked: "asyncio.Future[None]") -> None:
        """Read the stream of messages that belong to no request, as long as the server offers one."""
        self.hears_changes = True
        try:
            await self._keep_listening(asked)
        finally:
            self.hears_changes = False
            asked.cancel()

    async def _keep_listening(self, asked: "asyncio.Future[None]") -> None:
        last_id: bytes | None = None
        pause, failures = DEFAULT_RETRY_SECONDS, 0
        has_listened, told_at, loop = False, float("-inf"), asyncio.get_running_loop()
        while True:
            try:
                connection = await self._line.connect(for_call=False)
            except NotSent:
                failures += 1
            except SessionError:
                return
            else:
                response = connection.send(self._stream_head("GET", last_id))
                if not asked.done():
                    asked.set_result(None)
                try:
                    await wait_for_head(response)
                    if response.status != 200 or response.events is None:
                        self._wants_to_listen = response.status == 401
                        if has_listened:
                            self._on_gap()
                        return  # there is no such stream, or no session any more, which the next request finds out
                    if has_listened and last_id is None and loop.time() - told_at > GAP_SECONDS:
                        told_at = loop.time()
                        self._on_gap()
                    has_listened, failures = True, 0
                    await self._read_stream(response)
                except ExchangeLost:
                    failures += not response.size
                finally:
                    connection.release(finished=False)
                if response.events is not None:
                    last_id = response.events.last_id or last_id
                    pause = _pause(response.events.retry_ms)
            await asyncio.sleep(min(pause * 2 ** min(failures, 10), MAX_RETRY_SECONDS))

    async def _read_stream(self, response: HttpResponse) -> None:
        """Pass on messages until the stream ends, with an ExchangeLost."""
        while True:
            text = response.pop()
            if text is None:
                await response.wait()
                continue
            try:
                messages = self._router.read(text)
            except Malformed:
                continue  # without a word: a server could fill the log
            for message in messages:
                self._router.route(message, None)


def _pause(retry_ms: int | None) -> float:
    if retry_ms is None:
        return DEFAULT_RETRY_SECONDS
    return min(max(retry_ms / 1000, MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)


def _session_id(stated: bytes) -> str:
    """The id of a session, which is sent back with every request (MCP: visible ASCII)."""
    if not 0 < len(stated) <= 1_024 or not all(0x21 <= byte <= 0x7E for byte in stated):
        raise RequestLost("the server gave its session an id that cannot be sent back")
    return stated.decode("ascii")
