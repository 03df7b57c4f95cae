"""RegistrationService: the only writer of tool records; each change is stored before it is served.

Theory of operation
-------------------
A registered tool exists in three places: its record in the store, the RecordIndex in memory, and the registry's
snapshot, if it is served. The service keeps them in step by one rule: every change runs under one write lock
(`WriteLock.exclusive`), reads the index, checks the RegistrationRules, saves to the store, and only then updates the
index and the registry (`_save`). A change that fails before the save has no effect; one that was saved is always
applied, since the lock shields it from the cancellation of its caller. Readers need no lock: the snapshot is replaced
in one step.

Several processes may serve one data directory, but only one of them may change tools; the others have
`write_lock.read_only_reason` set and load the tools when they start.

Definitions from outside are quarantined until an operator has reviewed the exact document, by its digest. Tools defined
in code are active at once and shadow registered tools of the same id; where versions are enforced, they are held to
semantic versioning as well, and stored so that the next start can compare them.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import date

import msgspec

from toolhall.concurrency import DeferredTasks, in_portions
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import precedence
from toolhall.model.tool import Tool
from toolhall.registration.active_tools import OPERATOR, ActiveTools, RecordLookup
from toolhall.registration.records import (
    DefinitionDocument,
    IndexedTool,
    RecordIndex,
    RegistrationSource,
    count_removed_icons,
    load_records,
    record_for_code,
    records_for_document,
    with_deprecation,
)
from toolhall.registration.rules import DeclarationPlanner, RegistrationRules, check_reviewed, next_state
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry, Runner
from toolhall.stores.common import StoreFailed, WriteLock, store_unavailable
from toolhall.stores.tools import (
    MemoryToolStore,
    ToolEvent,
    ToolEventKind,
    ToolOrigin,
    ToolRecord,
    ToolState,
    ToolStore,
)

SERVED_STATES: frozenset[ToolState] = frozenset({"active", "withheld"})
PORTION = 1_000  # tools that are served in one step; more would hold up the loop
_log = logging.getLogger("toolhall.registrar")


class RecordChange(msgspec.Struct, frozen=True):
    """Records to save and to remove together, each with its event, if it has one."""

    saved: list[tuple[IndexedTool, ToolEvent | None]] = []
    removed: list[tuple[IndexedTool, ToolEvent | None]] = []
    events: list[ToolEvent] = []  # beside those of records

    def __bool__(self) -> bool:
        return bool(self.saved or self.removed or self.events)


class RegistrationService:
    """Registers, activates, deprecates and removes tools; one change at a time, each stored before it is served."""

    def __init__(
        self, registry: Registry, clock: Callable[[], float], runner_for: Callable[[ToolOrigin], Runner]
    ) -> None:
        """`runner_for` returns the runner of tools that no code here defines, by their origin."""
        self._registry = registry
        self._clock = clock
        self._store: ToolStore = MemoryToolStore()
        self._index = RecordIndex()
        self._active = ActiveTools(registry, clock, runner_for)
        self._lookup = RecordLookup(self._index, self._active, clock)
        self._rules = RegistrationRules(self._index, self._active)
        self._planner = DeclarationPlanner(self._index, self._rules)
        self._unversioned: set[str] = set()  # ids of tools in code without a stated version
        self._enforces_versions = False
        self._deferred = DeferredTasks()
        self.write_lock = WriteLock()
        self.level_overrides: Mapping[str, int] = {}  # by glob; see effective_level in model/caller.py

    def add_code_tools(self, entries: Sequence[Entry], unversioned: Collection[str] = ()) -> None:
        """Serve tools defined in code, unless their records say otherwise; all or none.

        Raises Conflict, and BrokenPromise if versions are enforced and one does not match its changes. Tools of
        `unversioned` ids are not held to a version.
        """
        self._unversioned |= set(unversioned)
        tools = [entry.tool for entry in entries]
        changed = (
            self._rules.changed_code_tools(tools, self._unversioned, complete=False) if self._enforces_versions else []
        )
        fresh = [entry for entry in entries if not self._index.is_from_code(entry.id)]
        # Code replaces a tool from outside that has the same id.
        self._registry.change(fresh, {entry.id for entry in fresh if entry.id in self._index})
        self._active.add_code_tools(entries)
        self._reapply_toolkits({entry.tool.id.toolkit for entry in entries})
        if changed and self.write_lock.read_only_reason is None:
            self._deferred.submit(lambda: self._save_added_code_tools(changed))

    def remove_code_tool(self, name: str) -> bool:
        """Remove a tool defined in code by its published name or id; False if there is none."""
        found = self._active.remove_code_tool(name)
        if found is not None:
            self._reapply_toolkits({found.tool.id.toolkit})
        return found is not None

    async def open(
        self,
        store: ToolStore,
        *,
        enforce_versions: bool,
        files: Sequence[DefinitionDocument] = (),
        readonly: bool = False,
    ) -> None:
        """Load what was registered, then what files define; `enforce_versions` holds code to its versions.

        With `readonly`, nothing is written: what should be saved is only held in memory. Raises BadDocument
        (BrokenPromise) for code and files whose versions do not match their changes.
        """
        self._store, self._enforces_versions = store, enforce_versions
        tampered = load_records(await store.all(), self._index)
        if readonly:
            self._index.put_all(tampered)  # a process that may write quarantines them in the store
        elif tampered:
            await self._save(tampered, "quarantined", OPERATOR, {"reason": "it was changed in the store"})
        if enforce_versions:
            own = [entry.tool for entry in self._active.code_entries]
            changed = self._rules.changed_code_tools(own, self._unversioned, complete=True)
            if not readonly:
                await self._save_code_tools(changed)
        for file in files:
            await self._register_file(file, readonly=readonly)
        self._active.apply(self._index.all)

    def watch(self) -> None:
        """Watch sunsets, and save code that is added later, in the running loop."""
        self._active.schedule_sunsets()
        self._deferred.start()

    def close(self) -> None:
        """Stop watching; the store is closed by its owner."""
        self._active.stop()
        self._deferred.stop()

    @property
    def all_records(self) -> tuple[ToolRecord, ...]:
        """The records of all tools, in every state."""
        return self._lookup.all_records

    @property
    def index(self) -> RecordIndex:
        """The index of stored records, for reading."""
        return self._index

    @property
    def published_names(self) -> frozenset[str]:
        """The published names of all tools, in lower case."""
        return self._lookup.published_names

    def find(self, tool_id: str) -> ToolRecord:
        """Return a record by id, or by `Toolkit.tool`, which means its newest version; raises NotFound."""
        return self._lookup.find(tool_id).record

    def tool(self, record: ToolRecord) -> Tool:
        """Return the tool of a record."""
        return self._lookup.tool(record)

    def is_served(self, record: ToolRecord) -> bool:
        """Return whether the tool of this record can be called now."""
        found = self._registry.snapshot.find_any(record.id)
        return found is not None and found.id == record.id and found.tool.foreign == (record.origin != "code")

    async def register(self, document: Json, dialect: str, source: RegistrationSource) -> tuple[ToolRecord, ...]:
        """Register the tools of a definition from outside, quarantined; raises BadDocument or Malformed."""
        parsed = DefinitionDocument(document, dialect, source.detail)
        tools = parsed.tools
        records = records_for_document(parsed, tools, source)
        return await self.write_lock.exclusive(self._register(records, tools, source))

    def check(self, document: Json, dialect: str, source: RegistrationSource) -> tuple[ToolRecord, ...]:
        """Return what `register` would make of a definition, and raise what it would raise; nothing is stored."""
        parsed = DefinitionDocument(document, dialect, source.detail)
        records = tuple(records_for_document(parsed, parsed.tools, source))
        self._check_new(records, parsed.tools, source)
        return records

    async def register_declared(
        self,
        documents: Sequence[DefinitionDocument],
        source: RegistrationSource,
        check: Callable[[], None],
        *,
        trusted: bool,
    ) -> tuple[ToolRecord, ...]:
        """Register what a tool server declares, as far as it is new; served at once only if the server is trusted.

        `check` runs once the write lock is held and may raise, too. Raises BadDocument (BrokenPromise) or Malformed;
        then nothing is registered.
        """
        return await self.write_lock.exclusive(self._register_declared(documents, source, check, trusted=trusted))

    async def activate(self, tool_id: str, by: str, reviewed_digest: str | None = None) -> ToolRecord:
        """Serve a tool and revoke its deprecation; `reviewed_digest` is that of the document that was reviewed."""
        return await self.write_lock.exclusive(self._activate(tool_id, by, reviewed_digest))

    async def deactivate(self, tool_id: str, by: str) -> ToolRecord:
        """Stop serving a tool; it can be activated again."""
        return await self.write_lock.exclusive(self._deactivate(tool_id, by))

    async def deprecate(self, tool_id: str, by: str, sunset: date | None, successor: str | None) -> ToolRecord:
        """Announce that a tool will be removed, when, and what to call instead."""
        return await self.write_lock.exclusive(self._deprecate(tool_id, by, sunset, successor))

    async def roll_back(self, tool_id: str, by: str) -> tuple[ToolRecord, ...]:
        """Activate the version before the active one, and deactivate the newer ones."""
        return await self.write_lock.exclusive(self._roll_back(tool_id, by))

    async def remove(self, tool_id: str, by: str) -> None:
        """Delete a tool's record; its history stays."""
        await self.write_lock.exclusive(self._remove(tool_id, by))

    async def change(self, plan: Callable[[], Awaitable[RecordChange]], *, by_hall: bool = False) -> RecordChange:
        """Store the change that `plan` makes of the records under the write lock, then serve it in one step."""
        return await self.write_lock.exclusive(self._change(plan), by_hall=by_hall)

    async def _change(self, plan: Callable[[], Awaitable[RecordChange]]) -> RecordChange:
        return await self._apply_change(await plan())

    async def _apply_change(self, change: RecordChange) -> RecordChange:
        if not change:
            return change
        events = [event for _, event in change.saved if event is not None]
        saved = await self._store.save([each.record for each, _ in change.saved], [*events, *change.events])
        listed = [IndexedTool(record, each.tool) for record, (each, _) in zip(saved, change.saved, strict=True)]
        async for portion in in_portions(listed, PORTION):
            self._index.put_all(portion)
        removed: list[ToolRecord] = []
        try:
            if change.removed:  # after the others: a crash between both leaves a version too much, never one too few
                records = [each.record for each, _ in change.removed]
                await self._store.remove(records, [event for _, event in change.removed if event is not None])
                removed = records
        finally:  # what was saved is served, whatever becomes of the rest
            for record in removed:
                self._index.remove(record.id)
            left = [each for key in {each.key for each in removed} for each in self._index.versions(key)]
            applied = {each.record.id: each for each in (*left, *self._with_siblings(listed))}
            await self._serve(list(applied.values()), [each.id for each in removed])
        self._active.schedule_sunsets()
        return change

    async def _serve(self, applied: Sequence[IndexedTool], removed_ids: Sequence[str]) -> None:
        """Serve what was changed in one step; thousands in several, each with all versions of a tool."""
        if len(applied) <= PORTION:
            self._active.apply(applied, removed_ids)
            return
        self._active.apply((), removed_ids)
        by_key: dict[str, list[IndexedTool]] = {}
        for each in applied:
            by_key.setdefault(each.record.key, []).append(each)
        async for portion in in_portions(list(by_key.values()), PORTION):
            self._active.apply([each for versions in portion for each in versions])
        if left_out := self._active.left_out(applied):  # their names were those of tools of a later portion
            self._active.apply(left_out)

    def reapply(self, keys: Collection[str]) -> None:
        """Serve the versions of these tools of upstreams again, since what is held of them has changed."""
        self._active.apply([each for key in keys for each in self._index.versions(key)])

    def reapply_upstreams(self, names: Collection[str]) -> None:
        """Serve the tools of these upstreams, or serve them no more: the hall has them now, or has them no more."""
        own = [each for each in self._index.all if each.record.origin == "upstream"]
        self._active.apply([each for each in own if each.record.origin_detail in names])

    async def follow_upstreams(self) -> None:
        """Take over what another process has registered of upstreams; raises StoreFailed."""
        stored = {each.id: each for each in await self._store.all() if each.origin == "upstream"}
        known = {each.record.id: each.record for each in self._index.all if each.record.origin == "upstream"}
        fresh = RecordIndex()
        tampered = load_records([each for each in stored.values() if known.get(each.id) != each], fresh)
        gone = known.keys() - stored.keys()
        listed = [*fresh.all, *tampered]
        self._index.put_all(listed)
        for tool_id in gone:
            self._index.remove(tool_id)
        keys = {each.record.key for each in listed} | {known[each].key for each in gone}
        self._active.apply([each for key in keys for each in self._index.versions(key)], gone)

    @property
    def active(self) -> ActiveTools:
        """What keeps the registry in step with the records."""
        return self._active

    async def history(self, tool_id: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        """Return the events of a tool, or of all, newest first."""
        try:
            return await self._store.history(tool_id, limit)
        except StoreFailed as failed:
            raise store_unavailable(failed) from None

    async def _register(
        self, records: Sequence[ToolRecord], tools: Sequence[Tool], source: RegistrationSource
    ) -> tuple[ToolRecord, ...]:
        self._check_new(records, tools, source)
        lost = count_removed_icons(records[0].document, tools)
        detail: JsonObject = {"icons left out": lost} if lost else {}
        return await self._save(list(map(IndexedTool, records, tools)), "registered", source.by, detail)

    def _check_new(self, records: Sequence[ToolRecord], tools: Sequence[Tool], source: RegistrationSource) -> None:
        from toolhall.dialects.catalogs import readable_catalog  # lazy: every dialect, only to register

        self._rules.check_not_registered(records, tools)
        self._rules.check(records, tools, source.behaviour, complete=readable_catalog(records[0].dialect).grouped)

    async def _register_declared(
        self,
        documents: Sequence[DefinitionDocument],
        source: RegistrationSource,
        check: Callable[[], None],
        *,
        trusted: bool,
    ) -> tuple[ToolRecord, ...]:
        check()
        toolkits = [
            list(map(IndexedTool, records_for_document(each, each.tools, source), each.tools)) for each in documents
        ]
        plan = self._planner.plan(toolkits)
        for each in plan.quarantined.values() if trusted else ():
            self._active.check_conflict(each)
        if plan.new:
            await self._save(plan.new, "registered", source.by)
        if plan.changed:
            replaced = [self._replacement(each, self._lookup.find(each.record.id)) for each in plan.changed]
            await self._save(replaced, "replaced", source.by)
        if trusted and plan.quarantined:
            activated = [self._changed(each, state="active") for each in self._planner.current(plan.quarantined)]
            await self._save(activated, "activated", source.by, {"reason": "its tool server is trusted"})
        return tuple(self._lookup.find(each.record.id).record for declared in toolkits for each in declared)

    async def _activate(self, tool_id: str, by: str, reviewed_digest: str | None) -> ToolRecord:
        listed = self._lookup.find(tool_id)
        check_reviewed(listed.record, reviewed_digest)
        state, what = next_state("activate", listed.record)
        changed = self._changed(listed, state=state, deprecated_at=None, sunset=None, successor=None)
        self._active.check_conflict(changed)
        detail: JsonObject = {"document": listed.record.document_digest}
        change = RecordChange(saved=[(changed, self._event(listed.record, what, by, detail))])
        for each in self._replaced_by(listed.record):
            reason: JsonObject = {"reason": f"{listed.record.version} took its place"}
            event = self._event(each.record, "deactivated", by, reason)
            change.saved.append((self._changed(each, state="inactive"), event))
        await self._apply_change(change)
        return self._lookup.find(listed.record.id).record

    def _replaced_by(self, record: ToolRecord) -> list[IndexedTool]:
        """Return the served versions that this one replaces: an upstream has one version of each tool."""
        others = self._index.versions(record.key) if record.origin == "upstream" else []
        return [each for each in others if each.record.state in SERVED_STATES and each.record.id != record.id]

    async def _deactivate(self, tool_id: str, by: str) -> ToolRecord:
        listed = self._lookup.find(tool_id)
        state, what = next_state("deactivate", listed.record)
        (saved,) = await self._save([self._changed(listed, state=state)], what, by)
        return saved

    async def _deprecate(self, tool_id: str, by: str, sunset: date | None, successor: str | None) -> ToolRecord:
        listed = self._lookup.find(tool_id)
        if successor is not None and self._lookup.find(successor).record.id == listed.record.id:
            raise Malformed(f"{listed.record.id} cannot come after itself; name another tool or version")
        day = sunset.isoformat() if sunset else None
        changed = self._changed(listed, deprecated_at=self._clock(), sunset=day, successor=successor)
        (saved,) = await self._save([changed], "deprecated", by, {"sunset": day, "successor": successor})
        return saved

    async def _roll_back(self, tool_id: str, by: str) -> tuple[ToolRecord, ...]:
        key = self._lookup.find(tool_id).record.key
        known = sorted(self._lookup.versions(key), key=lambda each: precedence(each.record.version), reverse=True)
        active = [each for each in known if each.record.state == "active"]
        older = [each for each in known if active and known.index(each) > known.index(active[0])]
        reviewed = [each for each in older if each.record.state in ("active", "inactive")]
        before = next((each for each in reviewed if self._active.is_servable(each.record)), None)
        if before is None:
            raise Malformed(f"there is no version of {key} before the one that is active; nothing was changed")
        # What an upstream has now waits for another look, since calls of the older version reach it.
        state: ToolState = "quarantined" if before.record.origin == "upstream" else "inactive"
        newer = [self._changed(each, state=state) for each in active if known.index(each) < known.index(before)]
        back = self._changed(before, state="active", deprecated_at=None, sunset=None, successor=None)
        self._active.check_conflict(back)
        return await self._save([back, *newer], "rolled back", by, {"to": before.record.version})

    async def _remove(self, tool_id: str, by: str) -> None:
        record = self._lookup.find(tool_id).record
        if any(entry.id == record.id for entry in self._active.code_entries):
            raise Malformed(f"{record.id} is served from code: leave it out of what is served, or deactivate it")
        await self._store.remove([record], [self._event(record, "removed", by, {})])
        self._index.remove(record.id)
        self._active.remove(record.id)

    async def _save_added_code_tools(self, changed: Sequence[Tool]) -> None:
        """Save tools that were added while the hall runs; a failure is logged, since no caller waits for it."""
        try:
            await self.write_lock.exclusive(self._save_code_tools(changed))
        except ToolhallError as error:
            _log.warning("tools added from code are served but not stored: %s", error.detail or error.message)

    async def _save_code_tools(self, changed: Sequence[Tool]) -> None:
        """Save tools from code that are new or changed, unless they were saved meanwhile."""
        fresh = [tool for tool in changed if self._rules.is_code_changed(tool)]
        records = [IndexedTool(record_for_code(tool, self._lookup.operator_source("code")), tool) for tool in fresh]
        new = [each for each in records if each.record.id not in self._index]
        old = [self._replacement(each, before) for each in records if (before := self._index.get(each.record.id))]
        if new:
            await self._save(new, "registered", OPERATOR)
        if old:
            await self._save(old, "replaced", OPERATOR)

    async def _register_file(self, document: DefinitionDocument, *, readonly: bool) -> None:
        """Register the tools of a file; one that changed under an unchanged version is quarantined again.

        With `readonly`, they are only held in memory, quarantined as well.
        """
        tools = document.tools
        records = records_for_document(document, tools, self._lookup.operator_source("file", document.detail))
        both = [IndexedTool(kept, tool) for kept, tool in zip(records, tools, strict=True) if not self._is_known(kept)]
        new = [each for each in both if each.record.id not in self._index]
        old = [self._replacement(each, before) for each in both if (before := self._index.get(each.record.id))]
        if new:
            from toolhall.dialects.catalogs import readable_catalog  # lazy: as in _register

            whole = readable_catalog(document.dialect).grouped
            self._rules.check([each.record for each in new], tools, None, complete=whole)
        if readonly:
            self._index.put_all([*new, *old])
            return
        if new:
            await self._save(new, "registered", OPERATOR)
        if old:
            await self._save(old, "quarantined", OPERATOR, {"reason": "it changed under an unchanged version"})

    def _is_known(self, record: ToolRecord) -> bool:
        listed = self._index.get(record.id)
        return listed is not None and listed.record.digests == record.digests

    def _replacement(self, indexed: IndexedTool, before: IndexedTool) -> IndexedTool:
        """Return the record that replaces an old one; code that was deactivated or deprecated stays so."""
        old = before.record
        kept = msgspec.structs.replace(indexed.record, serial=old.serial, registered_at=old.registered_at)
        if (old.origin, kept.origin) == ("code", "code"):
            ending = {"deprecated_at": old.deprecated_at, "sunset": old.sunset, "successor": old.successor}
            kept = msgspec.structs.replace(kept, state=old.state, **ending)
        return IndexedTool(kept, with_deprecation(indexed.tool, kept))

    async def _save(
        self, tools: Sequence[IndexedTool], what: ToolEventKind, by: str, detail: JsonObject | None = None
    ) -> tuple[ToolRecord, ...]:
        events = [self._event(each.record, what, by, detail or {}) for each in tools]
        saved = await self._store.save([each.record for each in tools], events)
        listed = [IndexedTool(kept, each.tool) for kept, each in zip(saved, tools, strict=True)]
        self._index.put_all(listed)
        self._active.apply(self._with_siblings(listed))
        self._active.schedule_sunsets()
        return saved

    def _with_siblings(self, listed: Sequence[IndexedTool]) -> list[IndexedTool]:
        """Return these tools, and the other versions of those of upstreams: what is held of one depends on another."""
        keys = dict.fromkeys(each.record.key for each in listed if each.record.origin == "upstream")
        own = {each.record.id for each in listed}
        others = (each for key in keys for each in self._index.versions(key) if each.record.id not in own)
        return [*listed, *others]

    def _reapply_toolkits(self, toolkits: Collection[str]) -> None:
        """Apply the registered tools of these toolkits again, since their code has changed."""
        self._active.apply([listed for toolkit in toolkits for listed in self._index.in_toolkit(toolkit)])

    def _changed(self, indexed: IndexedTool, **changed: object) -> IndexedTool:
        kept = msgspec.structs.replace(indexed.record, changed_at=self._clock(), **changed)
        return IndexedTool(kept, with_deprecation(indexed.tool, kept))

    def _event(self, record: ToolRecord, what: ToolEventKind, by: str, detail: JsonObject) -> ToolEvent:
        return ToolEvent(at=self._clock(), by=by, id=record.id, what=what, detail=detail)
