"""Names and lists of tools: NameClaims and DialectNames for each dialect, Shortlist and ListedTools for MCP clients.

No two tools may have names that any dialect or reader could confuse: names are compared without letter case, accents
and confusable characters. All versions of a tool share one claim.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.dialects.oxp.catalog import oxp_id_part, oxp_version
from toolhall.model.names import SEARCH_TOOL, skeleton
from toolhall.model.tool import Tool
from toolhall.model.versions import parse_version_range, precedence
from toolhall.registry.snapshot import Entry, Snapshot, ToolPages, tool_key

DialectName: TypeAlias = tuple[str, ...]


class NameClaims:
    """The names in use; all versions of a tool share its claims."""

    def __init__(self) -> None:
        # By claim: the ids that hold it, each with (toolkit, tool), since `a.b`+`c` and `a`+`b.c` are two tools.
        self._holders: dict[str, dict[str, tuple[str, str]]] = {}

    def conflicting_id(self, tool: Tool) -> str | None:
        """Return the id of another tool that holds one of this tool's claims."""
        own = (tool.id.toolkit, tool.id.tool)
        holders = (holder for claim in name_claims(tool) for holder in self._holders.get(claim, {}).items())
        return next((tool_id for tool_id, key in holders if key != own), None)

    def claim(self, tool: Tool) -> None:
        """Add the claims of one version."""
        for claim in name_claims(tool):
            self._holders.setdefault(claim, {})[str(tool.id)] = (tool.id.toolkit, tool.id.tool)

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

    def find(self, dialect: str, name: DialectName, version: str | None = None) -> Entry | None:
        """Find a tool by its name in a dialect: the listed version, or the newest in a version range."""
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

    Names that differ only in letter case, accents or confusable characters have equal forms.
    """
    in_oxp = (
        f"oxp:{oxp_id_part(tool.id.toolkit)}.{oxp_id_part(tool.id.tool)}".casefold()
    )  # OXP ids allow fewer characters
    return tool.name.casefold(), skeleton(tool_key(tool)), skeleton(tool.stated or tool.name), in_oxp


def name_conflict(tool: Tool, other: str) -> str:
    """Return the message for a tool whose names collide with those of the tool `other`."""
    return (
        f"{tool.id} would be published as {tool.name!r}, which some dialect cannot tell apart from {other}; "
        "rename one of them, in code with @tool(name=...)"
    )


def dialect_names(tool: Tool) -> dict[str, str]:
    """Return a tool's name in each dialect."""
    return {dialect: naming.format_name(naming.name_parts(tool)) for dialect, naming in DIALECT_NAMINGS.items()}


_log = logging.getLogger("toolhall.registry")


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
