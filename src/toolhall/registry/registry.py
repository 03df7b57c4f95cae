"""Registry: adds and removes tools by replacing the snapshot, keeps their names apart, and notifies of RegistryChange.

A change is applied as a whole or not at all; Conflict names both tools whose names collide. No two tools may have names
that any dialect or reader could confuse (NameClaims): names are compared without letter case, accents and confusable
characters, and all versions of a tool share one claim. DialectNames finds a tool by its name in a dialect. Subscribers
are called in the event loop in which they subscribed.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from toolhall.model.json import Json
from toolhall.model.names import (
    oxp_id_part,
    oxp_version,
    parse_version_range,
    precedence,
    published_name,
    published_name_problem,
    skeleton,
)
from toolhall.model.tool import Kind, Tool
from toolhall.model.uri_template import UriTemplate
from toolhall.registry.snapshot import Entry, Snapshot, templates_as_tools, tool_key

DEFAULT_PAGE_SIZE = 100
RETIRED = "retired"  # its sunset has come
UNSERVED = "not served"  # it is active, but no code or toolkit here has it
NOT_OFFERED = "not offered"  # it is active, and its upstream is switched off, or this hall does not have it
T = TypeVar("T")
# Ignores the order of members; tells 1, 1.0 and true apart, which are equal in Python.
_canonical = msgspec.json.Encoder(order="deterministic").encode
DialectName: TypeAlias = tuple[str, ...]
MAX_REMEMBERED = 10_000  # answers of DialectNames: callers choose the versions, which have many spellings


class Claimant(NamedTuple):
    """What holds a name: a tool, resource or prompt, in some version."""

    id: str
    toolkit: str
    tool: str
    kind: Kind

    @classmethod
    def of(cls, tool: Tool) -> "Claimant":
        """Return what claims the names of a definition."""
        return cls(str(tool.id), tool.id.toolkit, tool.id.tool, tool.kind)

    def is_version_of(self, other: "Claimant") -> bool:
        """Whether both are versions of the same thing."""
        return self[1:] == other[1:]


class NameClaims:
    """The names in use; all versions of a tool share its claims."""

    def __init__(self) -> None:
        # By claim and id: `a.b`+`c` and `a`+`b.c` are two tools, and so are a tool and a resource of one id.
        self._holders: dict[str, dict[str, Claimant]] = {}

    def conflict(self, tool: Tool) -> Claimant | None:
        """Return another tool, resource or prompt that holds one of this one's claims."""
        own = Claimant.of(tool)
        holders = (holder for claim in name_claims(tool) for holder in self._holders.get(claim, {}).values())
        return next((holder for holder in holders if not holder.is_version_of(own)), None)

    def claim(self, tool: Tool) -> None:
        """Add the claims of one version."""
        for claim in name_claims(tool):
            self._holders.setdefault(claim, {})[str(tool.id)] = Claimant.of(tool)

    def release(self, tool: Tool) -> None:
        """Release the claims of one version."""
        for claim in set(name_claims(tool)):
            del self._holders[claim][str(tool.id)]
            if not self._holders[claim]:
                del self._holders[claim]


class DialectNaming(msgspec.Struct, frozen=True):
    """How a dialect makes a tool's name, and formats names and versions."""

    name_parts: Callable[[Tool], DialectName]
    format_name: Callable[[DialectName], str] = ".".join
    format_version: Callable[[str], str] = str


DIALECT_NAMINGS: Mapping[str, DialectNaming] = {
    "mcp": DialectNaming(lambda tool: (tool.name,)),
    "machine": DialectNaming(lambda tool: (tool.id.toolkit, tool.id.tool)),
    "hub": DialectNaming(lambda tool: (tool.id.toolkit, tool.id.tool)),
    # OXP allows fewer characters in ids, and only three numbers in versions.
    "oxp": DialectNaming(
        lambda tool: (oxp_id_part(tool.id.toolkit), oxp_id_part(tool.id.tool)), format_version=oxp_version
    ),
    "openapi": DialectNaming(lambda tool: (tool.id.toolkit, tool.id.tool), format_name="/".join),
}


class DialectNames:
    """The names of one snapshot's tools in every dialect; each dialect is built on first use."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._by_dialect: dict[str, dict[DialectName, list[Entry]]] = {}
        self._found: dict[tuple[str, DialectName, str | None], Entry] = {}

    def find(self, dialect: str, name: DialectName, version: str | None = None) -> Entry | None:
        """Find a tool by its name in a dialect: the listed version, or the newest in a version range."""
        key = (dialect, name, version)
        entry = self._found.get(key)
        if entry is None:
            entry = self._find(dialect, name, version)
            if entry is not None:  # what is found has a short spelling: a version that exists, or a range
                if len(self._found) >= MAX_REMEMBERED:
                    self._found.clear()
                self._found[key] = entry
        return entry

    def _find(self, dialect: str, name: DialectName, version: str | None) -> Entry | None:
        versions = self._by_name(dialect).get(name, [])
        if version is None:
            return self.snapshot.resolve(tool_key(versions[0].tool), None) if versions else None
        format_version, version_range = DIALECT_NAMINGS[dialect].format_version, parse_version_range(version)
        exact = (entry for entry in versions if format_version(entry.tool.id.version) == version)
        in_range = (entry for entry in versions if version_range.accepts(entry.tool.id.version))
        return next(exact, None) or next(in_range, None)

    def _by_name(self, dialect: str) -> dict[DialectName, list[Entry]]:
        if dialect not in self._by_dialect:
            found: dict[DialectName, list[Entry]] = {}
            for entry in self.snapshot.entries:
                found.setdefault(DIALECT_NAMINGS[dialect].name_parts(entry.tool), []).append(entry)
            for entries in found.values():
                entries.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
            self._by_dialect[dialect] = found
        return self._by_dialect[dialect]


def name_claims(tool: Tool) -> tuple[str, ...]:
    """Return the forms of a tool's names that no other tool may have; all versions share them.

    Names that differ only in letter case, accents or confusable characters have equal forms. The ids of tools,
    resources and prompts are one space, so that a grant for `Toolkit.name` means one thing; their other names are not.
    """
    in_oxp = (
        f"oxp:{oxp_id_part(tool.id.toolkit)}.{oxp_id_part(tool.id.tool)}".casefold()
    )  # OXP ids allow fewer characters
    if tool.resource is not None:
        shape = f"uri:{UriTemplate(tool.resource.uri).shape}"
        if not tool.resource.is_template:
            return skeleton(tool_key(tool)), shape
        published = published_name(tool.id.toolkit, tool.id.tool)  # a template may be listed among the tools
        return skeleton(tool_key(tool)), shape, published.casefold(), skeleton(published), in_oxp
    if tool.prompt is not None:
        return skeleton(tool_key(tool)), f"prompt:{tool.name.casefold()}"
    return tool.name.casefold(), skeleton(tool_key(tool)), skeleton(tool.stated or tool.name), in_oxp


def name_conflict(tool: Tool, other: Claimant) -> str:
    """Return the message for a tool, resource or prompt whose names collide with those of another."""
    if tool.kind != other.kind:
        return (
            f"the {tool.kind} {tool.id} and the {other.kind} {other.id} have one name: ids of tools, resources and "
            "prompts are one space; rename one of them, in code with name=..."
        )
    if tool.resource is not None:
        return (
            f"{tool.id} has a URI, the id or the name of {other.id}, or a template that differs only in the names of "
            "its variables; change one of them, in code with @resource(uri)"
        )
    return (
        f"{tool.id} would be published as {tool.name!r}, which some dialect cannot tell apart from {other.id}; "
        "rename one of them, in code with @tool(name=...)"
    )


def dialect_names(tool: Tool) -> dict[str, str]:
    """Return a tool's name in each dialect."""
    return {dialect: naming.format_name(naming.name_parts(tool)) for dialect, naming in DIALECT_NAMINGS.items()}


class Conflict(ValueError):
    """A tool cannot be registered beside one that is there; the message names both."""


class InactiveTool(msgspec.Struct, frozen=True):
    """A tool that is not served, and its state."""

    tool: Tool
    state: str


class InactiveTools:
    """The tools that are not served, found like served ones: by id, name and version range."""

    def __init__(self) -> None:
        self._by_id: dict[str, InactiveTool] = {}
        self._by_name: dict[str, dict[str, InactiveTool]] = {}  # key or published name; then version

    def put(self, tool: Tool, state: str) -> None:
        """Add a tool with its state."""
        inactive = self._by_id[str(tool.id)] = InactiveTool(tool, state)
        for name in _names(tool):
            self._by_name.setdefault(name, {})[tool.id.version] = inactive

    def drop(self, tool_id: str) -> None:
        """Remove a tool that is served now, or was deleted."""
        inactive = self._by_id.pop(tool_id, None)
        if inactive is None:
            return
        for name in _names(inactive.tool):
            versions = self._by_name[name]
            del versions[inactive.tool.id.version]
            if not versions:
                del self._by_name[name]

    def find(self, name: str) -> InactiveTool | None:
        """Return the tool that a call by this name would reach if it were served."""
        if name in self._by_id:
            return self._by_id[name]
        # The name of a toolkit may contain an @.
        key, _, version = (name, "", "") if name in self._by_name else name.rpartition("@")
        version_range = parse_version_range(version or None)
        matching = {each: tool for each, tool in self._by_name.get(key, {}).items() if version_range.accepts(each)}
        return matching[max(matching, key=precedence)] if matching else None


def _names(tool: Tool) -> set[str]:
    return {f"{tool.id.toolkit}.{tool.id.tool}", tool.name}


class RegistryChange:
    """A change from one snapshot to the next; caches what its listeners compute about it."""

    def __init__(self, before: Snapshot, after: Snapshot, *, visibility_only: bool = False) -> None:
        self.before = before
        self.after = after
        self.visibility_only = visibility_only  # the tools are the same, but callers may see others
        self._cache: dict[Hashable, Any] = {}

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a value about this change, computed once per key."""
        if key not in self._cache:
            self._cache[key] = compute()
        answer: T = self._cache[key]
        return answer


def lists_differ(before: Mapping[str, Tool], after: Mapping[str, Tool], describe: Callable[[str, Tool], Json]) -> bool:
    """Return whether two lists of tools by name differ in what `describe` returns; their order does not count.

    Tools are compared by description: an equal definition that was compiled again is another object but no change.
    """
    if before.keys() != after.keys():
        return True
    return any(
        before[name] is not tool and _canonical(describe(name, before[name])) != _canonical(describe(name, tool))
        for name, tool in after.items()
    )


def tool_list_changed(change: RegistryChange) -> bool:
    """Return whether any listed tool, resource or prompt was added, removed or changed."""
    return change.cached(
        tool_list_changed, lambda: lists_differ(_listed_tools(change.before), _listed_tools(change.after), _whole_tool)
    )


def _listed_tools(snapshot: Snapshot) -> dict[str, Tool]:
    beside = (*snapshot.resources.listed, *snapshot.prompts.listed)
    files = {tool.resource.uri: tool for tool in snapshot.resources.shown if tool.resource and tool.resource.template}
    tools = {entry.tool.name: entry.tool for entry in snapshot.listed}
    return tools | {entry.id: entry.tool for entry in beside} | files


def _whole_tool(name: str, tool: Tool) -> Json:  # noqa: ARG001 - the tool contains its name
    return tool


class Registry:
    """The served tools: holds the current snapshot and replaces it in one step, so that no call sees half a change."""

    def __init__(self, page_size: int = DEFAULT_PAGE_SIZE, *, resources_as_tools: bool = False) -> None:
        self._page_size = page_size
        self.resources_as_tools = resources_as_tools  # whether URI templates are listed among the tools
        self._listeners: dict[Callable[[], None], _Subscription] = {}
        self._lock = threading.Lock()
        self._name_claims = NameClaims()
        self.inactive = InactiveTools()
        self.snapshot = Snapshot((), page_size)
        self._dialect_names = DialectNames(self.snapshot)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools, all or none; raises Conflict. May be called from any thread."""
        self.change(entries)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        found = self.snapshot.find_any(name)
        if found is not None:
            self.change(removed_ids=(found.id,))
        return found is not None

    def change(self, entries: Iterable[Entry] = (), removed_ids: Collection[str] = ()) -> None:
        """Remove the tools with these ids and add others in one step, all or none; raises Conflict."""
        with self._lock:
            current = self.snapshot.all_entries
            removed = [entry for entry in current if entry.id in removed_ids] if removed_ids else []
            kept = [entry for entry in current if entry.id not in removed_ids] if removed else []
            added = self._swap_claims(removed, list(entries))
            changed = self._swap((*(kept if removed else current), *added))
        self._notify(changed)

    def list_files_again(self) -> None:
        """Make a snapshot of the same entries, because the files that some of them list are others now."""
        with self._lock:
            changed = self._replace(self.snapshot.all_entries)
        self._notify(changed)

    @property
    def has_listeners(self) -> bool:
        """Whether anybody would be told of a change."""
        return bool(self._listeners)

    def find_conflict(self, entry: Entry) -> str | None:
        """Return why a tool cannot be added, or None; other versions of it do not count."""
        with self._lock:
            try:
                _check_conflict(entry, (), self._name_claims)
            except Conflict as conflict:
                return str(conflict)
        return None

    @property
    def dialect_names(self) -> DialectNames:
        """The names of the current tools in each dialect."""
        if self._dialect_names.snapshot is not self.snapshot:
            self._dialect_names = DialectNames(self.snapshot)
        return self._dialect_names

    def subscribe(
        self, listener: Callable[[], None], is_relevant: Callable[[RegistryChange], bool] = tool_list_changed
    ) -> Callable[[], None]:
        """Call `listener` after every relevant change, in the loop that runs now, if any; returns an unsubscriber.

        A change that is made in that loop calls it at once, before `change` returns.
        """
        self._listeners[listener] = _Subscription(_running_loop(), is_relevant)

        def unsubscribe() -> None:
            self._listeners.pop(listener, None)

        return unsubscribe

    def notify_visibility_changed(self) -> None:
        """Notify subscribers that callers may see other tools now."""
        self._notify(RegistryChange(self.snapshot, self.snapshot, visibility_only=True))

    def _swap_claims(self, removed: list[Entry], added: list[Entry]) -> list[Entry]:
        """Release the names of removed tools and claim those of added ones; on Conflict, undo everything."""
        for entry in removed:
            self._name_claims.release(entry.tool)
        ids = (
            {entry.id for entry in self.snapshot.all_entries}.difference(entry.id for entry in removed)
            if added
            else set()
        )
        claimed: list[Entry] = []
        try:
            for entry in added:
                _check_conflict(entry, ids, self._name_claims)
                self._name_claims.claim(entry.tool)
                ids.add(entry.id)
                claimed.append(entry)
        except Conflict:
            for entry in claimed:
                self._name_claims.release(entry.tool)
            for entry in removed:
                self._name_claims.claim(entry.tool)
            raise
        return claimed

    def _swap(self, entries: tuple[Entry, ...]) -> RegistryChange | None:
        return None if entries == self.snapshot.all_entries else self._replace(entries)

    def _replace(self, entries: tuple[Entry, ...]) -> RegistryChange:
        listed = (*entries, *templates_as_tools(entries)) if self.resources_as_tools else entries
        change = RegistryChange(self.snapshot, Snapshot(listed, self._page_size))
        self.snapshot = change.after
        return change

    def _notify(self, change: RegistryChange | None) -> None:
        if change is None:
            return
        here = _running_loop()
        for listener, (loop, is_relevant) in tuple(self._listeners.items()):
            if not is_relevant(change):
                continue
            if loop is None or loop is here:
                listener()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(listener)


class _Subscription(NamedTuple):
    """The loop in which a listener is called, and which changes it is called for."""

    loop: asyncio.AbstractEventLoop | None
    is_relevant: Callable[[RegistryChange], bool]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _check_conflict(entry: Entry, known_ids: Collection[str], claims: NameClaims) -> None:
    if problem := published_name_problem(entry.tool.name):
        raise Conflict(problem)
    other = claims.conflict(entry.tool)
    if entry.id in known_ids and (other is None or other.kind == entry.tool.kind):
        raise Conflict(f"{entry.id} is registered already; remove it first, or raise its version")
    if other is not None:
        raise Conflict(name_conflict(entry.tool, other))
