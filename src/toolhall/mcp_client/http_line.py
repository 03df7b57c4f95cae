"""`HttpLine`: requests to one MCP server over HTTP, and what their refusals mean; bounded, and never redirected."""

import asyncio
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

from toolhall.dialects.mcp.client_messages import IncomingMessage, read_error, read_incoming
from toolhall.egress.addresses import EgressRefused
from toolhall.egress.connection_pool import ConnectionPool, PeerSettings
from toolhall.egress.exchange import ExchangeLost, ExchangeTooLarge, PeerRejected
from toolhall.egress.http_connection import HttpConnection
from toolhall.egress.http_response import HeaderFields, HttpResponse
from toolhall.egress.resolver import Dialer
from toolhall.egress.urls import Url, check_header_value
from toolhall.mcp_client.session import (
    Headers,
    NotAcceptable,
    NotSent,
    RateLimited,
    RequestLost,
    ResponseTooLarge,
    RpcError,
    SessionError,
    SessionExpired,
    Unauthorized,
)
from toolhall.mcp_client.targets import HttpTarget
from toolhall.model.errors import Malformed
from toolhall.model.text import clean_line

HttpMethod: TypeAlias = Literal["POST", "GET", "DELETE"]
CONNECT_SECONDS = 10.0
MAX_CONNECTIONS = 256  # of one session; a server of 2026-07-28 has one for all callers
MAX_CALL_CONNECTIONS = 248  # the others are for answers to questions, notifications, and what is listened to
POST_SECONDS = 30.0  # for a message that has no answer
REFUSAL_SECONDS = 5.0  # for the body of a refusal
MAX_RETRY_AFTER = 86_400.0
_MAX_TEXT = 200
SESSION_ERRORS = frozenset({-32600, -32000, -32001})  # with which servers refuse a session with status 400
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_ACCEPT = "application/json, text/event-stream"


class UnreadableAnswer(RequestLost):
    """The answer was accepted, and is no MCP."""


class HttpLine:
    """The connections to one URL. Every error that it raises is one of `mcp_client.session`."""

    def __init__(self, target: HttpTarget, dialer: Dialer, max_bytes: int) -> None:
        """Raise NotAcceptable for a URL that the dialer refuses, or headers that cannot be sent."""
        try:
            self.url = dialer.parse(target.url)
        except EgressRefused as error:
            raise NotAcceptable(str(error)) from None
        self.peer = self.url.origin  # a path may hold a secret
        self.target = target
        self._dialer = dialer
        settings = PeerSettings(
            peer=self.peer,
            max_bytes=max_bytes,
            max_connections=MAX_CONNECTIONS,
            max_call_connections=MAX_CALL_CONNECTIONS,
            connect_seconds=CONNECT_SECONDS,
        )
        self._pool = ConnectionPool(dialer, self.url, settings, asyncio.get_running_loop())
        self._fixed = header_lines(target.headers)

    def parse(self, url: str) -> Url:
        """A URL that the server named; raises EgressRefused."""
        return self._dialer.parse(url)

    def at(self, url: Url) -> "HttpLine":
        """The line to another URL of the same origin, on connections of its own."""
        return HttpLine(HttpTarget(str(url), self.target.headers), self._dialer, self._pool.settings.max_bytes)

    def head(self, method: HttpMethod, lines: bytes = b"") -> bytes:
        """The head of requests with these header lines: with POST, up to the value of Content-Length."""
        url = self.url
        query = "" if url.query is None else f"?{url.query}"
        start = f"{method} {url.path or '/'}{query} HTTP/1.1\r\nHost: {url.origin.partition('//')[2]}\r\n"
        if method == "POST":
            end = f"Accept: {_ACCEPT}\r\nContent-Type: application/json\r\nContent-Length: "
        else:
            end = "Accept: text/event-stream\r\n\r\n" if method == "GET" else "Accept: application/json\r\n\r\n"
        return b"%b%b%b%b" % (start.encode("ascii"), self._fixed, lines, end.encode("ascii"))

    async def connect(self, *, for_call: bool) -> HttpConnection:
        """A connection; raises NotSent, or NotAcceptable for a peer that must not be talked to."""
        pool = self._pool
        try:
            return (pool.acquire_idle() if for_call else None) or await pool.acquire(for_call=for_call)
        except PeerRejected as rejected:
            raise NotAcceptable(rejected.reason) from None
        except ExchangeLost as lost:
            raise NotSent(lost.reason) from None

    async def post(self, head: bytes, body: bytes, *, in_session: bool) -> None:
        """Send a message that has no answer, on a connection that no call can take; raises what it is refused with."""
        connection = await self.connect(for_call=False)
        response = connection.send(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        try:
            async with asyncio.timeout(POST_SECONDS):
                await wait_for_head(response)
            if response.status >= 300:
                raise await self.refusal(response, in_session=in_session)
        except ExchangeLost as lost:
            raise self.lost(lost) from None
        except TimeoutError:
            raise RequestLost(f"{self.peer} did not take a message in time") from None
        finally:
            connection.release(finished=response.status == 202)

    async def delete(self, head: bytes) -> None:
        """Send a request whose answer does not matter."""
        connection = await self.connect(for_call=False)
        response = connection.send(head)
        try:
            await wait_for_head(response)
        except ExchangeLost as lost:
            raise self.lost(lost) from None
        finally:
            connection.release(finished=False)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def lost(self, lost: ExchangeLost) -> RequestLost:
        """The error for an exchange that failed after the request was written."""
        return ResponseTooLarge(lost.reason) if isinstance(lost, ExchangeTooLarge) else RequestLost(lost.reason)

    def unreadable(self, response: HttpResponse) -> "UnreadableAnswer":
        """The error for an answer with status 200 that is no MCP."""
        kind = response.headers.get(b"content-type", b"no content type").decode("latin-1")
        return UnreadableAnswer(f"{self.peer} answered with something that is no MCP ({clean_line(kind, _MAX_TEXT)})")

    async def refusal(self, response: HttpResponse, *, in_session: bool) -> SessionError:
        """The error for a response with another status than 200."""
        if 300 <= response.status < 400 and response.failure is not None:
            return NotAcceptable(response.failure)  # names where it leads
        return refusal_of(self.peer, response.status, response.headers, await read_text(response), in_session)


async def wait_for_head(response: HttpResponse) -> None:
    """Wait until the status is known; raises ExchangeLost."""
    while not response.status:
        await response.wait()


async def read_text(response: HttpResponse) -> bytes:
    """The body, or its first message; empty if it does not come in time."""
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            while (text := response.pop()) is None:
                await response.wait()
            return text
    except (ExchangeLost, TimeoutError):
        return b""


def refusal_of(peer: str, status: int, headers: HeaderFields, text: bytes, in_session: bool) -> SessionError:
    """What a refusal means for the request: whether it may be sent again, and how."""
    message = _message(text)
    error = read_error(message) if message is not None and message.has_error else None
    said = "" if error is None else f": {error.message}"
    reason = f"{peer} answered HTTP {status}{said}"
    if status in (401, 403):
        challenge = headers.get(b"www-authenticate")
        return Unauthorized(reason, status, None if challenge is None else challenge.decode("latin-1"))
    wait = retry_after(headers)
    if status == 429 or (status == 503 and wait is not None):
        return RateLimited(reason, wait)
    if in_session and (status == 404 or (status == 400 and error is not None and error.code in SESSION_ERRORS)):
        return SessionExpired(f"{peer} does not know the session any more")
    if error is not None:
        return RpcError(error.code, error.message, error.data)
    if status >= 500 or status < 300:
        return RequestLost(reason)
    return NotAcceptable(f"{reason}; is this the URL of an MCP endpoint?", status)


def retry_after(headers: HeaderFields) -> float | None:
    """The seconds of Retry-After, which states seconds or a date."""
    stated = headers.get(b"retry-after", b"").decode("latin-1").strip()
    if stated.isascii() and stated.isdigit() and len(stated) < 9:
        return min(float(stated), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(stated)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds.total_seconds(), 0.0), MAX_RETRY_AFTER)


def header_lines(headers: Headers) -> bytes:
    """The headers as lines; raises NotAcceptable, without the value, for one that cannot be sent."""
    lines: list[str] = []
    for name, value in headers:
        try:
            if not _HEADER_NAME.fullmatch(name):
                raise EgressRefused("its name is none")
            lines.append(f"{name}: {check_header_value(value)}\r\n")
        except EgressRefused as error:
            raise NotAcceptable(f"the header {name[:64]!r} cannot be sent: {error}") from None
    return "".join(lines).encode("ascii")


def _message(text: bytes) -> IncomingMessage | None:
    try:
        return read_incoming(text)
    except Malformed:
        return None
