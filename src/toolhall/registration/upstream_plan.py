"""SyncPlanner: what a new list of an upstream changes of its records; SyncOutcome, what came of it.

The planner is given every definition of a list, one after the other, and then finished. It changes nothing itself: its
`change` is stored and served in one step. A definition that cannot be registered beside what is there is withheld with
the reason, and harms no other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.names import SEARCH_TOOL, skeleton
from toolhall.model.tool import Kind, Tool
from toolhall.model.upstream import Upstream, UpstreamListing
from toolhall.registration.records import IndexedTool, RecordIndex, RegistrationSource, new_record, with_deprecation
from toolhall.registration.service import SERVED_STATES, RecordChange, RegistrationService
from toolhall.registration.upstream_changes import (
    MAX_OLD_VERSIONS,
    DefinitionVersions,
    changes_between,
    is_same,
    is_served_at_once,
    size_of,
    stated_part,
    version_after,
)
from toolhall.registration.upstream_definitions import (
    DIALECT,
    MAX_DEFINITIONS,
    MAX_UPSTREAM_BYTES,
    ForeignDefinition,
    UpstreamFinding,
    completed_arguments,
    document_of,
    identified,
    is_selected,
    other_name,
    own_name,
    qualified_uri,
)
from toolhall.registry.registry import NameClaims, name_conflict
from toolhall.registry.snapshot import tool_key
from toolhall.stores.tools import ToolEvent, ToolEventKind, ToolRecord, ToolState

MAX_EVENTS_OF_TOOL = 20  # in an hour
MAX_EVENTS = 25_000  # of one upstream in an hour
NOT_OFFERED = "its upstream no longer offers it"
_OFFERED_AGAIN = "its upstream offers it again"
_LEFT_OUT = "the settings of its upstream leave it out"
_OPERATORS_CHANGE = "the settings of its upstream changed, or what its server completes"
_UNREADABLE = "its upstream offers it in a form that cannot be read"


class SyncOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one list of an upstream changed; tools are named by their ids."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # the new versions of definitions that are others now
    activated: tuple[str, ...] = ()  # of both, those that are served at once; and those that are offered again
    held: tuple[str, ...] = ()  # of both, those that wait for a look
    gone: tuple[str, ...] = ()
    withheld: tuple[UpstreamFinding, ...] = ()  # definitions of the list that are not registered, with the reason

    def __bool__(self) -> bool:
        """Whether anything was written."""
        return bool(self.added or self.changed or self.activated or self.gone)


class EventBudget:
    """How many events an upstream may still write: one that changes its mind all the time must not fill the history."""

    def __init__(self) -> None:
        self._began = 0.0
        self._by_tool: Counter[str] = Counter()
        self._taken = 0

    def takes(self, key: str, now: float) -> bool:
        """Whether there may be another event of this tool now; what happens goes on without."""
        if not 0 <= now - self._began < 3_600:
            self._began = now
            self._by_tool.clear()
            self._taken = 0
        if self._by_tool[key] >= MAX_EVENTS_OF_TOOL or self._taken >= MAX_EVENTS:
            return False
        self._by_tool[key] += 1
        self._taken += 1
        return True


class SyncPlanner:
    """Plans the changes of one sync of one upstream."""

    def __init__(
        self,
        registration: RegistrationService,
        upstream: Upstream,
        source: RegistrationSource,
        *,
        budget: EventBudget,
        first_sight_is_look: bool,
        listing: UpstreamListing,
    ) -> None:
        """`first_sight_is_look`: a person named this upstream, so what it lists first is served at once.

        Unless the `listing` is shared, it may be another one for another user, and takes nothing away.
        """
        self._shared = listing.shared
        self._completes = listing.completes
        self._budget = budget
        self.change = RecordChange()
        self.findings: list[UpstreamFinding] = []
        self._index = index = registration.index
        self._active = registration.active
        self._upstream = upstream
        self._source = source
        self._versions = _versions_of(index, upstream.name)
        everything = index.in_toolkit(upstream.name)
        self._is_taken = len(everything) > sum(len(each.all) for each in self._versions.values())
        self._serves_new = upstream.settings.trusted or (first_sight_is_look and not self._versions)
        self._keys: dict[tuple[Kind, str], str] = {
            (each.newest.tool.kind, each.newest.tool.upstream_name or ""): key for key, each in self._versions.items()
        }
        self._listed: set[str] = set()  # keys of what is offered now
        self._lost: dict[str, str] = {}  # keys of what is listed and yet not offered here, with the reason
        self._identities: set[tuple[Kind, str]] = set()
        self._claims = NameClaims()  # of what this list adds
        self._count, self._bytes = 0, sum(len(each.record.document) for v in self._versions.values() for each in v.all)
        self._outcome: dict[str, list[str]] = {name: [] for name in ("added", "changed", "activated", "held", "gone")}

    @property
    def outcome(self) -> SyncOutcome:
        """What the change is made of."""
        ids = {name: tuple(listed) for name, listed in self._outcome.items()}
        return SyncOutcome(**ids, withheld=tuple(each for each in self.findings if each.withheld))

    def take(self, definition: ForeignDefinition) -> None:
        """Take the next definition of the list."""
        known = self._keys.get(definition.identity) or self._reread_key(definition)
        if len(self._identities) >= MAX_DEFINITIONS or definition.identity in self._identities:
            twice = "it is listed twice" if definition.identity in self._identities else None
            why = twice or f"an upstream has at most {MAX_DEFINITIONS} definitions here"
            self.findings.append(definition.finding(refused=why))
            return
        if definition.tool is None:
            self.findings.append(definition.finding(tool_id=known))
            if known is not None:
                self._lost[known] = _UNREADABLE
            return
        self._identities.add(definition.identity)
        if not is_selected(definition, self._upstream.settings):
            if known is not None:
                self._lost[known] = _LEFT_OUT
            return
        name = self._name_of(definition, known)
        key = f"{self._upstream.name}.{name}"
        versions = self._versions.get(key) if known == key else None
        self._listed.add(key)
        if versions is None:
            self._add(definition, name)
        else:
            newest = versions.newest.tool
            completes = completed_arguments(definition, newest, completes=self._completes)
            uri = _kept_uri(definition, newest)
            tool = identified(definition, self._upstream, name, uri=uri, completes=completes)
            self._update(definition, tool, versions)
            self._note(definition, key)

    def finish(self, server: ToolEvent | None = None) -> None:
        """Withhold what the list does not offer any more, if it is the same for everybody."""
        removed = {each.record.id for each, _ in self.change.removed}
        for key, versions in self._versions.items():
            reason = self._lost.get(key) or (NOT_OFFERED if self._shared and key not in self._listed else None)
            if reason is not None and key not in self._listed:
                self._withhold(versions, reason)
            for each in versions.stray:
                self._remove(each, "another definition waits")
            for each in versions.old:
                if each.record.state in SERVED_STATES and each.record.id not in removed:
                    self._save(each, "inactive", "deactivated", {"reason": "a newer version took its place"})
        if server is not None:
            self.change.events.append(server)

    def _reread_key(self, definition: ForeignDefinition) -> str | None:
        """The key of a tool that was read again from its document, because its row was changed behind the hall's back.

        What its upstream calls it was lost with the row.
        """
        key = f"{self._upstream.name}.{own_name(definition, self._upstream.settings)}"
        found = self._versions.get(key)
        if found is None or found.newest.tool.upstream_name is not None or found.newest.tool.kind != definition.kind:
            return None
        return key

    # --- one definition -----------------------------------------------------------------------------------------------

    def _name_of(self, definition: ForeignDefinition, known: str | None) -> str:
        """The name within the toolkit: that which it had, unless the settings say another one now."""
        wanted = own_name(definition, self._upstream.settings)
        apart = other_name(wanted, definition)
        stated = None if known is None else self._versions[known].newest.record.tool
        if stated in (wanted, apart):
            return stated
        key = f"{self._upstream.name}.{wanted}"
        return apart if key in self._versions or key in self._listed else wanted

    def _add(self, definition: ForeignDefinition, name: str) -> None:
        completes = completed_arguments(definition, None, completes=self._completes)
        tool = identified(definition, self._upstream, name, completes=completes)
        conflict = self._conflict(tool)
        if conflict is not None and tool.resource is not None:
            rewritten = qualified_uri(tool.resource.uri, self._upstream.name)
            tool = identified(definition, self._upstream, name, uri=rewritten, completes=completes)
            conflict = self._conflict(tool)
        state: ToolState = "active" if self._serves_new else "quarantined"
        record = self._record(definition, tool, state)
        conflict = conflict or self._capacity_problem(len(record.document))
        if conflict is not None:
            self.findings.append(definition.finding(refused=conflict))
            return
        self._claims.claim(tool)
        self._put(tool, record, "registered", {"state": state})
        self._outcome["added"].append(str(tool.id))
        self._note(definition, str(tool.id))

    def _update(self, definition: ForeignDefinition, tool: Tool, versions: DefinitionVersions) -> None:
        pinned, waiting = versions.pinned, versions.waiting
        if pinned is None:
            if waiting is not None:
                self._update_unseen(definition, tool, waiting)
            return
        if is_same(pinned.tool, tool):
            self._reopen(pinned)
            if waiting is not None and self._shared:
                self._remove(waiting, "its upstream went back to the definition that is served")
        elif is_same(stated_part(pinned.tool), stated_part(tool)):
            self._replace(definition, tool, versions, _OPERATORS_CHANGE, at_once=True)
        elif waiting is not None and is_same(waiting.tool, tool):
            if self._is_served_at_once(pinned, waiting.tool):
                self._save(waiting, "active", "activated", {"reason": "its upstream is followed"})
                self._save(pinned, "inactive", "deactivated", {"reason": f"{waiting.record.version} took its place"})
                self._outcome["activated"].append(waiting.record.id)
            else:
                self._reopen(pinned)
        else:
            at_once = self._is_served_at_once(pinned, tool)
            self._replace(definition, tool, versions, "its upstream changed it", at_once=at_once)

    def _update_unseen(self, definition: ForeignDefinition, tool: Tool, waiting: IndexedTool) -> None:
        """Update a tool that nobody has looked at: its first version takes the new definition."""
        trusted = self._upstream.settings.trusted
        if is_same(waiting.tool, tool):
            if trusted:
                self._save(waiting, "active", "activated", {"reason": "its upstream is trusted"})
                self._outcome["activated"].append(waiting.record.id)
            return
        tool = msgspec.structs.replace(tool, id=waiting.tool.id)
        record = self._record(definition, tool, "active" if trusted else "quarantined", waiting)
        self._put(tool, record, "replaced", {"reason": "its upstream changed it"})
        self._outcome["changed"].append(str(tool.id))

    def _replace(
        self, definition: ForeignDefinition, tool: Tool, versions: DefinitionVersions, reason: str, *, at_once: bool
    ) -> None:
        """Register another version: served in place of the pinned one, or waiting beside it."""
        pinned, waiting = versions.pinned, versions.waiting
        if pinned is None:
            raise LookupError(f"{tool.id} has no version to replace")
        taken = (each.record.version for each in (*versions.old, *versions.stray))
        tool = msgspec.structs.replace(
            tool, id=msgspec.structs.replace(tool.id, version=version_after(pinned.tool, tool, taken))
        )
        replaced = waiting if waiting is not None and waiting.record.id == str(tool.id) else None
        state: ToolState = "quarantined"
        if at_once:
            state = "inactive" if pinned.record.state == "inactive" else "active"
        record = self._record(definition, tool, state, replaced)
        problem = self._capacity_problem(len(record.document))
        if problem is not None:  # nobody could look at the new one, and calls of the pinned one would reach it
            self.findings.append(definition.finding(tool_id=str(tool.id), refused=problem))
            self._lost[tool_key(tool)] = problem
            self._listed.discard(tool_key(tool))
            return
        detail: JsonObject = {"reason": reason, "after": pinned.record.version}
        if at_once:
            old = pinned.record
            record = msgspec.structs.replace(
                record, deprecated_at=old.deprecated_at, sunset=old.sunset, successor=old.successor
            )
            self._save(pinned, "inactive", "deactivated", {"reason": f"{tool.id.version} took its place"})
        else:
            self._reopen(pinned)
        self._put(tool, record, "replaced" if replaced else "registered", detail)
        if waiting is not None and replaced is None:
            self._remove(waiting, "its upstream changed it again")
        for each in versions.old[: max(0, len(versions.old) - MAX_OLD_VERSIONS + 1)]:
            self._remove(each, f"only the last {MAX_OLD_VERSIONS} versions are kept")
        self._outcome["changed"].append(str(tool.id))

    def _is_served_at_once(self, pinned: IndexedTool, tool: Tool) -> bool:
        settings = self._upstream.settings
        if settings.on_change != "follow" or pinned.record.state not in SERVED_STATES:
            return False
        return is_served_at_once(size_of(changes_between(pinned.tool, tool)), settings)

    def _reopen(self, pinned: IndexedTool) -> None:
        if pinned.record.state == "withheld":
            self._save(pinned, "active", "activated", {"reason": _OFFERED_AGAIN})
            self._outcome["activated"].append(pinned.record.id)

    def _withhold(self, versions: DefinitionVersions, reason: str) -> None:
        pinned, waiting = versions.pinned, versions.waiting
        if waiting is not None:
            self._remove(waiting, reason)
            if pinned is None:
                self._outcome["gone"].append(waiting.record.id)
        if pinned is not None and pinned.record.state == "active":
            self._save(pinned, "withheld", "withheld", {"reason": reason})
            self._outcome["gone"].append(pinned.record.id)

    # --- what stands in the way ---------------------------------------------------------------------------------------

    def _conflict(self, tool: Tool) -> str | None:
        """Why a tool cannot be registered beside what is there, or None."""
        toolkit = tool.id.toolkit
        if skeleton(toolkit) == skeleton(SEARCH_TOOL.toolkit) or self._active.has_code_toolkit(toolkit):
            return f"{toolkit!r} is served already, from code; give the upstream another name"
        if self._is_taken:
            return f"{toolkit!r} is registered already, from elsewhere; give the upstream another name"
        for claims in (self._index.name_claims, self._claims, self._active.code_claims):
            if (other := claims.conflict(tool)) is not None:
                return name_conflict(tool, other)
        return self._active.find_uri_conflict([tool])

    def _capacity_problem(self, size: int) -> str | None:
        if self._bytes + size > MAX_UPSTREAM_BYTES:
            return f"the definitions of one upstream may take {MAX_UPSTREAM_BYTES} bytes; leave some out with `only`"
        try:
            self._index.check_capacity(self._count + 1, self._bytes + size)
        except Malformed as full:
            return full.message
        self._count += 1
        self._bytes += size
        return None

    # --- records ------------------------------------------------------------------------------------------------------

    def _note(self, definition: ForeignDefinition, tool_id: str) -> None:
        if definition.findings:
            self.findings.append(definition.finding(tool_id=tool_id))

    def _record(
        self, definition: ForeignDefinition, tool: Tool, state: ToolState, replaced: IndexedTool | None = None
    ) -> ToolRecord:
        """The record of a definition; with `replaced`, it takes the place of that one under its id."""
        record = new_record(tool, DIALECT, document_of(definition, tool), 0, self._source)
        if replaced is None:
            return msgspec.structs.replace(record, state=state)
        old = replaced.record
        return msgspec.structs.replace(record, state=state, serial=old.serial, registered_at=old.registered_at)

    def _put(self, tool: Tool, record: ToolRecord, what: ToolEventKind, detail: JsonObject) -> None:
        """Save a definition that is new, or another one now."""
        event = self._event(record, what, detail)
        self.change.saved.append((IndexedTool(record, with_deprecation(tool, record)), event))
        if record.state == "active":
            self._outcome["activated"].append(record.id)
        elif record.state == "quarantined":
            self._outcome["held"].append(record.id)

    def _save(self, indexed: IndexedTool, state: ToolState, what: ToolEventKind, detail: JsonObject) -> None:
        record = msgspec.structs.replace(indexed.record, state=state, changed_at=self._source.at)
        self.change.saved.append((IndexedTool(record, indexed.tool), self._event(record, what, detail)))

    def _remove(self, indexed: IndexedTool, reason: str) -> None:
        event = self._event(indexed.record, "removed", {"reason": reason})
        self.change.removed.append((indexed, event))

    def _event(self, record: ToolRecord, what: ToolEventKind, detail: JsonObject) -> ToolEvent | None:
        if not self._budget.takes(record.key, self._source.at):
            return None
        return ToolEvent(at=self._source.at, by=self._source.by, id=record.id, what=what, detail=detail)


def _versions_of(index: RecordIndex, upstream: str) -> Mapping[str, DefinitionVersions]:
    """The versions of every tool of an upstream, by `Toolkit.tool`."""
    return {key: DefinitionVersions.of(each) for key, each in upstream_records(index, upstream).items()}


def upstream_records(index: RecordIndex, upstream: str) -> dict[str, list[IndexedTool]]:
    """The records of an upstream by `Toolkit.tool`; those of other origins are not its own."""
    found: dict[str, list[IndexedTool]] = {}
    for each in _own(index.in_toolkit(upstream), upstream):
        found.setdefault(each.record.key, []).append(each)
    return found


def _own(listed: Iterable[IndexedTool], upstream: str) -> Iterable[IndexedTool]:
    return (each for each in listed if (each.record.origin, each.record.origin_detail) == ("upstream", upstream))


def _kept_uri(definition: ForeignDefinition, known: Tool) -> str | None:
    """The URI by which a resource is known here, if it is not its own."""
    if known.resource is None or known.resource.uri == definition.upstream_name:
        return None
    return known.resource.uri
