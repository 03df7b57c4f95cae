"""Lists of upstreams as they come from their servers, and a hall's registration that they are brought to."""

from typing import Any

from tests.unit.registration.harness import RegistrationHarness
from toolhall.model.json import JsonObject
from toolhall.model.upstream import Upstream, UpstreamListing, UpstreamSettings
from toolhall.registration.upstream_plan import SyncOutcome
from toolhall.registration.upstream_sync import UpstreamSync
from toolhall.registry.snapshot import Entry
from toolhall.stores.tools import ToolStore

SEARCH = {
    "name": "search",
    "description": "Searches the documents.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def tool(name: str = "search", description: str = "Searches the documents.", **changed: Any) -> JsonObject:
    """The definition of a tool."""
    return {**SEARCH, "name": name, "description": description, **changed}


def schema(*required: str, **properties: str) -> JsonObject:
    """An input schema with properties of these types."""
    typed = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": typed, "required": list(required)}


def listing(*tools: Any, **other: Any) -> UpstreamListing:
    """A list of tools, and of what else is stated."""
    plain: dict[str, Any] = {"tools": tools, "revision": "2025-11-25"}
    return UpstreamListing(**plain | other)


def upstream(name: str = "Docs", *, named: bool = False, **settings: Any) -> Upstream:
    """An upstream; `named` by a person at this machine."""
    plain: dict[str, Any] = {"url": "https://mcp.example.com/mcp"}
    return Upstream(name=name, settings=UpstreamSettings(**plain | settings), source="file", named_by_person=named)


class UpstreamHarness(RegistrationHarness):
    """With the sync of one hall; `restarted` is another one with the same store."""

    def __init__(self, store: ToolStore | None = None, *, local: bool = False) -> None:
        super().__init__(store)
        self.local = local
        self.sync = UpstreamSync(self.service, self._clock, local=local)

    async def restarted(self, *upstreams: Upstream) -> "UpstreamHarness":
        """After a restart, before any upstream is reached."""
        again = UpstreamHarness(self.store, local=self.local)
        again.sync.configure({each.name: each for each in upstreams})
        await again.open()
        return again

    async def list(self, source: Upstream, *tools: Any, **other: Any) -> SyncOutcome:
        """Sync with a list of these tools."""
        return await self.sync.apply(source, listing(*tools, **other))

    async def accept(self, name: str = "Docs") -> tuple[str, ...]:
        """As somebody who has looked at everything that waits."""
        return await self.sync.accept(name, self.sync.review(name).digest, "eve")

    def entry(self, name: str) -> Entry:
        """What is served under a name, of any kind."""
        return next(each for each in self.registry.snapshot.all_entries if name in (each.tool.name, each.id))

    def states(self, toolkit: str = "Docs") -> dict[str, str]:
        """The state of every version of an upstream's tools."""
        return {each.record.id.removeprefix(f"{toolkit}."): each.record.state for each in
                self.service.index.in_toolkit(toolkit)}  # fmt: skip
