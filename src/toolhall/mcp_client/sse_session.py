"""`SseSession`: a session over HTTP+SSE, the transport of MCP 2024-11-05.

A GET opens a stream on which everything comes that the server has to say. Its first event, `endpoint`, names the URL
to which messages are posted; that has to be of the same origin, or a server could send what a caller says to somebody
else. The session ends with the stream.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import urljoin

import msgspec

from toolhall.dialects.mcp.client_handshake import OFFERED_REVISION
from toolhall.egress.addresses import EgressRefused
from toolhall.egress.exchange import ExchangeLost
from toolhall.egress.http_connection import HttpConnection
from toolhall.egress.http_response import HttpResponse
from toolhall.egress.urls import display_url
from toolhall.mcp_client.http_line import HttpLine, header_lines, wait_for_head
from toolhall.mcp_client.peer import StreamPeer
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    NotAcceptable,
    RequestHooks,
    ServerDescription,
    SessionEvents,
)
from toolhall.mcp_client.targets import ClientProfile, QuestionHandler
from toolhall.model.errors import Malformed
from toolhall.model.json import Json

MAX_ENDPOINT_BYTES = 8_192
MAX_EVENTS_BEFORE = 10  # the event `endpoint`
CLOSED = "the session was closed"


class SseSession:
    """A session whose messages come on one stream, and are posted to another URL."""

    def __init__(
        self, line: HttpLine, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None
    ) -> None:
        self._line = line
        self._events = events
        self._peer = StreamPeer(profile, events, questions, self._post)
        self._peer.speak(OFFERED_REVISION)
        self._credentials: Headers = ()
        self._post_line: HttpLine
        self._post_head: bytes
        self._connection: HttpConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_closing = False
        self.has_stream = False  # the server has answered with an event stream
        self.server: ServerDescription

    async def connect(self, credentials: Headers) -> None:
        """Open the stream and wait for the URL to post to; raises NotAcceptable if none of this comes."""
        connection = self._connection = await self._line.connect(for_call=True)
        response = connection.send(self._line.head("GET", header_lines(credentials)))
        try:
            await wait_for_head(response)
            if response.status != 200:
                raise await self._line.refusal(response, in_session=False)
            if response.events is None:
                raise NotAcceptable(f"{self._line.peer} answered a GET with no event stream: it is no MCP endpoint")
            self.has_stream = True
            endpoint = await _read_endpoint(response)
        except ExchangeLost as lost:
            raise NotAcceptable(f"{self._line.peer} named no URL to post messages to: {lost.reason}") from None
        self._post_line = self._line_to(endpoint)
        self._use(credentials)
        self._reading = asyncio.create_task(self._read(response))

    def begin(self, server: ServerDescription) -> None:
        """The handshake is done."""
        self.server = server
        self._peer.speak(server.revision)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent, as far as is known."""
        return self._peer.failure is None

    @property
    def running(self) -> int:
        """How many requests run now."""
        return len(self._peer.pending)

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """Send a request and return its result; see McpSession."""
        if request.credentials and request.credentials != self._credentials:
            self._use(request.credentials)
        return await self._peer.request(request, hooks)

    async def notify(self, method: str, params: Mapping[str, Json]) -> None:
        """Send a notification; see McpSession."""
        await self._peer.notify(method, params)

    async def close(self) -> None:
        """End the session by closing its stream."""
        self._is_closing = True
        self._peer.fail(CLOSED)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
            self._post_line.close()
        self._line.close()

    def _line_to(self, endpoint: str) -> HttpLine:
        """The line to the URL of the event `endpoint`, which may be relative."""
        try:
            url = self._line.parse(urljoin(str(self._line.url), endpoint))
        except (EgressRefused, ValueError):
            raise NotAcceptable(f"{self._line.peer} named no URL to post to: {display_url(endpoint)!r}") from None
        if url.origin != self._line.url.origin:
            raise NotAcceptable(
                f"{self._line.peer} wants messages to be posted to another origin, {url.origin}, which is not followed"
            )
        return self._line.at(url)

    def _use(self, credentials: Headers) -> None:
        """Send these credentials from now on."""
        self._credentials = credentials
        self._post_head = self._post_line.head("POST", header_lines(credentials))

    async def _post(self, body: bytes) -> None:
        await self._post_line.post(self._post_head, body, in_session=True)

    async def _read(self, response: HttpResponse) -> None:
        """Pass on what comes until the stream ends."""
        reason = f"the stream of {self._line.peer} has ended"
        try:
            while True:
                text = response.pop()
                if text is None:
                    await response.wait()
                elif response.event_name in (b"", b"message"):
                    self._peer.receive(text)
        except ExchangeLost as lost:
            reason = lost.reason
        except Malformed as error:
            reason = error.message
        finally:
            if self._connection is not None:
                self._connection.release(finished=False)
            self._peer.fail(reason)
            if not self._is_closing:
                self._events.on_closed(reason)


async def _read_endpoint(response: HttpResponse) -> str:
    for _ in range(MAX_EVENTS_BEFORE):
        while (text := response.pop()) is None:
            await response.wait()
        if response.event_name == b"endpoint" and len(text) <= MAX_ENDPOINT_BYTES:
            return text.decode("utf-8", "replace").strip()
    raise NotAcceptable("the server's event stream does not begin with the URL to post messages to")
