"""Snapshot: all tools at one moment, found by name and version, listed in pages (Shortlist, ListedTools); immutable.

A bare name means the preferred version of a tool, which is the newest unless a pin says otherwise. Cursors of ToolPages
survive a change of the list. A Shortlist chooses the tools that MCP clients are shown.
"""

import base64
import binascii
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Protocol

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.contracts.digest import compute_digests
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, ToolPage
from toolhall.model.names import SEARCH_TOOL, parse_version_range, precedence
from toolhall.model.requirements import Requirements, requirements_from_json
from toolhall.model.tool import Tool
from toolhall.schema.defaults import Bind
from toolhall.schema.validator import Validator

_log = logging.getLogger("toolhall.registry")


class Runner(Protocol):
    """Runs the body of a tool: in this process, in a worker process, or on a tool server."""

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Run the tool and return its value, or raise its exception; pauses the deadline while it asks a person."""
        ...


class Entry(msgspec.Struct, frozen=True, dict=True):
    """A served tool with its compiled validators and its runner."""

    tool: Tool
    runner: Runner
    input_validator: Validator
    output_validator: Validator | None
    id: str  # str(tool.id), computed once
    is_interactive: bool = True  # whether it can send events or questions to its caller while it runs
    requirements: Requirements | None = None  # None: no secrets or accounts
    bind: Bind | None = None  # how its function takes arguments; None: not a function of this process
    code_sha256: str = ""  # of the function's code, if it runs in this process

    @cached_property
    def definition_sha256(self) -> str:
        """Digest of the whole definition, computed on the first call.

        It is the SHA-256 of the two digests that a lockfile has of the tool, `shown` and `contract`, each on a line.
        """
        found = compute_digests(self.tool)
        return hashlib.sha256(f"{found.shown}\n{found.contract}\n".encode()).hexdigest()


def compile_entry(
    tool: Tool, runner: Runner, *, known_good: bool = False, bind: Bind | None = None, code_sha256: str = ""
) -> Entry:
    """Compile a tool's validators once, at registration; raises BadSchema. `known_good` skips the schema checks."""
    output = tool.output.schema
    return Entry(
        tool=tool,
        runner=runner,
        input_validator=Validator(tool.input, known_good=known_good),
        output_validator=None if output is None else Validator(output, known_good=known_good),
        id=str(tool.id),
        is_interactive=getattr(runner, "is_interactive", True),
        requirements=requirements_from_json(tool.requirements),
        bind=bind,
        code_sha256=code_sha256,
    )


def tool_key(tool: Tool) -> str:
    """Return `Toolkit.tool`, which all versions share."""
    return f"{tool.id.toolkit}.{tool.id.tool}"


_NO_PREFERENCE: Mapping[str, Entry] = {}


class Snapshot:
    """All tools at one moment; immutable. A change to the registry makes a new snapshot."""

    def __init__(
        self,
        entries: Iterable[Entry],
        page_size: int,
        *,
        shared: bool = True,
        preferred: Mapping[str, Entry] = _NO_PREFERENCE,
        names: Mapping[str, Entry] | None = None,
    ) -> None:
        """`preferred` overrides by `Toolkit.tool` which version is listed; `names` replaces the choice for all."""
        self.entries = tuple(entries)
        self.page_size = page_size
        self._versions = _by_key(self.entries)
        newest = {key: versions[0] for key, versions in self._versions.items()} if names is None else names
        self._preferred = {**newest, **preferred}
        chosen = set(map(id, self._preferred.values()))
        self.listed = tuple(entry for entry in self.entries if id(entry) in chosen)
        self._by_name = {entry.tool.name: entry for entry in self.listed}
        self._by_name |= {entry.id: entry for entry in self.entries}
        self.repeats_in_headers = any(entry.tool.header_parameters for entry in self.entries)
        self.encoded: dict[str, bytes] = {}  # whole lists of dialects without pages, encoded once
        self.pages = ToolPages((entry.tool for entry in self.listed), page_size, shared=shared)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every version of every tool, in order."""
        return tuple(entry.tool for entry in self.entries)

    def find(self, name: str) -> Entry | None:
        """Find by published name (of the listed version), id, or id with a version range: `Kit.tool@^1.2`."""
        found = self._by_name.get(name)
        if found is None and "." in name:
            key, _, version = name.rpartition("@")
            found = self.resolve(name, None) or (self.resolve(key, version) if key else None)
        return found

    def resolve(self, key: str, version: str | None) -> Entry | None:
        """Return the newest version of `Toolkit.tool` in a version range; without a range, the listed version."""
        if version is None:
            return self._preferred.get(key)
        version_range = parse_version_range(version)
        versions = self._versions.get(key, ())
        return next((entry for entry in versions if version_range.accepts(entry.tool.id.version)), None)

    def filtered(self, keep: Callable[[Tool], bool]) -> "Snapshot":
        """Return only the tools that a caller may see; a hidden version's published name finds no other version."""
        entries = [entry for entry in self.entries if keep(entry.tool)]
        kept_ids = set(map(id, entries))
        names = {key: entry for key, entry in self._preferred.items() if id(entry) in kept_ids}
        return Snapshot(entries, self.page_size, shared=False, names=names)

    def with_preferred(self, preferred: Mapping[str, Entry]) -> "Snapshot":
        """Return a snapshot in which these versions have the published names, instead of the newest ones."""
        return Snapshot(self.entries, self.page_size, preferred=preferred) if preferred else self

    def page(self, cursor: str | None) -> ToolPage:
        """Return the page of a cursor; pages are built once per snapshot."""
        return self.pages.page(cursor)


class ToolPages:
    """A list of tools with distinct names, cut into pages; immutable."""

    def __init__(self, tools: Iterable[Tool], size: int, *, shared: bool) -> None:
        self.tools = tuple(tools)
        self._size = size
        self._shared = shared
        self._positions = {tool.name: position for position, tool in enumerate(self.tools)}
        self._cache: dict[int, ToolPage] = {}

    def page(self, cursor: str | None) -> ToolPage:
        """Return the page of a cursor; raises Malformed for an unknown cursor."""
        start = self._start(cursor) if cursor else 0
        page = self._cache.get(start)
        if page is None:
            # Cursors may be forged: only pages at regular boundaries are cached.
            page = self._build(start)
            if start % self._size == 0:
                self._cache[start] = page
        return page

    def _build(self, start: int) -> ToolPage:
        end = start + self._size
        chosen = self.tools[start:end]
        more = end < len(self.tools)
        return ToolPage(chosen, _cursor(end - 1, chosen[-1].name) if more else None, self._shared)

    def _start(self, cursor: str) -> int:
        """Return the position after the tool that a cursor names; if that tool is gone, its old position."""
        try:
            position, _, last = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            known = self._positions.get(last)
            start = int(position) if known is None else known + 1
        except (ValueError, binascii.Error):
            raise Malformed("unknown cursor: send the nextCursor of the page before, or none") from None
        return max(0, min(start, len(self.tools)))


def _cursor(position: int, last: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{last}".encode()).decode()


def _by_key(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """Return the versions of each tool, newest first."""
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(tool_key(entry.tool), []).append(entry)
    for same_tool in versions.values():
        if len(same_tool) > 1:
            same_tool.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
    return versions


class Shortlist:
    """Chooses the listed tools: every tool in its newest version, unless tools are pinned or `search` is set.

    A pin with a version or range (`Kit.tool@^1`) decides which version the published name means; of several pins, the
    first that matches. With `search`, only the search tool and pinned tools are listed; all others can be called still.
    """

    def __init__(self, pinned: Iterable[str] = (), *, search: bool = False) -> None:
        # Pinned by version: a tool that claims to be a newer version of the search tool must not replace it.
        self.pins = (*([str(SEARCH_TOOL)] if search else []), *pinned)
        self._search = search
        self._warned: set[str] = set()
        self._cached: ListedTools | None = None

    def for_snapshot(self, snapshot: Snapshot) -> "ListedTools":
        """Return the listed tools of a snapshot; cached for the latest one."""
        cached = self._cached
        if cached is None or cached.snapshot is not snapshot:
            cached = self._cached = self._build(snapshot)
        return cached

    def _build(self, snapshot: Snapshot) -> "ListedTools":
        if not self.pins:
            return ListedTools(snapshot, snapshot)
        found = [(pin, entry) for pin in self.pins if (entry := snapshot.find(pin))]
        if snapshot.entries:
            self._warn_missing_pins({pin for pin, _ in found})
        preferred: dict[str, Entry] = {}
        for pin, entry in found:
            if pin not in (entry.tool.name, tool_key(entry.tool)):  # otherwise the pin names no version
                preferred.setdefault(tool_key(entry.tool), entry)
        other = {key: entry for key, entry in preferred.items() if snapshot.resolve(key, None) is not entry}
        keys = {tool_key(entry.tool) for _, entry in found} if self._search else None
        return ListedTools(snapshot, snapshot.with_preferred(other), keys)

    def _warn_missing_pins(self, found: set[str]) -> None:
        """Warn once about each pin that matches no tool: it may be misspelled."""
        for pin in self.pins:
            if pin not in found and pin not in self._warned:
                self._warned.add(pin)
                _log.warning("the pin %r matches no tool; check its name and version", pin)


class ListedTools:
    """The lists of one snapshot, whole or per caller."""

    def __init__(self, snapshot: Snapshot, names: Snapshot, keys: set[str] | None = None) -> None:
        """`names` resolves published names; `keys` are the listed tools (`Toolkit.tool`), None for all."""
        self.snapshot = snapshot
        self.names = names
        self._keys = keys
        self._by_name: dict[bool, dict[str, Tool]] = {}
        self._pages: dict[bool, ToolPages] = {} if keys is not None else {False: names.pages}

    def tools_by_name(self, *, versions: bool = False) -> dict[str, Tool]:
        """Return the listed tools by listed name; with `versions` all versions, the not preferred ones by id."""
        if versions not in self._by_name:
            entries = self.names.entries if versions else self.names.listed
            listed = (entry for entry in entries if self._keys is None or tool_key(entry.tool) in self._keys)
            self._by_name[versions] = {self._name(entry): entry.tool for entry in listed}
        return self._by_name[versions]

    def pages(self, *, versions: bool = False) -> ToolPages:
        """Return the pages for callers that may see every tool; cached."""
        if versions not in self._pages:
            self._pages[versions] = self._to_pages(self.tools_by_name(versions=versions), shared=True)
        return self._pages[versions]

    def pages_for(self, can_see: Callable[[Tool], bool], *, versions: bool = False) -> ToolPages:
        """Return the pages for a caller that may not see every tool.

        If the preferred version is hidden, its published name is not listed: it would not reach another version.
        """
        return self._to_pages(
            {name: tool for name, tool in self.tools_by_name(versions=versions).items() if can_see(tool)}
        )

    def _name(self, entry: Entry) -> str:
        return entry.tool.name if self.names.resolve(tool_key(entry.tool), None) is entry else entry.id

    def _to_pages(self, by_name: dict[str, Tool], *, shared: bool = False) -> ToolPages:
        tools = (with_listed_name(name, tool) for name, tool in by_name.items())
        return ToolPages(tools, self.names.page_size, shared=shared)


def with_listed_name(name: str, tool: Tool) -> Tool:
    """Return the tool under its listed name."""
    return tool if tool.name == name else msgspec.structs.replace(tool, name=name)
