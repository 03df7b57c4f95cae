"""Diffs two definitions (diff, diff_toolkit) and checks whether the declared version bump suffices (check_release).

Tools that are versioned together are checked together: all tools of a toolkit if they share a version, else each tool
alone. A definition without a version can never be raised, so it must never break.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from toolhall.contracts.changes import input_changes, metadata_changes, output_changes
from toolhall.contracts.kind_changes import kind_change, prompt_changes, resource_changes
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

_BEHAVIOUR_REASON = "its author says that it behaves differently"


class ReleaseCheck(msgspec.Struct, frozen=True):
    """The changes, the bump they require, the declared bump, and the lowest sufficient version if it is too low."""

    required: Bump
    declared: Bump
    ok: bool
    changes: list[DefinitionChange]
    next: str | None = None


class _ToolPair(msgspec.Struct, frozen=True):
    """The old and new definition of a tool, and its path; None where the tool does not exist."""

    old: Tool | None
    new: Tool | None
    path: str


class _VersionedUnit(msgspec.Struct, frozen=True):
    """Tools that share a version, with their changes; a version is None if none is stated."""

    old: str | None
    new: str | None
    is_update: bool  # both sides have tools
    changes: list[DefinitionChange]

    def check(self) -> ReleaseCheck:
        """The required and declared bump of this unit alone."""
        required = required_bump(self.changes)
        if self.old is None or self.new is None or not self.is_update:
            return ReleaseCheck(required, "none", required != "major", self.changes)
        declared, ok = declared_bump(self.old, self.new), is_sufficient(required, self.old, self.new)
        return ReleaseCheck(required, declared, ok, self.changes, None if ok else next_version(required, self.old))


_NO_CHANGE = ReleaseCheck("none", "none", True, [])


def check_release(old: Sequence[Tool], new: Sequence[Tool], behaviour: ChangeKind | None = None) -> ReleaseCheck:
    """Check a release; `behaviour` is a change that the author declares and that definitions cannot show."""
    units = list(_units(old, new))
    if behaviour is not None:
        stated = DefinitionChange(behaviour, "", _BEHAVIOUR_REASON)
        affected = [unit for unit in units if unit.changes or unit.old != unit.new] or units
        units = [
            msgspec.structs.replace(unit, changes=[*unit.changes, stated]) if unit in affected else unit
            for unit in units
        ]
    checks = [unit.check() for unit in units]
    changes = sort_changes([change for check in checks for change in check.changes])
    # The deciding unit: the worst of those that declare too little, else the one that requires most.
    deciding = max(checks, key=lambda check: (not check.ok, BUMPS.index(check.required)), default=_NO_CHANGE)
    return msgspec.structs.replace(deciding, changes=changes)


def diff(old: Tool, new: Tool) -> list[DefinitionChange]:
    """The changes between two definitions of one thing, breaking ones first; the stated versions do not matter."""
    other_kind = kind_change(old, new)
    if other_kind is not None:
        return [other_kind]
    if new.resource is not None:
        own = resource_changes(old, new)
    elif new.prompt is not None:
        own = prompt_changes(old, new)
    else:
        own = [*input_changes(old.input, new.input), *output_changes(old.output, new.output)]
    return sort_changes([*own, *metadata_changes(old, new)])


def diff_toolkit(old: Sequence[Tool], new: Sequence[Tool]) -> list[DefinitionChange]:
    """The changes between two versions of a toolkit; tools are matched by their names in it."""
    before, after = ({tool.id.tool: tool for tool in tools} for tools in (old, new))
    changes: list[DefinitionChange] = []
    for name in sorted(before.keys() | after.keys()):
        path = f"/capabilities/{escape_pointer(name)}"
        if name not in after:
            changes.append(DefinitionChange("breaking", path, f"the {before[name].kind} {name!r} was removed"))
        elif name not in before:
            changes.append(DefinitionChange("feature", path, f"the {after[name].kind} {name!r} was added"))
        else:
            changes += prefix_paths(path, diff(before[name], after[name]))
    return sort_changes(changes)


def _units(old: Sequence[Tool], new: Sequence[Tool]) -> Iterator[_VersionedUnit]:
    shared_names = _shared_names(old) | _shared_names(new)
    before, after = _newest(old, shared_names), _newest(new, shared_names)
    if len(before) == len(after) == 1:
        (old_tool,), (new_tool,) = before.values(), after.values()
        yield _make_unit([_ToolPair(old_tool, new_tool, "")])
        return
    toolkits = sorted({toolkit for toolkit, _ in (*before, *after)})
    for toolkit in toolkits:
        names = sorted({name for other, name in (*before, *after) if other == toolkit})
        pairs = [
            _ToolPair(
                before.get((toolkit, name)), after.get((toolkit, name)), _path(toolkit, name, alone=len(toolkits) == 1)
            )
            for name in names
        ]
        old_versions = {pair.old.id.version for pair in pairs if pair.old}
        new_versions = {pair.new.id.version for pair in pairs if pair.new}
        share_version = len(old_versions) <= 1 and len(new_versions) <= 1
        yield from [_make_unit(pairs)] if share_version else [_make_unit([pair]) for pair in pairs]


def _make_unit(pairs: list[_ToolPair]) -> _VersionedUnit:
    """The unit of tools that are versioned together."""
    changes: list[DefinitionChange] = []
    for pair in pairs:
        if pair.old is not None and pair.new is not None:
            changes += prefix_paths(pair.path, diff(pair.old, pair.new))
        elif pair.old is not None:
            changes.append(DefinitionChange("breaking", pair.path, f"the {pair.old.kind} was removed"))
        elif pair.new is not None:
            changes.append(DefinitionChange("feature", pair.path, f"the {pair.new.kind} was added"))
    old_tools, new_tools = [pair.old for pair in pairs if pair.old], [pair.new for pair in pairs if pair.new]
    return _VersionedUnit(
        _stated_version(old_tools or new_tools),
        _stated_version(new_tools or old_tools),
        bool(old_tools and new_tools),
        changes,
    )


def _stated_version(tools: Iterable[Tool]) -> str | None:
    """The version that these tools state; in MCP and bare functions only Toolhall's own metadata can."""
    stated = [tool.id.version for tool in tools if tool.id != id_from_name(tool.name)]
    return stated[0] if stated else None


def _newest(tools: Iterable[Tool], shared_names: Collection[str]) -> dict[tuple[str, str], Tool]:
    """The newest version of each tool, resource and prompt, by toolkit and name."""
    ranked = sorted(tools, key=lambda tool: precedence(tool.id.version))
    return {_toolkit_and_name(tool, shared_names): tool for tool in ranked}


def _toolkit_and_name(tool: Tool, shared_names: Collection[str]) -> tuple[str, str]:
    """What all versions share. Without an id, names are distinct for tools and prompts each, but not for resources."""
    if tool.kind == "tool" or tool.id != id_from_name(tool.name):
        return tool.id.toolkit, tool.id.tool
    by_uri = tool.resource is not None and tool.name in shared_names
    return f"/{tool.kind}s", tool.resource.uri if tool.resource is not None and by_uri else tool.name


def _shared_names(tools: Iterable[Tool]) -> set[str]:
    """The names that several resources have."""
    names = Counter(tool.name for tool in tools if tool.resource is not None)
    return {name for name, count in names.items() if count > 1}


def _path(toolkit: str, name: str, *, alone: bool) -> str:
    if toolkit.startswith("/"):  # of no toolkit: see _toolkit_and_name
        return f"{toolkit}/{escape_pointer(name)}"
    if alone:
        return f"/capabilities/{escape_pointer(name)}"
    return f"/tools/{escape_pointer(name if toolkit == name else f'{toolkit}.{name}')}"
