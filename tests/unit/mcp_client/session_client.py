"""The owner of a session in tests: keeps what happens in a request, and outside of requests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from tests.servers.http_mcp import LOCAL, HttpMcpServer
from toolhall.dialects.mcp.client_handshake import Era
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import Headers, McpRequest, McpSession
from toolhall.mcp_client.targets import ClientProfile, HttpTarget
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import LogEvent, ProgressEvent

QUIET = ClientProfile(name="test", version="1", listens=False)
LISTENING = ClientProfile(name="test", version="1")
ROOTED = ClientProfile(name="test", version="1", features=("roots",))


class Events:
    """Keeps what happens outside of requests."""

    def __init__(self) -> None:
        self.happened: asyncio.Queue[object] = asyncio.Queue()

    def on_list_changed(self, kind: Literal["tools", "resources", "prompts"]) -> None:
        self.happened.put_nowait(kind)

    def on_resource_updated(self, uri: str) -> None:
        self.happened.put_nowait(("updated", uri))

    def on_log(self, event: LogEvent) -> None:
        self.happened.put_nowait(event)

    def on_closed(self, reason: str) -> None:
        self.happened.put_nowait(("closed", reason))


class Hooks:
    """Keeps what happens in a request, and answers its questions with `reply`."""

    def __init__(self, reply: JsonObject | Exception | None = None) -> None:
        self.heard: list[object] = []
        self.asked = asyncio.Event()
        self.withdrawn = asyncio.Event()
        self._reply = reply

    def on_progress(self, event: ProgressEvent) -> None:
        self.heard.append(event)

    def on_log(self, event: LogEvent) -> None:
        self.heard.append(event)

    async def on_question(self, method: str, params: JsonObject) -> JsonObject:
        self.heard.append((method, params))
        self.asked.set()
        if isinstance(self._reply, Exception):
            raise self._reply
        if self._reply is None:  # nobody answers
            try:
                await asyncio.Event().wait()
            finally:
                self.withdrawn.set()
        assert self._reply is not None
        return self._reply


def call(name: str = "echo", **more: Any) -> McpRequest:
    arguments = more.pop("arguments", {})
    return McpRequest(
        method="tools/call", params={"name": name}, name=name, encoded_arguments=encode(arguments), **more
    )


@asynccontextmanager
async def session_with(  # noqa: PLR0913 - what a session consists of
    server: HttpMcpServer,
    events: Events | None = None,
    *,
    profile: ClientProfile = QUIET,
    era: Era | None = None,
    credentials: Headers = (),
    transport: Literal["auto", "http", "sse"] = "auto",
    questions: Any = None,
) -> AsyncGenerator[McpSession]:
    """An open session with a scripted server."""
    target = HttpTarget(server.url, transport=transport)
    session = await open_session(
        target, profile, events or Events(), dialer=LOCAL, era=era, credentials=credentials, questions=questions
    )
    try:
        yield session
    finally:
        await session.close()
