"""The one map between tools and what each dialect calls them, read in both directions."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.dialects.oxp.catalog import part, plain_version
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence, wanted
from toolhall.registry.entry import Entry
from toolhall.registry.names import key_of
from toolhall.registry.snapshot import Snapshot

Name: TypeAlias = tuple[str, ...]


class Spelling(msgspec.Struct, frozen=True):
    """How a dialect names a tool, writes that name, and writes a version."""

    name: Callable[[Tool], Name]
    text: Callable[[Name], str] = ".".join
    version: Callable[[str], str] = str


SPELLINGS: Mapping[str, Spelling] = {
    "mcp": Spelling(lambda tool: (tool.name,)),
    "machine": Spelling(lambda tool: (tool.id.toolkit, tool.id.tool)),
    "hub": Spelling(lambda tool: (tool.id.toolkit, tool.id.tool)),
    # Fewer letters, and three numbers: what a date, a count or a pre-release becomes there.
    "oxp": Spelling(lambda tool: (part(tool.id.toolkit), part(tool.id.tool)), version=plain_version),
    "openapi": Spelling(lambda tool: (tool.id.toolkit, tool.id.tool), text="/".join),
}


class Published:
    """Made for one snapshot, each dialect when it is first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._found: dict[str, dict[Name, list[Entry]]] = {}

    def find(self, dialect: str, name: Name, version: str | None = None) -> Entry | None:
        """The tool that a dialect calls so: the version that a bare name means, or the newest of those asked for."""
        versions = self._names(dialect).get(name, [])
        if version is None:
            return self.snapshot.choose(key_of(versions[0].tool), None) if versions else None
        spelled, asked = SPELLINGS[dialect].version, wanted(version)
        exact = (entry for entry in versions if spelled(entry.tool.id.version) == version)
        fitting = (entry for entry in versions if asked.accepts(entry.tool.id.version))
        return next(exact, None) or next(fitting, None)

    def _names(self, dialect: str) -> dict[Name, list[Entry]]:
        if dialect not in self._found:
            found: dict[Name, list[Entry]] = {}
            for entry in self.snapshot.entries:
                found.setdefault(SPELLINGS[dialect].name(entry.tool), []).append(entry)
            for entries in found.values():
                entries.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
            self._found[dialect] = found
        return self._found[dialect]


def names_of(tool: Tool) -> dict[str, str]:
    """What each dialect calls a tool."""
    return {dialect: spelling.text(spelling.name(tool)) for dialect, spelling in SPELLINGS.items()}
