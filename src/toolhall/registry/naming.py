"""Tool names across dialects: NameClaims finds collisions, DialectNames maps each dialect's names to tools.

No two tools may have names that any dialect or reader could confuse: names are compared without letter case, accents
and confusable characters. All versions of a tool share one claim.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.dialects.oxp.catalog import oxp_id_part, oxp_version
from toolhall.model.names import skeleton
from toolhall.model.tool import Tool
from toolhall.model.versions import parse_version_range, precedence
from toolhall.registry.snapshot import Entry, Snapshot, tool_key

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
