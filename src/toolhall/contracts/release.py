"""Diffs two definitions (diff, diff_toolkit) and checks whether the declared version bump suffices (check_release).

Tools that are versioned together are checked together: the tools of a toolkit where they share a version, else each
tool. A definition that states no version promises never to break.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from toolhall.contracts.metadata_changes import metadata_changes
from toolhall.contracts.schema_changes import input_changes, output_changes
from toolhall.contracts.semver import (
    BUMPS,
    Bump,
    ChangeKind,
    DefinitionChange,
    declared_bump,
    is_sufficient,
    next_version,
    precedence,
    prefix_paths,
    required_bump,
    sort_changes,
)
from toolhall.dialects.mcp.catalog import id_from_name
from toolhall.model.json import escape_pointer
from toolhall.model.tool import Tool


def diff(old: Tool, new: Tool) -> list[DefinitionChange]:
    """The changes from one definition of a tool to another, whatever versions they state; what breaks comes first."""
    return sort_changes(
        [*input_changes(old.input, new.input), *output_changes(old.output, new.output), *metadata_changes(old, new)]
    )


def diff_toolkit(old: Sequence[Tool], new: Sequence[Tool]) -> list[DefinitionChange]:
    """The changes from one version of a toolkit to another: tools are known by their names in it."""
    before, after = ({tool.id.tool: tool for tool in tools} for tools in (old, new))
    found: list[DefinitionChange] = []
    for name in sorted(before.keys() | after.keys()):
        path = f"/capabilities/{escape_pointer(name)}"
        if name not in after:
            found.append(DefinitionChange("breaking", path, f"the tool {name!r} is gone"))
        elif name not in before:
            found.append(DefinitionChange("feature", path, f"there is the tool {name!r}"))
        else:
            found += prefix_paths(path, diff(before[name], after[name]))
    return sort_changes(found)


_BEHAVIOUR_REASON = "its author says that it behaves differently"


class ReleaseCheck(msgspec.Struct, frozen=True):
    """What changed, the bump that demands, the one that is declared, and the lowest version that would do."""

    required: Bump
    declared: Bump
    ok: bool
    changes: list[DefinitionChange]
    next: str | None = None


class _ToolPair(msgspec.Struct, frozen=True):
    """A tool as it was and as it is, and what to call it; None where there is none."""

    old: Tool | None
    new: Tool | None
    path: str


class _VersionedUnit(msgspec.Struct, frozen=True):
    """Tools that share a version, with their changes; a version is None where none is stated."""

    old: str | None
    new: str | None
    is_update: bool  # there were some, and there are some now
    changes: list[DefinitionChange]

    def check(self) -> ReleaseCheck:
        """What this unit alone demands and declares."""
        demanded = required_bump(self.changes)
        if self.old is None or self.new is None or not self.is_update:
            return ReleaseCheck(demanded, "none", demanded != "major", self.changes)
        rise, ok = declared_bump(self.old, self.new), is_sufficient(demanded, self.old, self.new)
        return ReleaseCheck(demanded, rise, ok, self.changes, None if ok else next_version(demanded, self.old))


def check_release(old: Sequence[Tool], new: Sequence[Tool], behaviour: ChangeKind | None = None) -> ReleaseCheck:
    """All of it; `behaviour` is what the author says changed beyond what a definition can show."""
    units = list(_units(old, new))
    if behaviour is not None:
        said = DefinitionChange(behaviour, "", _BEHAVIOUR_REASON)
        risen = [unit for unit in units if unit.changes or unit.old != unit.new] or units
        units = [
            msgspec.structs.replace(unit, changes=[*unit.changes, said]) if unit in risen else unit for unit in units
        ]
    judged = [unit.check() for unit in units]
    changes = sort_changes([change for each in judged for change in each.changes])
    # The one that decides: the worst of those that declare too little, else the one that demands most.
    deciding = max(judged, key=lambda each: (not each.ok, BUMPS.index(each.required)), default=_NO_CHANGE)
    return msgspec.structs.replace(deciding, changes=changes)


_NO_CHANGE = ReleaseCheck("none", "none", True, [])


def _units(old: Sequence[Tool], new: Sequence[Tool]) -> Iterator[_VersionedUnit]:
    before, after = _newest(old), _newest(new)
    if len(before) == len(after) == 1:
        (mine,), (theirs,) = before.values(), after.values()
        yield _make_unit([_ToolPair(mine, theirs, "")])
        return
    kits = sorted({kit for kit, _ in (*before, *after)})
    for kit in kits:
        names = sorted({name for each, name in (*before, *after) if each == kit})
        rows = [
            _ToolPair(before.get((kit, name)), after.get((kit, name)), _path(kit, name, alone=len(kits) == 1))
            for name in names
        ]
        olds, news = {row.old.id.version for row in rows if row.old}, {row.new.id.version for row in rows if row.new}
        yield from [_make_unit(rows)] if len(olds) <= 1 and len(news) <= 1 else [_make_unit([row]) for row in rows]


def _make_unit(pairs: list[_ToolPair]) -> _VersionedUnit:
    """The changes of tools that are versioned together."""
    found: list[DefinitionChange] = []
    for row in pairs:
        if row.old is None:
            found.append(DefinitionChange("feature", row.path, "there is a new tool"))
        elif row.new is None:
            found.append(DefinitionChange("breaking", row.path, "the tool is gone"))
        else:
            found += prefix_paths(row.path, diff(row.old, row.new))
    olds, news = [row.old for row in pairs if row.old], [row.new for row in pairs if row.new]
    return _VersionedUnit(_stated_version(olds or news), _stated_version(news or olds), bool(olds and news), found)


def _stated_version(tools: Iterable[Tool]) -> str | None:
    """The version that these state; MCP and bare functions have no place for one but our own metadata."""
    stated = [tool.id.version for tool in tools if tool.id != id_from_name(tool.name)]
    return stated[0] if stated else None


def _newest(tools: Iterable[Tool]) -> dict[tuple[str, str], Tool]:
    """The tools by their ids without the version; of several versions, the newest."""
    ranked = sorted(tools, key=lambda tool: precedence(tool.id.version))
    return {(tool.id.toolkit, tool.id.tool): tool for tool in ranked}


def _path(kit: str, name: str, *, alone: bool) -> str:
    if alone:
        return f"/capabilities/{escape_pointer(name)}"
    return f"/tools/{escape_pointer(name if kit == name else f'{kit}.{name}')}"
