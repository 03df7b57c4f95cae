"""StdioSession: an McpSession over a pipe of messages, one on each line: a child process, or a hall in this process.

Theory of operation of the handshake
------------------------------------
A server of 2026-07-28 answers `server/discover`; one of an older revision answers it with an error, which is the sign
to send `initialize`. A few say nothing at all to a method that they do not know, and most say nothing while they start
(packages may be installed first). So `initialize` is also sent after 3 seconds of silence, in the same pipe, and
whichever request is accepted first decides: a modern server that starts slowly answers `server/discover` first.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.client_handshake import (
    MODERN_REVISION,
    OFFERED_REVISION,
    Era,
    ServerFacts,
    era_of,
    initialize_params,
    read_discover_result,
    read_initialize_result,
)
from toolhall.dialects.mcp.client_messages import IncomingMessage
from toolhall.mcp_client.child_process import ChildProcess, PipeListener
from toolhall.mcp_client.peer import StreamPeer
from toolhall.mcp_client.session import (
    McpRequest,
    NotAcceptable,
    RequestHooks,
    RequestLost,
    RpcError,
    ServerDescription,
    SessionError,
    SessionEvents,
)
from toolhall.mcp_client.subscriptions import SUBSCRIBE_METHODS, ListenStream
from toolhall.mcp_client.targets import ClientProfile, CommandTarget, QuestionHandler
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode

SILENCE_SECONDS = 3.0  # after which `server/discover` is taken for unanswered
HANDSHAKE_SECONDS = 60.0  # a command may install itself first
_LOG_LEVEL_SECONDS = 10.0


class MessagePipe(Protocol):
    """Messages to and from a server, which come to a PipeListener."""

    @property
    def is_running(self) -> bool:
        """Whether messages can be sent."""
        ...

    async def send(self, frame: bytes) -> None:
        """Send a message; raises NotSent."""
        ...

    async def close(self) -> None:
        """End the server; nothing is left of it afterwards."""
        ...

    def abort(self, cause: str) -> None:
        """End the server at once, without waiting."""
        ...


OpenPipe: TypeAlias = Callable[[PipeListener], Awaitable[MessagePipe]]


async def open_command(
    target: CommandTarget,
    profile: ClientProfile,
    events: SessionEvents,
    *,
    era: Era | None = None,
    questions: QuestionHandler | None = None,
) -> "StdioSession":
    """Start a command and do the handshake; raises NotSent, NotAcceptable, RpcError, RequestLost."""

    async def start(listener: PipeListener) -> ChildProcess:
        return await ChildProcess.start(target, listener, profile.max_message_bytes)

    return await open_pipe(start, profile, events, era=era, questions=questions)


async def open_pipe(
    start: OpenPipe,
    profile: ClientProfile,
    events: SessionEvents,
    *,
    era: Era | None = None,
    questions: QuestionHandler | None = None,
) -> "StdioSession":
    """Do the handshake over a pipe that this opens; it is closed again if that fails."""
    session = StdioSession(profile, events, questions)
    await session.connect(start, era)
    return session


class StdioSession:
    """A session over one pipe; every request, and all that the server says of itself, go over it."""

    def __init__(self, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None) -> None:
        self._profile = profile
        self._events = events
        self._peer = StreamPeer(profile, events, questions, self._send)
        self._pipe: MessagePipe | None = None
        self._subscriptions: ListenStream | None = None
        self._tasks = BackgroundTasks()
        self._closed = False
        self._server: ServerDescription | None = None

    @property
    def server(self) -> ServerDescription:
        """What the server has said of itself."""
        if self._server is None:
            raise RuntimeError("the handshake is not done")
        return self._server

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent, as far as is known."""
        return self._peer.failure is None and self._pipe is not None and self._pipe.is_running

    @property
    def running(self) -> int:
        """How many requests run now."""
        listens = self._subscriptions is not None and self._subscriptions.is_running
        return max(0, len(self._peer.pending) - listens)

    @property
    def errors(self) -> str:
        """The end of what a command printed to its error output, for people; empty where there is none."""
        return self._pipe.errors.tail if isinstance(self._pipe, ChildProcess) else ""

    @property
    def pid(self) -> int | None:
        """The process id of a command."""
        return self._pipe.pid if isinstance(self._pipe, ChildProcess) else None

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """Send a request; return its `result` as JSON. Cancelling this cancels the request at the server."""
        if request.method in SUBSCRIBE_METHODS and self._subscriptions is not None:
            if self._subscriptions.change(request):
                self._listen(self._subscriptions)
            return msgspec.Raw(b"{}")
        return await self._peer.request(request, hooks)

    async def notify(self, method: str, params: Mapping[str, Json]) -> None:
        """Send a notification; raises NotSent or RequestLost."""
        await self._peer.notify(method, params)

    async def close(self) -> None:
        """End the session and the server; idempotent."""
        self._closed = True
        self._peer.fail("the session was closed")
        try:
            if self._pipe is not None:
                await self._pipe.close()
        finally:
            self._tasks.cancel()

    def on_frame(self, frame: bytes) -> None:
        """PipeListener: take a message; a server that goes on sending what is none is ended."""
        try:
            self._peer.receive(frame)
        except Malformed as malformed:
            if self._pipe is not None:
                self._pipe.abort(malformed.message)

    def on_exit(self, reason: str) -> None:
        """PipeListener: the server has ended; running requests are lost."""
        self._peer.fail(reason)
        if not self._closed and self._server is not None:
            self._events.on_closed(reason)

    async def connect(self, start: OpenPipe, era: Era | None) -> None:
        """Open the pipe and do the handshake; whatever goes wrong, nothing is left open."""
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                self._pipe = await start(self)
                facts = await self._handshake(era)
        except TimeoutError:
            await self.close()
            raise NotAcceptable(self._silence()) from None
        except Malformed as malformed:
            await self.close()
            raise NotAcceptable(malformed.message) from None
        except BaseException:
            await self.close()
            raise
        self._server = ServerDescription(
            name=facts.name,
            version=facts.version,
            revision=facts.revision,
            capabilities=facts.capabilities,
            instructions=facts.instructions,
        )
        if facts.revision.stateless:
            self._subscriptions = ListenStream(self._server, self._peer.request)
            if self._profile.listens and self._subscriptions.is_needed:
                self._listen(self._subscriptions)

    async def _send(self, body: bytes) -> None:
        if self._pipe is None:
            raise RequestLost("the session is not open")
        await self._pipe.send(body)

    async def _handshake(self, era: Era | None) -> ServerFacts:
        if era == "legacy":
            return await self._initialize()
        discovery = asyncio.ensure_future(self._discover())
        try:
            await asyncio.wait({discovery}, timeout=None if era == "modern" else SILENCE_SECONDS)
            return discovery.result() if discovery.done() else await self._first_accepted(discovery)
        except _OlderServer:
            return await self._initialize()
        finally:
            _give_up(discovery)

    async def _first_accepted(self, discovery: "asyncio.Task[ServerFacts]") -> ServerFacts:
        """Send `initialize` beside a `server/discover` that nobody has answered yet."""
        initializing = asyncio.ensure_future(self._initialize())
        try:
            await asyncio.wait({discovery, initializing}, return_when=asyncio.FIRST_COMPLETED)
            if not discovery.done() and isinstance(initializing.exception(), RpcError):
                await asyncio.wait({discovery}, timeout=SILENCE_SECONDS)  # a modern server, which answers in any order
            if discovery.done() and not isinstance(discovery.exception(), _OlderServer):
                self._peer.speak(MODERN_REVISION)
                return discovery.result()
            return await initializing
        finally:
            _give_up(initializing)

    async def _discover(self) -> ServerFacts:
        """The answer of a modern server; raises _OlderServer for the error of one that is not."""
        self._peer.speak(MODERN_REVISION)
        try:
            result = await self._peer.request(McpRequest(method="server/discover"))
        except RpcError as error:
            refusal: JsonObject = {"code": error.code, "message": error.reason, "data": error.data}
            finding = era_of(200, IncomingMessage(error=msgspec.Raw(encode(refusal))))
            if finding.era == "modern":
                raise NotAcceptable(_unknown_versions(finding.versions)) from None
            raise _OlderServer from None
        finding = era_of(200, IncomingMessage(result=result))
        if finding.era != "modern":
            raise _OlderServer
        return read_discover_result(result)

    async def _initialize(self) -> ServerFacts:
        self._peer.speak(OFFERED_REVISION)
        profile = self._profile
        params = initialize_params(profile.client_info, profile.features, profile.offered_revision)
        facts = read_initialize_result(await self._peer.request(McpRequest(method="initialize", params=params)))
        self._peer.speak(facts.revision)
        await self._peer.notify("notifications/initialized", {})
        if "logging" in facts.capabilities:
            self._tasks.start(self._set_log_level())  # nobody waits for a server that does not answer this
        return facts

    async def _set_log_level(self) -> None:
        level: JsonObject = {"level": self._profile.log_level}
        with contextlib.suppress(SessionError, TimeoutError):  # a server that cannot do what it declares is used anyway
            async with asyncio.timeout(_LOG_LEVEL_SECONDS):
                await self._peer.request(McpRequest(method="logging/setLevel", params=level))

    def _listen(self, subscriptions: ListenStream) -> None:
        """Ask a modern server for notices of changes, which servers of older revisions send unasked."""
        if not subscriptions.is_running:
            self._tasks.start(subscriptions.run())

    def _silence(self) -> str:
        """Why there was no handshake in time, with what to look at."""
        if not isinstance(self._pipe, ChildProcess):
            return "the server did not answer"
        if self._pipe.skipped_lines:
            return "the command prints text but no MCP messages; is there an option that makes it speak MCP over stdio?"
        last = self._pipe.errors.last_line
        seconds = f"the command did not answer within {HANDSHAKE_SECONDS:g} seconds; is it an MCP server over stdio?"
        return f"{seconds} It said last: {last[:200]}" if last else seconds


def _give_up(task: "asyncio.Task[ServerFacts]") -> None:
    """Cancel a task that nobody waits for, whatever it ends with."""
    task.cancel()
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


class _OlderServer(Exception):
    """The server does not speak 2026-07-28."""


def _unknown_versions(versions: tuple[str, ...]) -> str:
    listed = ", ".join(each[:40] for each in versions[:8]) or "no revision that it names"
    return f"the server speaks {listed}; known here are {MODERN_REVISION.name} and the revisions before it"
