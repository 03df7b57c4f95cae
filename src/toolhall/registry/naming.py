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


def name_claims(tool: Tool) -> tuple[str, ...]:
    """What no other tool may claim: letter case, accents and scripts do not tell two apart. Versions share it all."""
    in_oxp = f"oxp:{oxp_id_part(tool.id.toolkit)}.{oxp_id_part(tool.id.tool)}".casefold()  # which knows fewer letters
    return tool.name.casefold(), skeleton(tool_key(tool)), skeleton(tool.stated or tool.name), in_oxp


def name_conflict(tool: Tool, other: str) -> str:
    """Why a tool cannot stand beside the one whose id is `other`."""
    return (
        f"{tool.id} would be published as {tool.name!r}, which some dialect cannot tell apart from {other}; "
        "rename one of them, in code with @tool(name=...)"
    )


class NameClaims:
    """Who holds which claim; the versions of a tool hold theirs together."""

    def __init__(self) -> None:
        # By claim: the ids that hold it, each with its toolkit and tool; `a.b` `c` and `a` `b.c` are two tools.
        self._holders: dict[str, dict[str, tuple[str, str]]] = {}

    def conflicting_id(self, tool: Tool) -> str | None:
        """The id of another tool that holds one of this tool's claims."""
        own = (tool.id.toolkit, tool.id.tool)
        holders = (holder for claim in name_claims(tool) for holder in self._holders.get(claim, {}).items())
        return next((tool_id for tool_id, key in holders if key != own), None)

    def claim(self, tool: Tool) -> None:
        """One version more holds its claims."""
        for claim in name_claims(tool):
            self._holders.setdefault(claim, {})[str(tool.id)] = (tool.id.toolkit, tool.id.tool)

    def release(self, tool: Tool) -> None:
        """One version less."""
        for claim in set(name_claims(tool)):
            del self._holders[claim][str(tool.id)]
            if not self._holders[claim]:
                del self._holders[claim]


DialectName: TypeAlias = tuple[str, ...]


class DialectNaming(msgspec.Struct, frozen=True):
    """How a dialect names a tool, writes that name, and writes a version."""

    name_parts: Callable[[Tool], DialectName]
    format_name: Callable[[DialectName], str] = ".".join
    format_version: Callable[[str], str] = str


DIALECT_NAMINGS: Mapping[str, DialectNaming] = {
    "mcp": DialectNaming(lambda tool: (tool.name,)),
    "machine": DialectNaming(lambda tool: (tool.id.toolkit, tool.id.tool)),
    "hub": DialectNaming(lambda tool: (tool.id.toolkit, tool.id.tool)),
    # Fewer letters, and three numbers: what a date, a count or a pre-release becomes there.
    "oxp": DialectNaming(
        lambda tool: (oxp_id_part(tool.id.toolkit), oxp_id_part(tool.id.tool)), format_version=oxp_version
    ),
    "openapi": DialectNaming(lambda tool: (tool.id.toolkit, tool.id.tool), format_name="/".join),
}


class DialectNames:
    """Made for one snapshot, each dialect when it is first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._by_dialect: dict[str, dict[DialectName, list[Entry]]] = {}

    def find(self, dialect: str, name: DialectName, version: str | None = None) -> Entry | None:
        """The tool that a dialect calls so: the version that a bare name means, or the newest of those asked for."""
        versions = self._by_name(dialect).get(name, [])
        if version is None:
            return self.snapshot.resolve(tool_key(versions[0].tool), None) if versions else None
        spelled, asked = DIALECT_NAMINGS[dialect].format_version, parse_version_range(version)
        exact = (entry for entry in versions if spelled(entry.tool.id.version) == version)
        fitting = (entry for entry in versions if asked.accepts(entry.tool.id.version))
        return next(exact, None) or next(fitting, None)

    def _by_name(self, dialect: str) -> dict[DialectName, list[Entry]]:
        if dialect not in self._by_dialect:
            found: dict[DialectName, list[Entry]] = {}
            for entry in self.snapshot.entries:
                found.setdefault(DIALECT_NAMINGS[dialect].name_parts(entry.tool), []).append(entry)
            for entries in found.values():
                entries.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
            self._by_dialect[dialect] = found
        return self._by_dialect[dialect]


def dialect_names(tool: Tool) -> dict[str, str]:
    """What each dialect calls a tool."""
    return {dialect: spelling.format_name(spelling.name_parts(tool)) for dialect, spelling in DIALECT_NAMINGS.items()}
