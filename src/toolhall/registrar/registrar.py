"""Registers tools, remembers them, and keeps the registry's snapshot what the store says it is."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date

import msgspec

from toolhall.dialects.catalogs import readable
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence
from toolhall.registrar.admission import Admission
from toolhall.registrar.enrolling import Enrolling
from toolhall.registrar.foreign import lost_icons
from toolhall.registrar.later import Later
from toolhall.registrar.ledger import Ledger, Listed
from toolhall.registrar.loading import load
from toolhall.registrar.lookup import OPERATOR, Lookup
from toolhall.registrar.papers import Paper, Source, deprecated, foreign_papers, own_papers
from toolhall.registrar.serving import Serving
from toolhall.registrar.states import after, refuse_unseen
from toolhall.registrar.turns import Turns, unstored
from toolhall.registry.entry import Entry, Runner
from toolhall.registry.registry import Registry
from toolhall.stores.base import Event, Kept, StoreFailed, ToolStore, What
from toolhall.stores.memory import MemoryStore


class Registrar:
    """The only writer of the store; one change at a time, each remembered before it is served."""

    def __init__(self, registry: Registry, clock: Callable[[], float], runner: Runner) -> None:
        self._registry = registry
        self._clock = clock
        self._store: ToolStore = MemoryStore()
        self._ledger = Ledger()
        self._serving = Serving(registry, clock, runner)
        self._lookup = Lookup(self._ledger, self._serving, clock)
        self._admission = Admission(self._ledger, self._serving)
        self._enrolling = Enrolling(self._ledger, self._admission)
        self._drafts: set[str] = set()  # of the operator's own tools, those whose authors stated no version
        self._holds = False
        self._later = Later()
        self.turns = Turns()
        self.levels: Mapping[str, int] = {}  # what the operator says of tools like these: see model/levels.py

    def own(self, entries: Sequence[Entry], drafts: Collection[str] = ()) -> None:
        """Serve the operator's own tools, unless their papers say otherwise; all or none.

        Raises Conflict; and BrokenPromise where code is held to its versions, which a draft has none of.
        """
        self._drafts |= set(drafts)
        tools = [entry.tool for entry in entries]
        changed = self._admission.held(tools, self._drafts, whole=False) if self._holds else []
        fresh = [entry for entry in entries if not self._ledger.is_code(entry.id)]
        # What came from outside under the very id of code makes room for it.
        self._registry.change(fresh, {entry.id for entry in fresh if entry.id in self._ledger})
        self._serving.bring(entries)
        self._show_toolkits({entry.tool.id.toolkit for entry in entries})
        if changed and self.turns.frozen is None:
            self._later.do(lambda: self.turns.alone(self._remember(changed)))

    def disown(self, name: str) -> bool:
        """Take away one of the operator's own tools, by its published name or id; False if there is none."""
        found = self._serving.take_away(name)
        if found is not None:
            self._show_toolkits({found.tool.id.toolkit})
        return found is not None

    async def open(self, store: ToolStore, *, hold: bool, files: Sequence[Paper] = (), readonly: bool = False) -> None:
        """Bring back what was registered, then what files define; with `hold`, code is held to its versions too.

        Raises BadDocument (BrokenPromise) for code and files that may not be served like this.
        """
        self._store, self._holds = store, hold
        lost = load(await store.all(), self._ledger)
        if readonly:
            self._ledger.put_all(lost)  # who may write says so in the store
        elif lost:
            await self._save(lost, "quarantined", OPERATOR, {"reason": "it was changed in the store"})
        if hold:
            own = [entry.tool for entry in self._serving.own]
            changed = self._admission.held(own, self._drafts, whole=True)
            if not readonly:
                await self._remember(changed)
        for paper in files:
            await self._enroll(paper, readonly=readonly)
        self._serving.show(self._ledger.all)

    def watch(self) -> None:
        """Take away what reaches its last day, and remember code that is added, in the loop that runs now."""
        self._serving.watch()
        self._later.begin()

    def close(self) -> None:
        """Change nothing more; whoever opened the store closes it."""
        self._serving.stop()
        self._later.stop()

    @property
    def known(self) -> tuple[Kept, ...]:
        """Everything there is, in whatever state."""
        return self._lookup.everything

    @property
    def ledger(self) -> Ledger:
        """Everything that came from outside, to be read."""
        return self._ledger

    @property
    def names(self) -> frozenset[str]:
        """What everything there is is called, in small letters."""
        return self._lookup.names

    def find(self, tool_id: str) -> Kept:
        """The papers of a tool: by id, or by `Toolkit.tool`, which means its newest version; raises NotFound."""
        return self._lookup.find(tool_id).kept

    def tool(self, kept: Kept) -> Tool:
        """The tool that these papers are about."""
        return self._lookup.tool(kept)

    def serves(self, kept: Kept) -> bool:
        """Whether it can be called now."""
        found = self._registry.snapshot.find(kept.id)
        return found is not None and found.id == kept.id and found.tool.foreign == (kept.origin != "code")

    async def register(self, document: Json, dialect: str, source: Source) -> tuple[Kept, ...]:
        """Validate a definition, hold it to its contract, and keep it; what comes from outside is quarantined."""
        paper = Paper(document, dialect, source.detail)
        tools = paper.tools
        papers = foreign_papers(paper, tools, source)
        return await self.turns.alone(self._register(papers, tools, source))

    async def enroll(
        self, papers: Sequence[Paper], source: Source, check: Callable[[], None], *, trusted: bool
    ) -> tuple[Kept, ...]:
        """Keep what a tool server declares, as far as it is not known; it is served at once only where that is trusted.

        Raises BadDocument (BrokenPromise), Malformed, or what `check` does when it is our turn, and nothing is kept.
        """
        return await self.turns.alone(self._enroll_declared(papers, source, check, trusted=trusted))

    async def activate(self, tool_id: str, by: str, seen: str | None = None) -> Kept:
        """Serve it, and take a deprecation back; `seen` is the digest of the document that somebody looked at."""
        return await self.turns.alone(self._activate(tool_id, by, seen))

    async def deactivate(self, tool_id: str, by: str) -> Kept:
        """Serve it no longer; it can be activated again."""
        return await self.turns.alone(self._deactivate(tool_id, by))

    async def deprecate(self, tool_id: str, by: str, sunset: date | None, successor: str | None) -> Kept:
        """Say that a tool will go, when, and what to call instead."""
        return await self.turns.alone(self._deprecate(tool_id, by, sunset, successor))

    async def roll_back(self, tool_id: str, by: str) -> tuple[Kept, ...]:
        """Back to the version before: newer ones become inactive, that one active."""
        return await self.turns.alone(self._roll_back(tool_id, by))

    async def remove(self, tool_id: str, by: str) -> None:
        """Forget a tool; its history stays."""
        await self.turns.alone(self._remove(tool_id, by))

    async def history(self, tool_id: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """What happened, newest first."""
        try:
            return await self._store.history(tool_id, limit)
        except StoreFailed as failed:
            raise unstored(failed) from None

    async def _register(self, papers: Sequence[Kept], tools: Sequence[Tool], source: Source) -> tuple[Kept, ...]:
        self._admission.refuse_taken(papers, tools)
        self._admission.refuse(papers, tools, source.behaviour, whole=readable(papers[0].dialect).grouped)
        lost = lost_icons(papers[0].document, tools)
        detail: JsonObject = {"icons left out": lost} if lost else {}
        return await self._save(list(map(Listed, papers, tools)), "registered", source.by, detail)

    async def _enroll_declared(
        self, papers: Sequence[Paper], source: Source, check: Callable[[], None], *, trusted: bool
    ) -> tuple[Kept, ...]:
        check()
        toolkits = [list(map(Listed, foreign_papers(each, each.tools, source), each.tools)) for each in papers]
        found = self._enrolling.sort(toolkits)
        for each in found.waiting.values() if trusted else ():
            self._serving.refuse_twin(each)
        if found.new:
            await self._save(found.new, "registered", source.by)
        if found.changed:
            again = [self._again(each, self._lookup.find(each.kept.id)) for each in found.changed]
            await self._save(again, "replaced", source.by)
        if trusted and found.waiting:
            waiting = [self._now(each, state="active") for each in self._enrolling.now(found.waiting)]
            await self._save(waiting, "activated", source.by, {"reason": "its tool server is trusted"})
        return tuple(self._lookup.find(each.kept.id).kept for declared in toolkits for each in declared)

    async def _activate(self, tool_id: str, by: str, seen: str | None) -> Kept:
        listed = self._lookup.find(tool_id)
        refuse_unseen(listed.kept, seen)
        state, what = after("activate", listed.kept)
        changed = self._now(listed, state=state, deprecated_at=None, sunset=None, successor=None)
        self._serving.refuse_twin(changed)
        (saved,) = await self._save([changed], what, by, {"document": listed.kept.document_digest})
        return saved

    async def _deactivate(self, tool_id: str, by: str) -> Kept:
        listed = self._lookup.find(tool_id)
        state, what = after("deactivate", listed.kept)
        (saved,) = await self._save([self._now(listed, state=state)], what, by)
        return saved

    async def _deprecate(self, tool_id: str, by: str, sunset: date | None, successor: str | None) -> Kept:
        listed = self._lookup.find(tool_id)
        if successor is not None and self._lookup.find(successor).kept.id == listed.kept.id:
            raise Malformed(f"{listed.kept.id} cannot come after itself; name another tool or version")
        told = sunset.isoformat() if sunset else None
        changed = self._now(listed, deprecated_at=self._clock(), sunset=told, successor=successor)
        (saved,) = await self._save([changed], "deprecated", by, {"sunset": told, "successor": successor})
        return saved

    async def _roll_back(self, tool_id: str, by: str) -> tuple[Kept, ...]:
        key = self._lookup.find(tool_id).kept.key
        known = sorted(self._lookup.versions(key), key=lambda each: precedence(each.kept.version), reverse=True)
        active = [each for each in known if each.kept.state == "active"]
        older = [each for each in known if active and known.index(each) > known.index(active[0])]
        looked_at = [each for each in older if each.kept.state in ("active", "inactive")]
        before = next((each for each in looked_at if self._serving.brings(each.kept)), None)
        if before is None:
            raise Malformed(f"there is no version of {key} before the one that is active; nothing was changed")
        newer = [self._now(each, state="inactive") for each in active if known.index(each) < known.index(before)]
        back = self._now(before, state="active", deprecated_at=None, sunset=None, successor=None)
        self._serving.refuse_twin(back)
        return await self._save([back, *newer], "rolled back", by, {"to": before.kept.version})

    async def _remove(self, tool_id: str, by: str) -> None:
        kept = self._lookup.find(tool_id).kept
        if any(entry.id == kept.id for entry in self._serving.own):
            raise Malformed(f"{kept.id} is served from code: leave it out of what is served, or deactivate it")
        await self._store.remove([kept], [self._event(kept, "removed", by, {})])
        self._ledger.drop(kept.id)
        self._serving.hide(kept.id)

    async def _remember(self, changed: Sequence[Tool]) -> None:
        """Keep the operator's own tools that are new or changed, as far as nobody has meanwhile."""
        fresh = [tool for tool in changed if self._admission.is_changed(tool)]
        papers = [Listed(own_papers(tool, self._lookup.source("code")), tool) for tool in fresh]
        new = [each for each in papers if each.kept.id not in self._ledger]
        old = [self._again(each, before) for each in papers if (before := self._ledger.get(each.kept.id))]
        if new:
            await self._save(new, "registered", OPERATOR)
        if old:
            await self._save(old, "replaced", OPERATOR)

    async def _enroll(self, paper: Paper, *, readonly: bool) -> None:
        """Keep what a file defines; what changed under an unchanged version is quarantined again.

        Who may not write holds it in memory, quarantined as well.
        """
        tools = paper.tools
        papers = foreign_papers(paper, tools, self._lookup.source("file", paper.detail))
        both = [Listed(kept, tool) for kept, tool in zip(papers, tools, strict=True) if not self._is_known(kept)]
        new = [each for each in both if each.kept.id not in self._ledger]
        old = [self._again(each, before) for each in both if (before := self._ledger.get(each.kept.id))]
        if new:
            whole = readable(paper.dialect).grouped
            self._admission.refuse([each.kept for each in new], tools, None, whole=whole)
        if readonly:
            self._ledger.put_all([*new, *old])
            return
        if new:
            await self._save(new, "registered", OPERATOR)
        if old:
            await self._save(old, "quarantined", OPERATOR, {"reason": "it changed under an unchanged version"})

    def _is_known(self, kept: Kept) -> bool:
        listed = self._ledger.get(kept.id)
        return listed is not None and listed.kept.digests == kept.digests

    def _again(self, listed: Listed, before: Listed) -> Listed:
        """The new papers of a tool in place of the old ones; code that somebody switched off or ended stays so."""
        old = before.kept
        kept = msgspec.structs.replace(listed.kept, serial=old.serial, registered_at=old.registered_at)
        if (old.origin, kept.origin) == ("code", "code"):
            ending = {"deprecated_at": old.deprecated_at, "sunset": old.sunset, "successor": old.successor}
            kept = msgspec.structs.replace(kept, state=old.state, **ending)
        return Listed(kept, deprecated(listed.tool, kept))

    async def _save(
        self, papers: Sequence[Listed], what: What, by: str, detail: JsonObject | None = None
    ) -> tuple[Kept, ...]:
        events = [self._event(each.kept, what, by, detail or {}) for each in papers]
        saved = await self._store.save([each.kept for each in papers], events)
        listed = [Listed(kept, each.tool) for kept, each in zip(saved, papers, strict=True)]
        self._ledger.put_all(listed)
        self._serving.show(listed)
        self._serving.watch()
        return saved

    def _show_toolkits(self, toolkits: Collection[str]) -> None:
        """Code that comes or goes decides what else of its toolkit is served."""
        self._serving.show([listed for toolkit in toolkits for listed in self._ledger.toolkit(toolkit)])

    def _now(self, listed: Listed, **changed: object) -> Listed:
        kept = msgspec.structs.replace(listed.kept, changed_at=self._clock(), **changed)
        return Listed(kept, deprecated(listed.tool, kept))

    def _event(self, kept: Kept, what: What, by: str, detail: JsonObject) -> Event:
        return Event(at=self._clock(), by=by, id=kept.id, what=what, detail=detail)
