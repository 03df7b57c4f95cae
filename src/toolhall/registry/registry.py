"""Registry: adds and removes tools by replacing the snapshot, and notifies subscribers of each RegistryChange.

A change is applied as a whole or not at all; Conflict names both tools whose names collide. Subscribers are called in
the event loop in which they subscribed.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from toolhall.model.json import Json
from toolhall.model.names import published_name_problem
from toolhall.model.tool import Tool
from toolhall.model.versions import parse_version_range, precedence
from toolhall.registry.naming import DialectNames, NameClaims, name_conflict
from toolhall.registry.snapshot import Entry, Snapshot

RETIRED = "retired"  # its last day is over
UNSERVED = "not served"  # it is active, but nothing here brings it


class InactiveTool(msgspec.Struct, frozen=True):
    """A tool that is held back, and the state that it is in."""

    tool: Tool
    state: str


class InactiveTools:
    """By id, by name and by range of versions, as calls ask for tools."""

    def __init__(self) -> None:
        self._by_id: dict[str, InactiveTool] = {}
        self._by_name: dict[str, dict[str, InactiveTool]] = {}  # key or published name; then version

    def put(self, tool: Tool, state: str) -> None:
        """From now on this tool is held back in this state."""
        reason = self._by_id[str(tool.id)] = InactiveTool(tool, state)
        for name in _names(tool):
            self._by_name.setdefault(name, {})[tool.id.version] = reason

    def drop(self, tool_id: str) -> None:
        """It is served, or gone."""
        reason = self._by_id.pop(tool_id, None)
        if reason is None:
            return
        for name in _names(reason.tool):
            versions = self._by_name[name]
            del versions[reason.tool.id.version]
            if not versions:
                del self._by_name[name]

    def find(self, name: str) -> InactiveTool | None:
        """What a call by this name would have reached."""
        if name in self._by_id:
            return self._by_id[name]
        # A toolkit may have an @ of its own.
        key, _, version = (name, "", "") if name in self._by_name else name.rpartition("@")
        asked = parse_version_range(version or None)
        fitting = {each: reason for each, reason in self._by_name.get(key, {}).items() if asked.accepts(each)}
        return fitting[max(fitting, key=precedence)] if fitting else None


def _names(tool: Tool) -> set[str]:
    return {f"{tool.id.toolkit}.{tool.id.tool}", tool.name}


T = TypeVar("T")
# The order of members says nothing; 1, 1.0 and true are three values, which Python's own comparison takes for one.
_canonical = msgspec.json.Encoder(order="deterministic").encode


class RegistryChange:
    """Handed to everyone who listens; what one of them finds out about it, the others need not."""

    def __init__(self, before: Snapshot, after: Snapshot, *, visibility_only: bool = False) -> None:
        self.before = before
        self.after = after
        self.visibility_only = visibility_only  # the tools are the same, but who sees which may not be
        self._cache: dict[Hashable, Any] = {}

    def cached(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The answer to a question about this change, found when it is first asked."""
        if key not in self._cache:
            self._cache[key] = compute()
        answer: T = self._cache[key]
        return answer


def lists_differ(before: Mapping[str, Tool], after: Mapping[str, Tool], describe: Callable[[str, Tool], Json]) -> bool:
    """Whether two lists, by name, say anything different; their order is no difference.

    Compared is what is said of the tools: the same definition compiled again is another object and no change.
    """
    if before.keys() != after.keys():
        return True
    return any(
        before[name] is not tool and _canonical(describe(name, before[name])) != _canonical(describe(name, tool))
        for name, tool in after.items()
    )


def tool_list_changed(change: RegistryChange) -> bool:
    """Whether the newest versions changed, in anything that is known of them."""
    return change.cached(
        tool_list_changed, lambda: lists_differ(_listed_tools(change.before), _listed_tools(change.after), _whole_tool)
    )


def _listed_tools(snapshot: Snapshot) -> dict[str, Tool]:
    return {entry.tool.name: entry.tool for entry in snapshot.listed}


def _whole_tool(name: str, tool: Tool) -> Json:  # noqa: ARG001 - the name is one of the things
    return tool


DEFAULT_PAGE_SIZE = 100


class Conflict(ValueError):
    """A tool that cannot be registered beside those already there; the message names both."""


class Registry:
    """Holds the current snapshot; a change swaps it in one step, so a call never sees half of one."""

    def __init__(self, page_size: int = DEFAULT_PAGE_SIZE) -> None:
        self._page_size = page_size
        self._listeners: dict[Callable[[], None], _Subscription] = {}
        self._lock = threading.Lock()
        self._name_claims = NameClaims()
        self.inactive = InactiveTools()
        self.snapshot = Snapshot((), page_size)
        self._dialect_names = DialectNames(self.snapshot)

    def add(self, entries: Iterable[Entry]) -> None:
        """Add tools, all or none; raises Conflict. A tool in a thread may do so too."""
        self.change(entries)

    def remove(self, name: str) -> bool:
        """Remove a tool by its published name or id; False if there is none."""
        found = self.snapshot.find(name)
        if found is not None:
            self.change(removed_ids=(found.id,))
        return found is not None

    def change(self, entries: Iterable[Entry] = (), removed_ids: Collection[str] = ()) -> None:
        """In one step, remove the tools with these ids and add others, all or none; raises Conflict."""
        with self._lock:
            gone = [entry for entry in self.snapshot.entries if entry.id in removed_ids] if removed_ids else []
            kept = [entry for entry in self.snapshot.entries if entry.id not in removed_ids] if gone else []
            added = self._swap_claims(gone, list(entries))
            changed = self._swap((*(kept if gone else self.snapshot.entries), *added))
        self._notify(changed)

    def find_conflict(self, entry: Entry) -> str | None:
        """Why this tool could not be added beside those that are there, or None; its own versions do not matter."""
        with self._lock:
            try:
                _check_conflict(entry, (), self._name_claims)
            except Conflict as conflict:
                return str(conflict)
        return None

    @property
    def dialect_names(self) -> DialectNames:
        """What each dialect calls the tools that are there now."""
        if self._dialect_names.snapshot is not self.snapshot:
            self._dialect_names = DialectNames(self.snapshot)
        return self._dialect_names

    def subscribe(
        self, listener: Callable[[], None], is_relevant: Callable[[RegistryChange], bool] = tool_list_changed
    ) -> Callable[[], None]:
        """Call `listener` after every change that concerns it, in the loop that runs now, if one does.

        In that loop it is called at once, before whoever made the change goes on. Returns how to end that.
        """
        self._listeners[listener] = _Subscription(_running_loop(), is_relevant)

        def end() -> None:
            self._listeners.pop(listener, None)

        return end

    def notify_visibility_changed(self) -> None:
        """Tell whoever listens that who sees which tools may be another now."""
        self._notify(RegistryChange(self.snapshot, self.snapshot, visibility_only=True))

    def _swap_claims(self, gone: list[Entry], added: list[Entry]) -> list[Entry]:
        """Let the claims of some go and take those of others; if one cannot be had, everything is as it was."""
        for entry in gone:
            self._name_claims.release(entry.tool)
        there = {entry.id for entry in self.snapshot.entries}.difference(entry.id for entry in gone) if added else set()
        taken: list[Entry] = []
        try:
            for entry in added:
                _check_conflict(entry, there, self._name_claims)
                self._name_claims.claim(entry.tool)
                there.add(entry.id)
                taken.append(entry)
        except Conflict:
            for entry in taken:
                self._name_claims.release(entry.tool)
            for entry in gone:
                self._name_claims.claim(entry.tool)
            raise
        return taken

    def _swap(self, entries: tuple[Entry, ...]) -> RegistryChange | None:
        if entries == self.snapshot.entries:
            return None
        change = RegistryChange(self.snapshot, Snapshot(entries, self._page_size))
        self.snapshot = change.after
        return change

    def _notify(self, change: RegistryChange | None) -> None:
        if change is None:
            return
        here = _running_loop()
        for listener, (loop, concerns) in tuple(self._listeners.items()):
            if not concerns(change):
                continue
            if loop is None or loop is here:
                listener()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(listener)


class _Subscription(NamedTuple):
    """Where a listener is called, and which changes are news to it."""

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
    if entry.id in known_ids:
        raise Conflict(f"{entry.id} is registered already; remove it first, or raise its version")
    if other := claims.conflicting_id(entry.tool):
        raise Conflict(name_conflict(entry.tool, other))
