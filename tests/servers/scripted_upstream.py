"""An MCP server in this process, behind the protocol of sessions: what it answers and loses is up to the test."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.dialects.mcp.client_handshake import Era
from toolhall.dialects.mcp.protocol import CLIENT_REVISIONS
from toolhall.execution.upstream.credentials import ChildEnvironment
from toolhall.execution.upstream.sessions import PooledSession
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    NotSent,
    RequestHooks,
    RequestLost,
    RpcError,
    ServerDescription,
    SessionEvents,
)
from toolhall.mcp_client.targets import QuestionHandler, SessionCredentials
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream

Answer: TypeAlias = Callable[["ScriptedSession", McpRequest], Awaitable[JsonObject]]
CAPABILITIES: JsonObject = {"tools": {"listChanged": True}}


def text_result(text: str, **more: Json) -> JsonObject:
    """The result of a tool that returns a text."""
    return {"content": [{"type": "text", "text": text}], **more}


class ScriptedUpstream:
    """A server of one revision; `tools` are its tools by name, `refuses` are errors for the next handshakes."""

    def __init__(self, revision: str = "2025-11-25", capabilities: JsonObject | None = None) -> None:
        self.revision = CLIENT_REVISIONS[revision]
        self.capabilities = CAPABILITIES if capabilities is None else capabilities
        self.tools: dict[str, Answer] = {}
        self.methods: dict[str, Answer] = {}
        self.refuses: list[Exception] = []
        self.opened: list[ScriptedSession] = []
        self.requests: list[McpRequest] = []
        self.calls: list[str] = []  # of tools that really ran
        self.cancelled: list[str] = []
        self.eras: list[Era | None] = []  # that each handshake began with
        self.listening: list[Headers] = []  # the credentials that each session listens with
        self.environments: list[dict[str, str]] = []
        self.printable_secrets: set[Secret] = set()  # of which children are known
        self.handshake_gate: asyncio.Event | None = None

    async def __call__(
        self,
        upstream: Upstream,
        events: SessionEvents,
        questions: QuestionHandler,
        *,
        era: Era | None,
        credentials: SessionCredentials,
        env: ChildEnvironment,
    ) -> "ScriptedSession":
        """SessionOpener: a new session, or the next error."""
        self.eras.append(era)
        self.listening.append(credentials.for_listening)
        self.environments.append(dict(env.variables))
        self.printable_secrets.update(env.secrets)
        if self.handshake_gate is not None:
            await self.handshake_gate.wait()
        if self.refuses:
            raise self.refuses.pop(0)
        assert isinstance(events, PooledSession)
        session = ScriptedSession(self, events, questions, credentials.opening)
        self.opened.append(session)
        return session

    @property
    def open(self) -> "list[ScriptedSession]":
        """The sessions that are open."""
        return [session for session in self.opened if session.is_open]


class ScriptedSession:
    """One session with the server; `state` is what the server keeps in it."""

    def __init__(
        self, upstream: ScriptedUpstream, events: SessionEvents, questions: QuestionHandler, credentials: Headers
    ) -> None:
        self.upstream = upstream
        self.events = events
        self.questions = questions
        self.credentials = credentials
        self.state: dict[str, int] = {}
        self.is_open = True
        self.running = 0
        self.hooks: RequestHooks | None = None  # of the newest request
        self.server = ServerDescription(
            name="scripted", version="1.2.3", revision=upstream.revision, capabilities=upstream.capabilities
        )

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """McpSession: let the script answer."""
        if not self.is_open:
            raise NotSent("the session is closed")
        self.upstream.requests.append(request)
        self.hooks = hooks
        self.running += 1
        try:
            return msgspec.Raw(encode(await self._answer(request)))
        except asyncio.CancelledError:
            self.upstream.cancelled.append(request.name or request.method)
            raise
        finally:
            self.running -= 1

    async def _answer(self, request: McpRequest) -> JsonObject:
        answer = self.upstream.methods.get(request.method)
        if answer is not None:
            return await answer(self, request)
        match request.method:
            case "tools/list":
                return {"tools": [{"name": name, "inputSchema": {}} for name in self.upstream.tools]}
            case "tools/call":
                tool = self.upstream.tools.get(request.name or "")
                if tool is None:
                    raise RpcError(-32602, "unknown tool")
                self.upstream.calls.append(request.name or "")
                return await tool(self, request)
            case "ping" | "server/discover":
                return {}
            case _:
                raise RpcError(-32601, "method not found")

    async def ask(self, message: str, hooks: RequestHooks | None, **schema: Json) -> JsonObject:
        """Ask a form on the stream of a request (`hooks`), or on one that belongs to none; the reply or the error."""
        params = {"message": message, "requestedSchema": {"type": "object", "properties": schema}}
        handler = self.questions if hooks is None else hooks.on_question
        try:
            return await handler("elicitation/create", params)
        except ToolhallError as error:
            return {"error": error.message}

    async def notify(self, method: str, params: Mapping[str, Json]) -> None:
        """McpSession: nothing listens."""

    async def close(self) -> None:
        """McpSession: end."""
        self.is_open = False

    def lose(self, reason: str = "the child exited") -> None:
        """The session ends by itself."""
        self.is_open = False
        self.events.on_closed(reason)


def returning(text: str, **more: Json) -> Answer:
    """A tool that returns a text."""

    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        return text_result(text, **more)

    return answer


def failing(*errors: Exception, then: str = "ok") -> Answer:
    """A tool, or a method, that raises these errors one after the other, and then returns a text."""
    left = list(errors)

    async def answer(session: ScriptedSession, request: McpRequest) -> JsonObject:
        if left:
            error = left.pop(0)
            if isinstance(error, RequestLost):
                session.is_open = False
            raise error
        return text_result(then)

    return answer


async def count(session: ScriptedSession, request: McpRequest) -> JsonObject:
    """A tool that counts its calls in the session."""
    session.state["count"] = session.state.get("count", 0) + 1
    return text_result(str(session.state["count"]))


async def forever(session: ScriptedSession, request: McpRequest) -> JsonObject:
    """A tool that does not end."""
    await asyncio.Event().wait()
    raise AssertionError
