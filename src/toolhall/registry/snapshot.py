"""Snapshot: all tools at one moment, found by name and version, listed in pages; immutable.

A bare name means the preferred version of a tool, which is the newest unless a pin says otherwise. Cursors of ToolPages
survive a change of the list.
"""

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Protocol

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.contracts.digest import compute_digests
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, ToolPage
from toolhall.model.requirements import Requirements, requirements_from_json
from toolhall.model.tool import Tool
from toolhall.model.versions import parse_version_range, precedence
from toolhall.schema.defaults import Bind
from toolhall.schema.validator import Validator


class Runner(Protocol):
    """How a tool's body is reached."""

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Run the tool: what it returns, or what it raises; its deadline is held while it asks a person."""
        ...


class Entry(msgspec.Struct, frozen=True, dict=True):
    """A tool, compiled."""

    tool: Tool
    runner: Runner
    input_validator: Validator
    output_validator: Validator | None
    id: str  # str(tool.id), which every record repeats
    is_interactive: bool = True  # whether it can tell or ask its caller anything while it runs
    requirements: Requirements | None = None  # what a call must be supplied with; None: nothing
    bind: Bind | None = None  # what its function gets for arguments; None: it is none of ours
    code_sha256: str = ""  # of the code that a call runs, where that is code of this process

    @cached_property
    def definition_sha256(self) -> str:
        """What stands for everything that the tool says and promises, made when it is first called.

        It is the SHA-256 of the two digests that a lock has of the tool, `shown` and `contract`, each on a line.
        """
        found = compute_digests(self.tool)
        return hashlib.sha256(f"{found.shown}\n{found.contract}\n".encode()).hexdigest()


def compile_entry(
    tool: Tool, runner: Runner, *, known_good: bool = False, bind: Bind | None = None, code_sha256: str = ""
) -> Entry:
    """Do at registration what need not be done per call; raises BadSchema, unless the schemas are known to be good."""
    returned = tool.output.schema
    returns = None if returned is None else Validator(returned, known_good=known_good)
    accepts, tells = Validator(tool.input, known_good=known_good), getattr(runner, "is_interactive", True)
    return Entry(
        tool,
        runner,
        accepts,
        returns,
        str(tool.id),
        tells,
        requirements_from_json(tool.requirements),
        bind,
        code_sha256,
    )


def tool_key(tool: Tool) -> str:
    """`Toolkit.tool`, which all versions share."""
    return f"{tool.id.toolkit}.{tool.id.tool}"


class ToolPages:
    """Immutable; a changed list is another one. No two of its tools have one name."""

    def __init__(self, tools: Iterable[Tool], size: int, *, shared: bool) -> None:
        self.tools = tuple(tools)
        self._size = size
        self._shared = shared
        self._positions = {tool.name: position for position, tool in enumerate(self.tools)}
        self._cache: dict[int, ToolPage] = {}

    def page(self, cursor: str | None) -> ToolPage:
        """The page that a cursor points to; Malformed if it is none of ours."""
        start = self._start(cursor) if cursor else 0
        page = self._cache.get(start)
        if page is None:
            # Cursors may be forged; only a page boundary is worth remembering.
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
        """Continue after the tool the cursor names; if that is gone, with the one that took its position."""
        try:
            position, _, last = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            known = self._positions.get(last)
            start = int(position) if known is None else known + 1
        except (ValueError, binascii.Error):
            raise Malformed("unknown cursor: send the nextCursor of the page before, or none") from None
        return max(0, min(start, len(self.tools)))


def _cursor(position: int, last: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{last}".encode()).decode()


_NO_PREFERENCE: Mapping[str, Entry] = {}


class Snapshot:
    """Immutable; a change to the registry makes a new one."""

    def __init__(
        self,
        entries: Iterable[Entry],
        page_size: int,
        *,
        shared: bool = True,
        preferred: Mapping[str, Entry] = _NO_PREFERENCE,
        names: Mapping[str, Entry] | None = None,
    ) -> None:
        """`meant` says of some tools (by `Toolkit.tool`) which version is listed, if not the newest; `names` of all."""
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
        self.encoded: dict[str, bytes] = {}  # whole listings, as dialects without pages write them once
        self.pages = ToolPages((entry.tool for entry in self.listed), page_size, shared=shared)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every version of every tool, in order."""
        return tuple(entry.tool for entry in self.entries)

    def find(self, name: str) -> Entry | None:
        """By published name (of the version that is listed), by id, or by an id with a range: `Kit.tool@^1.2`."""
        found = self._by_name.get(name)
        if found is None and "." in name:
            key, _, version = name.rpartition("@")
            found = self.resolve(name, None) or (self.resolve(key, version) if key else None)
        return found

    def resolve(self, key: str, version: str | None) -> Entry | None:
        """The newest version of `Toolkit.tool` that a caller means; of one that asks for none, the listed one."""
        if version is None:
            return self._preferred.get(key)
        asked = parse_version_range(version)
        versions = self._versions.get(key, ())
        return next((entry for entry in versions if asked.accepts(entry.tool.id.version)), None)

    def filtered(self, keep: Callable[[Tool], bool]) -> "Snapshot":
        """The part of it that one caller may see; a hidden version takes its name with it, and no other gets it."""
        entries = [entry for entry in self.entries if keep(entry.tool)]
        kept = set(map(id, entries))
        names = {key: entry for key, entry in self._preferred.items() if id(entry) in kept}
        return Snapshot(entries, self.page_size, shared=False, names=names)

    def with_preferred(self, preferred: Mapping[str, Entry]) -> "Snapshot":
        """The same tools; of those named here, another version than the newest goes by the published name."""
        return Snapshot(self.entries, self.page_size, preferred=preferred) if preferred else self

    def page(self, cursor: str | None) -> ToolPage:
        """The page of the list that a cursor points to; pages are made once per snapshot."""
        return self.pages.page(cursor)


def _by_key(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """The versions of each tool, newest first."""
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(tool_key(entry.tool), []).append(entry)
    for several in versions.values():
        if len(several) > 1:
            several.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
    return versions
