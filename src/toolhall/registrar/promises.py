"""Refuses what breaks a promise: a version that rises too little, or other content under a version that is taken."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from toolhall.contracts.changes import Change, Kind
from toolhall.contracts.digest import digests
from toolhall.contracts.release import Release, release
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence

Versions: TypeAlias = Callable[[str], Sequence[Tool]]  # everything that is known of a toolkit, in all its versions
FIRST_RELEASE = (1, 0, 0)


class BrokenPromise(BadDocument):
    """The version does not say what changed; carries every change that it should have said."""


def promises(version: str) -> bool:
    """Whether it says that nothing will break: SemVer promises nothing before 1.0.0, and nothing of a pre-release."""
    is_release, numbers, _ = precedence(version)
    return is_release and numbers >= FIRST_RELEASE


def refuse_other_content(new: Sequence[Tool], known: Versions) -> None:
    """Raise BrokenPromise if one of these is known under the same version and says something else."""
    for tool in new:
        before = next((each for each in known(tool.id.toolkit) if each.id == tool.id), None)
        if before is not None and digests(before) != digests(tool):
            judged = release([before], [tool])
            fix = f"{tool.id} is registered with other content; {_needed(judged)}"
            raise BrokenPromise([Finding("/version", "contract/changed", fix), *map(_finding, judged.changes)])


def refuse_small_rise(new: Sequence[Tool], known: Versions, behaviour: Kind | None, *, whole: bool) -> None:
    """Raise BrokenPromise unless each version rises as the changes demand.

    `whole` says that these are all tools of their toolkit: one that is missing was removed.
    """
    for toolkit, version in dict.fromkeys((tool.id.toolkit, tool.id.version) for tool in new):
        together = [tool for tool in new if (tool.id.toolkit, tool.id.version) == (toolkit, version)]
        versions = known(toolkit)
        for group in [together] if whole else [[tool] for tool in together]:
            names = {tool.id.tool for tool in group}
            old = _before(version, [each for each in versions if whole or each.id.tool in names])
            _refuse(old, group, behaviour)


def _refuse(old: Sequence[Tool], new: Sequence[Tool], behaviour: Kind | None) -> None:
    if not old:
        return
    judged = release(old, new, behaviour)
    if judged.ok:
        return
    rise = f"from {old[0].id.version} to {new[0].id.version}"
    what = f"{rise} is too little for a {judged.required} change; {_needed(judged)}"
    raise BrokenPromise([Finding("/version", "contract/bump", what), *map(_finding, judged.changes)])


def _needed(judged: Release) -> str:
    """What to write; a pre-release is for who is not done yet."""
    if judged.next is None:
        return "write a version that says so"
    return f"write version {judged.next} (or {judged.next}-dev while you work on it)"


def _finding(change: Change) -> Finding:
    return Finding(change.path, f"contract/{change.kind}", change.reason)


def _before(version: str, known: Sequence[Tool]) -> list[Tool]:
    """The tools of the newest release that is older; a pre-release promised nothing, whatever its number."""
    older = {tool.id.version for tool in known if _is_release_before(tool.id.version, version)}
    latest = max(older, key=precedence, default=None)
    return [tool for tool in known if tool.id.version == latest]


def _is_release_before(old: str, new: str) -> bool:
    is_release, *_ = before = precedence(old)
    return is_release and before < precedence(new)
