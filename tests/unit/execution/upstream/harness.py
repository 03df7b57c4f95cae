"""An upstream manager over a scripted server, and callers of both eras."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tests.harness.patience import patience
from tests.servers.scripted_upstream import ScriptedUpstream
from tests.unit.builders import tool_named
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28
from toolhall.dialects.mcp.requests import RequestMeta
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.execution.client_link import ThrottledLink
from toolhall.execution.deadline import Deadline
from toolhall.execution.upstream.credentials import NoUpstreamCredentials, UpstreamCredentials
from toolhall.execution.upstream.manager import ManagerOptions, UpstreamManager
from toolhall.mcp.response import StatelessSinkLink
from toolhall.model.caller import Caller
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import NULL_LINK, Call, ClientLink
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool
from toolhall.model.upstream import Upstream, UpstreamListing, UpstreamSettings

ADA = Caller("ada", proof="key")
BOB = Caller("bob", proof="key")
URL = "https://mcp.example.com/mcp"


def upstream_of(name: str = "Docs", **settings: Any) -> Upstream:
    """An upstream with a URL, unless a command is given."""
    target: dict[str, Any] = {} if "command" in settings else {"url": URL}
    return Upstream(name=name, settings=UpstreamSettings(**{**target, **settings}), source="file")


def upstream_tool(name: str = "work", **stated: Any) -> Tool:
    """A tool of the upstream `Docs`."""
    return tool_named(name, **{"id": ToolId("Docs", name, "1.0.0"), "upstream_name": name, "foreign": True, **stated})


async def until(condition: Callable[[], bool]) -> None:
    """Wait until this is so."""
    async with asyncio.timeout(patience()):
        while not condition():  # noqa: ASYNC110 - what is waited for is seen from outside
            await asyncio.sleep(0.001)


class ClientMessages:
    """The sink of a modern client: its messages as JSON."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []

    def send(self, message: bytes) -> None:
        self.messages.append(msgspec.json.decode(message))

    def disconnect_reader(self, retry_ms: int) -> None:
        raise AssertionError


class ModernRequest:
    """One request of a client of 2026-07-28; `again` is the next one of the same call, with its replies."""

    def __init__(self, features: tuple[str, ...] = ("elicitation",), hops: tuple[str, ...] = ()) -> None:
        self.sink = ClientMessages()
        self._features = features
        capabilities: JsonObject = {each: {} for each in features}
        meta = RequestMeta(REVISION_2026_07_28, capabilities, "info", "token", hops)
        encoder = McpEncoder(ServerInfo(name="hall", version="1"), REVISION_2026_07_28)
        self.inner = StatelessSinkLink(self.sink, meta, encoder)
        self.link = ThrottledLink(self.inner)

    def again(self, replies: Mapping[str, Json]) -> "ModernRequest":
        """The next request: as sealed state it carries the results, and the replies of all rounds."""
        following = ModernRequest(self._features)
        following.inner.results = self.inner.results
        following.inner.replies = {**self.inner.replies, **replies}
        return following


class UpstreamHarness:
    """A manager of one upstream, `Docs`, whose life is started only if a test does."""

    def __init__(
        self,
        server: ScriptedUpstream,
        credentials: UpstreamCredentials | None = None,
        idempotent: tuple[str, ...] = (),
        local: bool = False,
        **settings: Any,
    ) -> None:
        self.server = server
        self.listings: list[UpstreamListing] = []
        self.servers_noted: list[str] = []
        self.resources: list[str] = []
        options = ManagerOptions(
            hall_id="hall-1",
            local=local,
            idempotent=idempotent,
            note_server=lambda _, name: self.servers_noted.append(name),
            on_resource_updated=lambda _, uri: self.resources.append(uri),
        )
        self.manager = UpstreamManager(server, self._sync, credentials or NoUpstreamCredentials(), options)
        self.manager.configure({"Docs": upstream_of(**settings)})
        self.runner = self.manager.runner

    async def _sync(self, upstream: Upstream, listing: UpstreamListing) -> None:
        self.listings.append(listing)

    async def call(
        self,
        name: str = "work",
        arguments: JsonObject | None = None,
        *,
        caller: Caller = ADA,
        link: ClientLink = NULL_LINK,
        deadline: Deadline | None = None,
        tool: Tool | None = None,
        **more: Any,
    ) -> Any:
        """What the runner returns for a call."""
        arguments = arguments or {}
        call = Call("call-1", name, arguments, caller, link, "test", 2, 1_000.0, **more)
        async with asyncio.timeout(patience()):
            return await self.runner.run(tool or upstream_tool(name), call, arguments, deadline or Deadline(60))

    async def text(self, name: str = "work", arguments: JsonObject | None = None, **more: Any) -> str:
        """The first text that a call returns."""
        reply = await self.call(name, arguments, **more)
        text: str = reply.content[0].text
        return text
