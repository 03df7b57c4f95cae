"""RegistrationRules: which definitions may be registered beside those known; DeclarationPlanner: those of tool servers.

Checked are name collisions, capacity, semantic versioning (BrokenPromise) and the transitions between the states of a
registered tool. Rules read the records and change nothing. The planner tells which tools that a tool server declares
are new, changed or quarantined.
"""

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from toolhall.contracts.digest import compute_digests
from toolhall.contracts.semver import ChangeKind, DefinitionChange
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.errors import Malformed
from toolhall.model.names import SEARCH_TOOL, precedence, skeleton
from toolhall.model.tool import Tool
from toolhall.registration.active_tools import ActiveTools
from toolhall.registration.records import IndexedTool, RecordIndex, code_document
from toolhall.registry.registry import NameClaims, name_conflict
from toolhall.registry.snapshot import tool_key
from toolhall.stores.tools import ToolEventKind, ToolRecord, ToolState

if TYPE_CHECKING:
    from toolhall.contracts.release import ReleaseCheck

CONFUSABLE_NAME_RULE = "name/confusable"
SHARED_URI_RULE = "uri/shared"
KnownVersions: TypeAlias = Callable[[str], Sequence[Tool]]  # of a toolkit: all its tools in all versions
LifecycleAction: TypeAlias = Literal["activate", "deactivate"]
_TRANSITIONS: dict[LifecycleAction, tuple[frozenset[ToolState], ToolState, ToolEventKind]] = {
    "activate": (frozenset({"registered", "quarantined", "inactive"}), "active", "activated"),
    # Not quarantined ones: inactive tools count as reviewed, and could be activated without a review.
    "deactivate": (frozenset({"registered", "active", "withheld"}), "inactive", "deactivated"),
}


class BrokenPromise(BadDocument):
    """A version does not match its changes (semantic versioning); carries every change as a finding."""


class RegistrationRules:
    """Checks definitions against the records and the tools in code; changes nothing."""

    def __init__(self, index: RecordIndex, active: ActiveTools) -> None:
        self._index = index
        self._active = active

    def check_not_registered(self, records: Sequence[ToolRecord], tools: Sequence[Tool]) -> None:
        """Raise BrokenPromise if an id is registered with other content, Malformed if with the same."""
        check_content_unchanged(tools, self._versions)
        for record in records:
            if record.id in self._index:
                raise Malformed(f"{record.id} is registered already; raise its version, or remove it first")

    def check(
        self, records: Sequence[ToolRecord], tools: Sequence[Tool], behaviour: ChangeKind | None, *, complete: bool
    ) -> None:
        """Raise Malformed, BadDocument or BrokenPromise unless these tools may be registered."""
        for toolkit in {tool.id.toolkit for tool in tools}:
            if skeleton(toolkit) == skeleton(SEARCH_TOOL.toolkit):
                raise Malformed(f"{toolkit!r} is the hall's own name; register under another one")
            if any(each.record.origin == "upstream" for each in self._index.in_toolkit(toolkit)):
                raise Malformed(f"{toolkit!r} is the name of an upstream; register under another one")
            if self._active.has_code_toolkit(toolkit):
                raise Malformed(f"{toolkit!r} is served already, from code; register under another name")
        check_case_collisions(tools)
        check_name_collisions(tools, self._index.name_claims)
        check_code_name_collisions(tools, self._active.code_claims)
        if conflict := self._active.find_uri_conflict(tools):
            raise BadDocument([Finding("", SHARED_URI_RULE, conflict)])
        self._index.check_capacity(len(records), sum(map(len, {record.document for record in records})))
        check_version_spelling(tools, self._versions)
        check_version_bump(tools, self._versions, behaviour, complete=complete)

    def changed_code_tools(self, tools: Sequence[Tool], unversioned: Collection[str], *, complete: bool) -> list[Tool]:
        """Return the tools in code that are new or changed; raises BrokenPromise if a version does not match.

        Only earlier code is compared, no tools from outside; tools without a stated version are not checked.
        """
        changed = [tool for tool in tools if self.is_code_changed(tool)]
        stated = [tool for tool in changed if is_release_version(tool.id.version) and str(tool.id) not in unversioned]
        changed_versions = {(tool.id.toolkit, tool.id.version) for tool in stated}
        releases = [tool for tool in tools if (tool.id.toolkit, tool.id.version) in changed_versions]
        check_content_unchanged(stated, self._code_versions)
        check_version_spelling(stated, self._code_versions)
        check_version_bump(releases if complete else stated, self._code_versions, None, complete=complete)
        return changed

    def is_code_changed(self, tool: Tool) -> bool:
        """Return whether a tool in code differs from its record, or has none."""
        known = self._index.get(str(tool.id))
        return known is None or known.record.document != code_document(tool)

    def _code_versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._index.in_toolkit(toolkit) if listed.record.origin == "code"]

    def _versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._index.in_toolkit(toolkit)]


def is_release_version(version: str) -> bool:
    """Return whether a version is a release: a pre-release is held to nothing."""
    is_release, *_ = precedence(version)
    return is_release


def check_content_unchanged(new: Sequence[Tool], known: KnownVersions) -> None:
    """Raise BrokenPromise if a tool is known under the same version with other content."""
    for tool in new:
        before = next((each for each in known(tool.id.toolkit) if each.id == tool.id), None)
        if before is not None and compute_digests(before) != compute_digests(tool):
            result = _check_release([before], [tool])
            fix = f"{tool.id} is registered with other content; {_suggested_version(result, known(tool.id.toolkit))}"
            raise BrokenPromise([Finding("/version", "contract/changed", fix), *map(_finding, result.changes)])


def check_version_spelling(new: Sequence[Tool], known: KnownVersions) -> None:
    """Raise BrokenPromise for a version that is known in another spelling: `1.0`, `1.0.0`, `1.0.0+build` are equal."""
    for tool in new:
        for other in (*known(tool.id.toolkit), *new):
            same = other.id.toolkit == tool.id.toolkit and other.id.tool == tool.id.tool and other.id != tool.id
            if same and precedence(other.id.version) == precedence(tool.id.version):
                fix = f"{tool.id} is the same version as {other.id}; raise one of its three numbers"
                raise BrokenPromise([Finding("/version", "contract/same-version", fix)])


def check_version_bump(
    new: Sequence[Tool], known: KnownVersions, behaviour: ChangeKind | None, *, complete: bool
) -> None:
    """Raise BrokenPromise unless each version rises as its changes require.

    `complete` means that these are all tools of their toolkit: one that is missing was removed.
    """
    for toolkit, version in dict.fromkeys((tool.id.toolkit, tool.id.version) for tool in new):
        of_version = [tool for tool in new if (tool.id.toolkit, tool.id.version) == (toolkit, version)]
        versions = known(toolkit)
        for group in [of_version] if complete else [[tool] for tool in of_version]:
            names = {tool.id.tool for tool in group}
            others = [each for each in versions if complete or each.id.tool in names]
            _check_bump_after(_previous_release(version, others), group, behaviour, others)
            _check_bump_before(group, _next_release(version, others), others)


def _check_bump_after(
    old: Sequence[Tool], new: Sequence[Tool], behaviour: ChangeKind | None, known: Sequence[Tool]
) -> None:
    """Check the new version against the release before it."""
    result = _check_release(old, new, behaviour) if old else None
    if result is None or result.ok:
        return
    rise = f"from {old[0].id.version} to {new[0].id.version}"
    what = f"{rise} is too little for a {result.required} change; {_suggested_version(result, known)}"
    raise BrokenPromise([Finding("/version", "contract/bump", what), *map(_finding, result.changes)])


def _check_bump_before(new: Sequence[Tool], later: Sequence[Tool], known: Sequence[Tool]) -> None:
    """Check the release after the new version against it: a version may be registered below a newer one."""
    result = _check_release(new, later) if later else None
    if result is None or result.ok:
        return
    top = max((each.id.version for each in known), key=precedence)
    what = f"{later[0].id.version} is registered, and does not keep what this promises; write a version above {top}"
    raise BrokenPromise([Finding("/version", "contract/bump", what), *map(_finding, result.changes)])


def _suggested_version(result: "ReleaseCheck", known: Sequence[Tool]) -> str:
    """Return a hint which version to write."""
    if result.next is None:
        return "write a version that says so"
    versions = {each.id.version for each in known}
    if result.next in versions:
        return f"write a version above {max(versions, key=precedence)}"
    return f"write version {result.next} (or {result.next}-dev while you work on it)"


def _finding(change: DefinitionChange) -> Finding:
    return Finding(change.path, f"contract/{change.kind}", change.reason)


def _previous_release(version: str, known: Sequence[Tool]) -> list[Tool]:
    """Return the tools of the newest older release; pre-releases do not count."""
    older = [
        each.id.version for each in known if is_release_version(each.id.version) and _is_older(each.id.version, version)
    ]
    latest = max(older, key=precedence, default=None)
    return [tool for tool in known if tool.id.version == latest]


def _next_release(version: str, known: Sequence[Tool]) -> list[Tool]:
    """Return the tools of the oldest newer version, if this version is a release."""
    newer = (
        [each.id.version for each in known if _is_older(version, each.id.version)]
        if is_release_version(version)
        else []
    )
    first = min(newer, key=precedence, default=None)
    return [tool for tool in known if tool.id.version == first]


def _is_older(one: str, other: str) -> bool:
    return precedence(one) < precedence(other)


def check_case_collisions(tools: Sequence[Tool]) -> None:
    """Raise BadDocument if tools of one document differ only in upper and lower case."""
    counted = Counter(tool.id.tool.casefold() for tool in tools)
    colliding = sorted(tool.id.tool for tool in tools if counted[tool.id.tool.casefold()] > 1)
    if colliding:
        what = f"these names differ only in upper and lower case: {', '.join(colliding[:8])}; rename all but one"
        raise BadDocument([Finding("", CONFUSABLE_NAME_RULE, what)])


def check_name_collisions(tools: Sequence[Tool], known: NameClaims) -> None:
    """Raise BadDocument if a name looks like another tool's, or equals it in some dialect."""
    for tool in tools:
        other = known.conflict(tool)
        if other is not None:
            raise BadDocument([Finding("", CONFUSABLE_NAME_RULE, name_conflict(tool, other))])


def check_code_name_collisions(tools: Sequence[Tool], code_claims: NameClaims) -> None:
    """Check collisions with tools in code; names that differ only in letter case may be registered.

    Such a tool is refused when it is activated.
    """
    check_name_collisions([tool for tool in tools if not _differs_in_case_only(tool, code_claims)], code_claims)


def _differs_in_case_only(tool: Tool, code_claims: NameClaims) -> bool:
    other = code_claims.conflict(tool)
    if other is None or other.kind != tool.kind:
        return False
    return other.id.rpartition("@")[0].casefold() == tool_key(tool).casefold()


def next_state(action: LifecycleAction, record: ToolRecord) -> tuple[ToolState, ToolEventKind]:
    """Return the state after an action and the kind of its event; raises Malformed if it is not possible."""
    allowed, state, what = _TRANSITIONS[action]
    # Activating a deprecated tool revokes the deprecation.
    if record.state not in allowed and not (action == "activate" and record.deprecated_at is not None):
        raise Malformed(f"{record.id} is {record.state} already; there is nothing to {action}")
    return state, what


def check_reviewed(record: ToolRecord, reviewed_digest: str | None) -> None:
    """Raise Malformed unless a quarantined tool was reviewed in exactly this document."""
    if record.state == "quarantined" and reviewed_digest != record.document_digest:
        raise Malformed(
            f"{record.id} is quarantined: look at its text and its findings first ('toolhall tool show {record.id}'), "
            "and say which text you saw by its document digest"
        )


def _check_release(old: Sequence[Tool], new: Sequence[Tool], behaviour: ChangeKind | None = None) -> "ReleaseCheck":
    from toolhall.contracts.release import check_release  # lazy: the schema comparison; most halls never compare

    return check_release(old, new, behaviour)


class DeclarationPlan(msgspec.Struct, frozen=True):
    """The declared tools by what must be done with them."""

    new: list[IndexedTool] = []
    changed: list[IndexedTool] = []  # pre-releases, which may change under one version
    quarantined: dict[str, IndexedTool] = {}  # by id: declared tools that were not reviewed yet


class DeclarationPlanner:
    """Plans the registration of declared toolkits; leaves the index as it was."""

    def __init__(self, index: RecordIndex, rules: RegistrationRules) -> None:
        self._index = index
        self._rules = rules

    def plan(self, toolkits: Sequence[Sequence[IndexedTool]]) -> DeclarationPlan:
        """Check each toolkit against the index and the toolkits before it, and return what to do.

        Raises BrokenPromise, BadDocument or Malformed if one of them may not be registered.
        """
        plan = DeclarationPlan()
        with self._staged() as staged:
            for declared in toolkits:
                new, changed = self._plan_toolkit(declared)
                plan.new.extend(new)
                plan.changed.extend(changed)
                for each in (*new, *changed):
                    staged.append((each.record.id, self._known(each)))
                    self._index.put(each.record, each.tool)
                listed = [each for each in map(self._known, declared) if each is not None]
                plan.quarantined.update({each.record.id: each for each in listed if each.record.state == "quarantined"})
        return plan

    def current(self, ids: Iterable[str]) -> list[IndexedTool]:
        """Return these tools from the index, after they were saved."""
        return [listed for tool_id in ids if (listed := self._index.get(tool_id)) is not None]

    @contextmanager
    def _staged(self) -> Generator[list[tuple[str, IndexedTool | None]]]:
        """Undo changes to the index at the end: the list holds ids and what the index had before."""
        staged: list[tuple[str, IndexedTool | None]] = []
        try:
            yield staged
        finally:
            for tool_id, before in reversed(staged):
                if before is None:
                    self._index.remove(tool_id)
                else:
                    self._index.put(before.record, before.tool)

    def _plan_toolkit(self, declared: Sequence[IndexedTool]) -> tuple[list[IndexedTool], list[IndexedTool]]:
        """Return the new and the changed tools of one toolkit."""
        others = [each for each in declared if not self._is_known(each)]
        changed = [
            each for each in others if self._known(each) is not None and not is_release_version(each.record.version)
        ]
        new = [each for each in others if each not in changed]
        check_content_unchanged([each.tool for each in new], self._versions)
        self._check_same_tools(declared)
        if others:
            tools = [each.tool for each in declared]
            self._rules.check([each.record for each in new], tools, None, complete=True)
        return new, changed

    def _check_same_tools(self, declared: Sequence[IndexedTool]) -> None:
        """Check that a release has the tools it had when it was first declared: every replica gets every call."""
        first = declared[0].record
        before = {
            each.record.tool
            for each in self._index.in_toolkit(first.toolkit)
            if each.record.version == first.version and is_release_version(first.version)
        }
        now = {each.record.tool for each in declared}
        if before and before != now:
            names = ", ".join(sorted(before ^ now))
            fix = f"{first.toolkit}@{first.version} is known with other tools ({names}); raise its version"
            raise BrokenPromise([Finding("/tool/version", "contract/changed", fix)])

    def _is_known(self, declared: IndexedTool) -> bool:
        known = self._known(declared)
        return known is not None and known.record.digests == declared.record.digests

    def _known(self, declared: IndexedTool) -> IndexedTool | None:
        return self._index.get(declared.record.id) if declared.record.id in self._index else None

    def _versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._index.in_toolkit(toolkit)]
