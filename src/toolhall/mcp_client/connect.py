"""`open_session`: detects what a server speaks, does the handshake, and returns an open session.

The order over HTTP: `server/discover`, which only a server of 2026-07-28 understands; `initialize`; and if that is
answered as by a server that has no such URL, the old transport with its two URLs. A known era saves the first question,
or is found to be wrong by the answer to the second.
"""

import asyncio
from collections.abc import Callable
from typing import TypedDict, Unpack

import msgspec

from toolhall.dialects.mcp.client_handshake import (
    MODERN_REVISION,
    Era,
    ServerFacts,
    era_of,
    initialize_params,
    read_discover_result,
    read_initialize_result,
)
from toolhall.dialects.mcp.client_messages import IncomingMessage, read_incoming_batch
from toolhall.dialects.mcp.client_requests import MetaWriter, method_headers, write_request
from toolhall.dialects.mcp.protocol import CLIENT_REVISIONS, UNSUPPORTED_VERSION
from toolhall.egress.exchange import ExchangeLost
from toolhall.egress.http_response import HeaderFields
from toolhall.egress.resolver import Dialer
from toolhall.mcp_client.http_line import HttpLine, header_lines, read_text, refusal_of, wait_for_head
from toolhall.mcp_client.http_session import LegacyHttpSession, ModernHttpSession
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    McpSession,
    NotAcceptable,
    RequestLost,
    RpcError,
    ServerDescription,
    SessionError,
    SessionEvents,
)
from toolhall.mcp_client.sse_session import SseSession
from toolhall.mcp_client.stdio_session import open_command
from toolhall.mcp_client.targets import ClientProfile, CommandTarget, HttpTarget, QuestionHandler, SessionCredentials
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

DISCOVER_SECONDS = 10.0  # some old servers say nothing to what they do not know
HANDSHAKE_SECONDS = 30.0
OLD_TRANSPORT_STATUSES = frozenset({400, 404, 405})
_DISCOVER = "server/discover"


class _DiscoverAnswer(msgspec.Struct, frozen=True):
    """The answer to `server/discover`, whatever it was."""

    status: int
    headers: HeaderFields
    text: bytes
    message: IncomingMessage | None


class HttpOpener:
    """Opens a session with a server at a URL."""

    def __init__(
        self,
        target: HttpTarget,
        profile: ClientProfile,
        events: SessionEvents,
        questions: QuestionHandler | None,
        credentials: SessionCredentials,
        dialer: Dialer,
    ) -> None:
        self._target = target
        self._profile = profile
        self._events = events
        self._questions = questions
        self._credentials = credentials.opening
        self._listening = credentials.for_listening
        self._dialer = dialer

    async def open(self, era: Era | None) -> McpSession:
        """Detect the era unless it is known, and do the handshake."""
        if self._target.transport == "sse":
            return await self._open_old()
        if era != "legacy":
            server = await self._discover()
            if server is not None:
                return ModernHttpSession(self._line(), self._profile, self._events, server, self._listening)
        try:
            return await self._initialize()
        except RpcError as error:
            if era == "legacy" and error.code == UNSUPPORTED_VERSION:  # it has become a modern one
                return await self.open(None)
            raise

    def _line(self) -> HttpLine:
        return HttpLine(self._target, self._dialer, self._profile.max_message_bytes)

    async def _discover(self, *, may_repeat: bool = True) -> ServerDescription | None:
        """What a modern server says of itself; None for a legacy one."""
        line = self._line()
        try:
            async with asyncio.timeout(DISCOVER_SECONDS):
                answer = await self._ask_discover(line)
        except TimeoutError:
            return None  # `initialize` has the rest of the time
        finally:
            line.close()
        finding = era_of(answer.status, answer.message)
        if finding.era == "unknown":
            raise refusal_of(line.peer, answer.status, answer.headers, answer.text, in_session=False)
        if finding.era == "legacy":
            return None
        if finding.versions and MODERN_REVISION.name not in finding.versions:
            if any(not each.stateless for each in map(CLIENT_REVISIONS.get, finding.versions) if each is not None):
                return None
            versions = ", ".join(finding.versions)[:200]
            known = ", ".join(sorted(CLIENT_REVISIONS))
            raise NotAcceptable(f"{line.peer} speaks MCP revisions {versions}; known here are {known}")
        if answer.message is None or answer.message.has_error:
            if may_repeat and MODERN_REVISION.name in finding.versions:  # it refuses the version that it names
                return await self._discover(may_repeat=False)
            raise refusal_of(line.peer, answer.status, answer.headers, answer.text, in_session=False)
        return _described(read_discover_result, answer.message.result, line.peer)

    async def _ask_discover(self, line: HttpLine) -> _DiscoverAnswer:
        """Send `server/discover` and read whatever comes."""
        meta = MetaWriter(MODERN_REVISION, self._profile.client_info, self._profile.features).write({}, None, None)
        version = f"MCP-Protocol-Version: {MODERN_REVISION.name}\r\n".encode("ascii")
        lines = version + method_headers(_DISCOVER, {}, None) + header_lines(self._credentials)
        body = write_request(1, _DISCOVER, {}, None, meta)
        connection = await line.connect(for_call=True)
        response = connection.send(b"%b%d\r\n\r\n%b" % (line.head("POST", lines), len(body), body))
        try:
            await wait_for_head(response)
            while True:
                text = await read_text(response)
                message = _response_in(text)
                if message is not None or response.events is None or not text:
                    return _DiscoverAnswer(response.status, response.headers, text, message)
        except ExchangeLost as lost:
            if 300 <= response.status < 400:
                raise NotAcceptable(lost.reason) from None
            raise line.lost(lost) from None
        finally:
            connection.release(finished=False)

    async def _initialize(self) -> McpSession:
        """The handshake over streamable HTTP, or over the old transport if the URL does not know it."""
        line = self._line()
        session = LegacyHttpSession(line, self._profile, self._events, self._questions)
        try:
            request = McpRequest(
                method="initialize",
                params=self._initialize_params(),
                credentials=self._credentials,
            )
            result, session_id = await session.initialize(request)
            server = _described(read_initialize_result, result, line.peer)
            session.begin(server, session_id, self._credentials)
            await session.notify("notifications/initialized", {})
            await self._set_log_level(session, server)
            if self._profile.listens:
                await session.listen()
        except BaseException as error:
            await session.close()
            if isinstance(error, SessionError) and self._may_be_old(error, session):
                return await self._open_old(error)
            raise
        return session

    def _initialize_params(self) -> JsonObject:
        profile = self._profile
        return initialize_params(profile.client_info, profile.features, profile.offered_revision)

    def _may_be_old(self, error: SessionError, session: LegacyHttpSession) -> bool:
        is_modern = isinstance(error, RpcError) and error.code == UNSUPPORTED_VERSION
        return self._target.transport == "auto" and session.refused_status in OLD_TRANSPORT_STATUSES and not is_modern

    async def _open_old(self, first: SessionError | None = None) -> McpSession:
        """The handshake over HTTP+SSE; if there is no such thing either, `first` says what is wrong."""
        session = SseSession(self._line(), self._profile, self._events, self._questions)
        try:
            try:
                await session.connect(self._credentials)
            except SessionError as error:
                if first is not None and not session.has_stream:
                    raise first from None
                raise error from None
            result = await session.request(McpRequest(method="initialize", params=self._initialize_params()))
            server = _described(read_initialize_result, result, "the server")
            session.begin(server)
            await session.notify("notifications/initialized", {})
            await self._set_log_level(session, server)
        except BaseException:
            await session.close()
            raise
        return session

    async def _set_log_level(self, session: McpSession, server: ServerDescription) -> None:
        """Say which log messages are wanted; a server that cannot do what it declares is used all the same."""
        if not server.has("logging"):
            return
        try:
            await session.request(McpRequest(method="logging/setLevel", params={"level": self._profile.log_level}))
        except RpcError:
            return


async def open_http_session(opener: HttpOpener, era: Era | None) -> McpSession:
    """Open a session within HANDSHAKE_SECONDS."""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            return await opener.open(era)
    except TimeoutError:
        raise RequestLost(f"the server did not complete the handshake within {HANDSHAKE_SECONDS:g} seconds") from None


class SessionOptions(TypedDict, total=False):
    """What need not be stated of a session: a known era, credentials, and who answers questions of no request.

    `listening` are the credentials with which a modern session, that many share, hears of changes; None: the same.
    """

    era: Era | None
    credentials: Headers
    listening: Headers | None
    questions: QuestionHandler | None


async def open_session(
    target: HttpTarget | CommandTarget,
    profile: ClientProfile,
    events: SessionEvents,
    *,
    dialer: Dialer,
    **options: Unpack[SessionOptions],
) -> McpSession:
    """Open a session: detect the era unless it is known, and do the handshake.

    `credentials` are sent with the handshake and with what the session asks for by itself; a command gets its own in
    `env`. Raises the errors of `mcp_client.session`.
    """
    era, questions = options.get("era"), options.get("questions")
    if isinstance(target, CommandTarget):
        return await open_command(target, profile, events, era=era, questions=questions)
    credentials = SessionCredentials(options.get("credentials", ()), options.get("listening"))
    opener = HttpOpener(target, profile, events, questions, credentials, dialer)
    return await open_http_session(opener, era)


def _described(read: Callable[[msgspec.Raw], ServerFacts], result: msgspec.Raw, peer: str) -> ServerDescription:
    try:
        facts = read(result)
    except Malformed as error:
        raise NotAcceptable(f"{peer}: {error.message}") from None
    return ServerDescription(
        name=facts.name,
        version=facts.version,
        revision=facts.revision,
        capabilities=facts.capabilities,
        instructions=facts.instructions,
    )


def _response_in(text: bytes) -> IncomingMessage | None:
    """The first response in a text, which may be a batch of a server of 2025-03-26."""
    try:
        return next((each for each in read_incoming_batch(text) if each.is_response), None)
    except Malformed:
        return None
