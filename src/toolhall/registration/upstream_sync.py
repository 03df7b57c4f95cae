"""UpstreamSync: brings the definitions of upstreams into the registration, and has what waits for a look reviewed.

Theory of operation
-------------------
The records of an upstream's tools are those of all others: stored, versioned, served from the store when the hall
starts, whether or not their upstream can be reached. A sync compares a new list with them and writes the difference in
one change; a list that changes nothing writes nothing. What a person must look at is quarantined, under a version that
is computed from the change (upstream_changes.py), and one yes counts for exactly the set that was shown, which the
digest of a review names. Lists are read before the write lock is taken, a few definitions at a time, so that a list of
thousands delays no call.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from toolhall.concurrency import TimeSlices
from toolhall.contracts.semver import DefinitionChange
from toolhall.dialects import strict_json
from toolhall.dialects.findings import Finding
from toolhall.dialects.mcp.protocol import REVISIONS
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.text import visible_text
from toolhall.model.tool import Kind
from toolhall.model.upstream import Upstream, UpstreamListing
from toolhall.registration.active_tools import Hold
from toolhall.registration.records import IndexedTool, RegistrationSource, with_deprecation
from toolhall.registration.service import RecordChange, RegistrationService
from toolhall.registration.upstream_changes import (
    HELD_MESSAGE,
    ChangeSize,
    DefinitionVersions,
    changes_between,
    hold_for,
    size_of,
)
from toolhall.registration.upstream_definitions import DefinitionReader, ForeignDefinition, UpstreamFinding, shown_name
from toolhall.registration.upstream_plan import EventBudget, SyncOutcome, SyncPlanner, upstream_records
from toolhall.stores.tools import ToolEvent

DIGEST_PREFIX = "sha256-"
MAX_REVIEWED = 200  # definitions in one review
MAX_REVIEWED_BYTES = 2 * 1024 * 1024
_MAX_FINDINGS = 2_000  # that are kept of one upstream
_MAX_LINTED = 20  # findings of lint that are shown of one definition


class ReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    """One definition that waits for a look."""

    id: str
    kind: Kind
    upstream_name: str  # cleaned
    after: str | None  # the version that is served; None: nobody has looked at this tool yet
    size: ChangeSize | None  # of the change
    refused: bool  # whether calls are refused until then
    changes: tuple[DefinitionChange, ...] = ()
    findings: tuple[Finding, ...] = ()  # of lint
    text: str  # the definition, with characters that cannot be seen as their code points
    before: str | None = None  # the same of the version that is served
    document_digest: str


class UpstreamReview(msgspec.Struct, frozen=True, kw_only=True):
    """What waits of one upstream, as much as a person can look at; a yes names the digest, and counts for the items."""

    name: str
    digest: str
    items: tuple[ReviewItem, ...]
    more: int = 0  # that wait as well, and are shown after a yes to these


class UpstreamSync:
    """The definitions of all upstreams of one hall."""

    def __init__(self, registration: RegistrationService, clock: Callable[[], float], *, local: bool) -> None:
        """`local`: the profile in which a person who names an upstream has looked at it."""
        self._registration = registration
        self._clock = clock
        self._local = local
        self._upstreams: dict[str, Upstream] = {}
        self._readers: dict[str, DefinitionReader] = {}
        self._findings: dict[str, tuple[UpstreamFinding, ...]] = {}
        self._servers: dict[str, str | None] = {}  # the version that each server stated last
        self._budgets: dict[str, EventBudget] = {}
        self._counts: dict[str, tuple[int, int]] = {}  # what waits of each upstream, and at which state of the records
        self._holds: dict[tuple[str, ...], Hold | None] = {}  # by both records and the setting: a comparison is slow
        registration.active.hold_for = self._hold_for

    def configure(self, upstreams: Mapping[str, Upstream]) -> None:
        """Take the settings of all upstreams; what is held of calls follows them at once, before any sync."""
        changed = {name for name in {*self._upstreams, *upstreams} if _differ(self._upstreams, upstreams, name)}
        self._upstreams = dict(upstreams)
        for name in changed:
            self._reapply_waiting(name)

    async def apply(self, upstream: Upstream, listing: UpstreamListing) -> SyncOutcome:
        """Bring a whole list into the registration; raises Unavailable or Denied if that cannot be stored now."""
        if self._upstreams.get(upstream.name) != upstream:
            self._upstreams[upstream.name] = upstream
            self._reapply_waiting(upstream.name)
        definitions = await self._read(upstream.name, listing)
        planner: SyncPlanner | None = None

        async def plan() -> RecordChange:
            nonlocal planner
            if upstream.name not in self._upstreams:
                return RecordChange()  # it was removed while its list was read
            planner = SyncPlanner(
                self._registration,
                upstream,
                RegistrationSource("upstream", recorded_author(upstream.name), self._clock(), upstream.name),
                budget=self._budgets.setdefault(upstream.name, EventBudget()),
                first_sight_is_look=self._local and upstream.named_by_person,
                listing=listing,
            )
            slices = TimeSlices()
            for definition in definitions:
                await slices.pause()
                planner.take(definition)
            planner.finish(await self._server_event(upstream.name, listing))
            return planner.change

        await self._registration.change(plan, by_hall=True)
        if planner is None:
            return SyncOutcome()
        if listing.server_version is not None:
            self._servers[upstream.name] = shown_name(listing.server_version)
        self._findings[upstream.name] = tuple(planner.findings[:_MAX_FINDINGS])
        return planner.outcome

    def findings(self, name: str) -> tuple[UpstreamFinding, ...]:
        """What was mended or withheld in the last list of an upstream, since the hall started."""
        return self._findings.get(name, ())

    def waiting(self, name: str) -> int:
        """How many definitions of an upstream wait for a look; counted once for each state of the records."""
        changes = self._registration.index.changes
        counted = self._counts.get(name)
        if counted is None or counted[0] != changes:
            counted = self._counts[name] = changes, len(self._waiting(name))
        return counted[1]

    def review(self, name: str) -> UpstreamReview:
        """What waits of an upstream, with what changed and what lint says."""
        waiting = self._waiting(name)
        shown = _shown(waiting)
        items = tuple(self._item(versions) for versions in shown)
        return UpstreamReview(name=name, digest=_digest(shown), items=items, more=len(waiting) - len(shown))

    async def accept(self, name: str, digest: str, by: str) -> tuple[str, ...]:
        """Serve exactly what a review showed, in one change; returns the ids. Raises Malformed if it is another set."""
        accepted: list[str] = []

        async def plan() -> RecordChange:
            waiting = _shown(self._waiting(name))
            if not waiting or _digest(waiting) != digest:
                fix = f"look again with 'toolhall upstream review {name}'"
                raise Malformed(f"what waits of {name} is not what was shown: it changed meanwhile; {fix}")
            change = RecordChange()
            for versions in waiting:
                self._accept(versions, by, digest, change)
            accepted.extend(each.record.id for versions in waiting if (each := versions.waiting) is not None)
            return change

        await self._registration.change(plan, by_hall=True)  # the process that registers lists takes the yes as well
        return tuple(accepted)

    async def forget(self, name: str, by: str) -> int:
        """Remove all tools of an upstream that was removed; their history stays. Returns how many there were."""

        async def plan() -> RecordChange:
            self._upstreams.pop(name, None)  # under the lock: a list that is being read adds nothing after this
            own = [each for listed in self._own(name).values() for each in listed]
            detail: JsonObject = {"reason": f"the upstream {name} was removed"}
            return RecordChange(
                removed=[
                    (each, ToolEvent(at=self._clock(), by=by, id=each.record.id, what="removed", detail=detail))
                    for each in own
                ]
            )

        change = await self._registration.change(plan)
        for remembered in (self._readers, self._findings, self._servers, self._counts):
            remembered.pop(name, None)
        return len(change.removed)

    async def _read(self, name: str, listing: UpstreamListing) -> list[ForeignDefinition]:
        reader = self._readers.setdefault(name, DefinitionReader())
        definitions: list[ForeignDefinition] = []
        slices = TimeSlices()
        for definition in reader.read(listing):
            definitions.append(definition)
            await slices.pause()  # by time: one definition may cost as much as a hundred others
        return definitions

    async def _server_event(self, name: str, listing: UpstreamListing) -> ToolEvent | None:
        """The event of a server that states another version than last time, also before a restart."""
        stated = None if listing.server_version is None else shown_name(listing.server_version)
        if name not in self._servers:
            last = await self._registration.history(name, 1)
            before = last[0].detail.get("to") if last else None
            self._servers[name] = before if isinstance(before, str) else None
        before = self._servers[name]
        if stated is None or stated == before:
            return None
        detail: JsonObject = {
            "from": before,
            "to": stated,
            "server": shown_name(listing.server_name or ""),
            "revision": listing.revision if listing.revision in REVISIONS else shown_name(listing.revision),
        }
        return ToolEvent(at=self._clock(), by=recorded_author(name), id=name, what="server changed", detail=detail)

    # --- what waits ---------------------------------------------------------------------------------------------------

    def _own(self, name: str) -> dict[str, list[IndexedTool]]:
        return upstream_records(self._registration.index, name)

    def _waiting(self, name: str) -> list[DefinitionVersions]:
        """The tools of which a definition waits, by id; without those that an operator has switched off."""
        every = map(DefinitionVersions.of, self._own(name).values())
        shown = [each for each in every if each.waiting is not None and not _is_off(each)]
        return sorted(shown, key=lambda each: each.newest.record.key)

    def _item(self, versions: DefinitionVersions) -> ReviewItem:
        pinned, waiting = versions.pinned, versions.waiting
        if waiting is None:
            raise LookupError("nothing waits")
        changes = () if pinned is None else tuple(changes_between(pinned.tool, waiting.tool))
        hold = None if pinned is None else self._hold_for(pinned)
        return ReviewItem(
            id=waiting.record.id,
            kind=waiting.tool.kind,
            upstream_name=shown_name(waiting.tool.upstream_name or ""),
            after=None if pinned is None else pinned.record.version,
            size=None if pinned is None else size_of(changes),
            refused=hold is not None and hold.message is not None,
            changes=changes,
            findings=_lint(waiting),
            text=_visible(waiting),
            before=None if pinned is None else _visible(pinned),
            document_digest=waiting.record.document_digest,
        )

    def _accept(self, versions: DefinitionVersions, by: str, digest: str, change: RecordChange) -> None:
        pinned, waiting = versions.pinned, versions.waiting
        if waiting is None:
            return
        now = self._clock()
        record = msgspec.structs.replace(waiting.record, state="active", changed_at=now)
        if pinned is not None:
            old = pinned.record
            record = msgspec.structs.replace(
                record, deprecated_at=old.deprecated_at, sunset=old.sunset, successor=old.successor
            )
            detail: JsonObject = {"reason": f"{record.version} took its place"}
            change.saved.append((
                IndexedTool(msgspec.structs.replace(old, state="inactive", changed_at=now), pinned.tool),
                ToolEvent(at=now, by=by, id=old.id, what="deactivated", detail=detail),
            ))  # fmt: skip
        active = IndexedTool(record, with_deprecation(waiting.tool, record))
        self._registration.active.check_conflict(active)
        detail = {"document": waiting.record.document_digest, "review": digest}
        change.saved.append((active, ToolEvent(at=now, by=by, id=record.id, what="activated", detail=detail)))

    def _hold_for(self, indexed: IndexedTool) -> Hold | None:
        """What is refused of the calls of a served tool."""
        versions = DefinitionVersions.of(self._registration.index.versions(indexed.record.key))
        pinned, waiting = versions.pinned, versions.waiting
        if pinned is None or pinned.record.id != indexed.record.id:
            return Hold(HELD_MESSAGE)  # an older version that a crash has left active
        if waiting is None:
            return None
        known = self._upstreams.get(indexed.record.origin_detail)
        on_change: Literal["keep", "hold", "follow"] = "keep" if known is None else known.settings.on_change
        key = (*pinned.record.digests, *waiting.record.digests, on_change)
        if key not in self._holds:
            if len(self._holds) >= _MAX_FINDINGS:
                self._holds.clear()
            self._holds[key] = hold_for(pinned.tool, waiting.tool, on_change)
        return self._holds[key]

    def _reapply_waiting(self, name: str) -> None:
        keys = [key for key, each in self._own(name).items() if DefinitionVersions.of(each).waiting is not None]
        if keys:
            self._registration.reapply(keys)


def recorded_author(name: str) -> str:
    """The author of what an upstream registers; no caller has such an id."""
    return f"upstream:{name}"


def _differ(before: Mapping[str, Upstream], after: Mapping[str, Upstream], name: str) -> bool:
    return before.get(name) != after.get(name)


def _is_off(versions: DefinitionVersions) -> bool:
    return versions.pinned is not None and versions.pinned.record.state == "inactive"


def _shown(waiting: list[DefinitionVersions]) -> list[DefinitionVersions]:
    """The first of what waits: at most so many, and so many bytes of documents, but at least one."""
    size, shown = 0, waiting[:MAX_REVIEWED]
    for number, versions in enumerate(shown):
        size += len(versions.waiting.record.document) if versions.waiting is not None else 0
        if size > MAX_REVIEWED_BYTES:
            return shown[: max(1, number)]
    return shown


def _digest(waiting: list[DefinitionVersions]) -> str:
    """The digest over the ids and document digests of what waits, and over what each would replace."""
    lines = [
        f"{each.waiting.record.id} {each.waiting.record.document_digest} {each.pinned.record.id if each.pinned else ''}"
        for each in waiting
        if each.waiting is not None
    ]
    return DIGEST_PREFIX + hashlib.sha256("\n".join(lines).encode(errors="replace")).hexdigest()


def _visible(indexed: IndexedTool) -> str:
    """The document of a tool for a person, indented."""
    formatted = msgspec.json.format(indexed.record.document, indent=2)
    return visible_text(formatted.decode(errors="replace"))


def _lint(indexed: IndexedTool) -> tuple[Finding, ...]:
    from toolhall.dialects.lint.linter import Linter  # lazy: the rules of lint, only for a review

    linter = Linter[None](indexed.record.dialect)
    document = strict_json.decode(indexed.record.document)
    return tuple(linter.lint(document, indexed.record.id, None))[:_MAX_LINTED]
