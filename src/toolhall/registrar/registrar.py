"""Registers tools, remembers them, and keeps the registry's snapshot what the store says it is."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import date

import msgspec

from toolhall.model.errors import NotFound
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.model.versions import newest
from toolhall.registrar.papers import Source, foreign_papers, own_papers, read_definition, tool_of
from toolhall.registrar.promises import refuse_broken_promises
from toolhall.registrar.states import Action, after
from toolhall.registry.entry import Entry, compile_entry
from toolhall.registry.registry import Registry
from toolhall.runners.nowhere import Nowhere
from toolhall.stores.base import Event, Kept, ToolStore, What


class Registrar:
    """The only writer of the store; one change at a time, each remembered before it is served."""

    def __init__(self, registry: Registry, store: ToolStore, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._store = store
        self._clock = clock
        self._known: dict[str, Kept] = {}
        self._changing = asyncio.Lock()

    async def open(self) -> None:
        """Bring back everything that was registered from outside and is active."""
        self._known = {kept.id: kept for kept in await self._store.all()}
        active = [kept for kept in self._known.values() if kept.state == "active" and kept.origin != "code"]
        self._registry.add([_entry(kept) for kept in active])

    @property
    def known(self) -> tuple[Kept, ...]:
        """Everything that is registered, in whatever state."""
        return tuple(self._known.values())

    async def register(self, document: Json, dialect: str, source: Source) -> tuple[Kept, ...]:
        """Validate a definition, hold it to its contract, and keep it; what comes from outside is quarantined."""
        tools = read_definition(document, dialect)
        async with self._changing:
            self._judge(tools)
            papers = foreign_papers(document, tools, dialect, source)
            return await self._save(papers, "registered", source.by)

    async def own(self, tools: Sequence[Tool], source: Source) -> None:
        """Hold the operator's own tools to their contracts, and remember those that are new."""
        async with self._changing:
            self._judge(tools)
            fresh = [own_papers(tool, source) for tool in tools if str(tool.id) not in self._known]
            if fresh:
                await self._save(fresh, "registered", source.by)

    async def change(self, tool_id: str, action: Action, by: str) -> Kept:
        """Activate or deactivate."""
        async with self._changing:
            kept = self._find(tool_id)
            state, what = after(action, kept)
            (saved,) = await self._save([self._now(kept, state=state)], what, by)
            self._serve(saved)
            return saved

    async def deprecate(self, tool_id: str, by: str, sunset: date | None, successor: str | None) -> Kept:
        """Say that a tool will go, when, and what to call instead."""
        async with self._changing:
            kept = self._find(tool_id)
            told = sunset.isoformat() if sunset else None
            detail: JsonObject = {"sunset": told, "successor": successor}
            changed = self._now(kept, sunset=told or kept.sunset, successor=successor)
            (saved,) = await self._save([changed], "deprecated", by, detail)
            self._serve(saved)
            return saved

    async def remove(self, tool_id: str, by: str) -> None:
        """Forget a tool; its history stays."""
        async with self._changing:
            kept = self._find(tool_id)
            await self._store.remove([kept], [self._event(kept, "removed", by)])
            del self._known[kept.id]
            self._registry.remove(kept.id)

    async def history(self, tool_id: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """What happened, newest first."""
        return await self._store.history(tool_id, limit)

    def state_of(self, name: str) -> str | None:
        """The state of a tool that is not served, by its id, with or without a version."""
        found = self._known.get(name) or self._newest(name)
        return found.state if found else None

    def _judge(self, tools: Sequence[Tool]) -> None:
        refuse_broken_promises(tools, self._versions)

    def _versions(self, toolkit: str) -> list[Tool]:
        return [tool_of(kept) for kept in self._known.values() if kept.toolkit == toolkit]

    def _find(self, tool_id: str) -> Kept:
        kept = self._known.get(tool_id) or self._newest(tool_id)
        if kept is None:
            raise NotFound(f"{tool_id[:128]} is not registered; 'toolhall tool list' shows what is")
        return kept

    def _newest(self, key: str) -> Kept | None:
        versions = {kept.version: kept for kept in self._known.values() if f"{kept.toolkit}.{kept.tool}" == key}
        return versions.get(newest(versions) or "")

    async def _save(
        self, papers: Sequence[Kept], what: What, by: str, detail: JsonObject | None = None
    ) -> tuple[Kept, ...]:
        events = [self._event(kept, what, by, detail) for kept in papers]
        saved = await asyncio.shield(self._store.save(papers, events))
        self._known |= {kept.id: kept for kept in saved}
        return saved

    def _serve(self, kept: Kept) -> None:
        """Bring the snapshot to what the papers say; a tool of the operator's own code has its own runner there."""
        if kept.origin == "code":
            return
        self._registry.remove(kept.id)
        if kept.state == "active":
            self._registry.add([_entry(kept)])

    def _now(self, kept: Kept, **changed: object) -> Kept:
        return msgspec.structs.replace(kept, changed_at=self._clock(), **changed)

    def _event(self, kept: Kept, what: What, by: str, detail: JsonObject | None = None) -> Event:
        return Event(at=self._clock(), by=by, id=kept.id, what=what, detail=detail or {})


def _entry(kept: Kept) -> Entry:
    return compile_entry(tool_of(kept), Nowhere())
