"""Whether new definitions may be published under the versions that they state.

What is versioned together is judged together: the tools of a toolkit where they share a version, else each tool. A
definition that states no version promises never to break.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from toolhall.contracts.bump import BUMPS, Bump, declared, enough, next_version, precedence, required
from toolhall.contracts.changes import Change, Kind, ordered, under
from toolhall.contracts.diff import diff
from toolhall.dialects.mcp.definition import derived_id
from toolhall.model.tool import Tool
from toolhall.schema.walk import escape

_BEHAVES = "its author says that it behaves differently"


class Release(msgspec.Struct, frozen=True):
    """What changed, the bump that demands, the one that is declared, and the lowest version that would do."""

    required: Bump
    declared: Bump
    ok: bool
    changes: list[Change]
    next: str | None = None


class _Row(msgspec.Struct, frozen=True):
    """A tool as it was and as it is, and what to call it; None where there is none."""

    old: Tool | None
    new: Tool | None
    path: str


class _Unit(msgspec.Struct, frozen=True):
    """Tools that share a version, with their changes; a version is None where none is stated."""

    old: str | None
    new: str | None
    both: bool  # there were some, and there are some now
    changes: list[Change]

    def release(self) -> Release:
        """What this unit alone demands and declares."""
        demanded = required(self.changes)
        if self.old is None or self.new is None or not self.both:
            return Release(demanded, "none", demanded != "major", self.changes)
        rise, ok = declared(self.old, self.new), enough(demanded, self.old, self.new)
        return Release(demanded, rise, ok, self.changes, None if ok else next_version(demanded, self.old))


def release(old: Sequence[Tool], new: Sequence[Tool], behaviour: Kind | None = None) -> Release:
    """All of it; `behaviour` is what the author says changed beyond what a definition can show."""
    units = list(_units(old, new))
    if behaviour is not None:
        said = Change(behaviour, "", _BEHAVES)
        risen = [unit for unit in units if unit.changes or unit.old != unit.new] or units
        units = [
            msgspec.structs.replace(unit, changes=[*unit.changes, said]) if unit in risen else unit for unit in units
        ]
    judged = [unit.release() for unit in units]
    changes = ordered([change for each in judged for change in each.changes])
    # The one that decides: the worst of those that declare too little, else the one that demands most.
    deciding = max(judged, key=lambda each: (not each.ok, BUMPS.index(each.required)), default=_NOTHING)
    return msgspec.structs.replace(deciding, changes=changes)


_NOTHING = Release("none", "none", True, [])


def _units(old: Sequence[Tool], new: Sequence[Tool]) -> Iterator[_Unit]:
    before, after = _newest(old), _newest(new)
    if len(before) == len(after) == 1:
        (mine,), (theirs,) = before.values(), after.values()
        yield _unit([_Row(mine, theirs, "")])
        return
    kits = sorted({kit for kit, _ in (*before, *after)})
    for kit in kits:
        names = sorted({name for each, name in (*before, *after) if each == kit})
        rows = [
            _Row(before.get((kit, name)), after.get((kit, name)), _path(kit, name, alone=len(kits) == 1))
            for name in names
        ]
        olds, news = {row.old.id.version for row in rows if row.old}, {row.new.id.version for row in rows if row.new}
        yield from [_unit(rows)] if len(olds) <= 1 and len(news) <= 1 else [_unit([row]) for row in rows]


def _unit(rows: list[_Row]) -> _Unit:
    """The changes of tools that are versioned together."""
    found: list[Change] = []
    for row in rows:
        if row.old is None:
            found.append(Change("feature", row.path, "there is a new tool"))
        elif row.new is None:
            found.append(Change("breaking", row.path, "the tool is gone"))
        else:
            found += under(row.path, diff(row.old, row.new))
    olds, news = [row.old for row in rows if row.old], [row.new for row in rows if row.new]
    return _Unit(_version(olds or news), _version(news or olds), bool(olds and news), found)


def _version(tools: Iterable[Tool]) -> str | None:
    """The version that these state; MCP and bare functions have no place for one but our own metadata."""
    stated = [tool.id.version for tool in tools if tool.id != derived_id(tool.name)]
    return stated[0] if stated else None


def _newest(tools: Iterable[Tool]) -> dict[tuple[str, str], Tool]:
    """The tools by their ids without the version; of several versions, the newest."""
    ranked = sorted(tools, key=lambda tool: precedence(tool.id.version))
    return {(tool.id.toolkit, tool.id.tool): tool for tool in ranked}


def _path(kit: str, name: str, *, alone: bool) -> str:
    if alone:
        return f"/capabilities/{escape(name)}"
    return f"/tools/{escape(name if kit == name else f'{kit}.{name}')}"
