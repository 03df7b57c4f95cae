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


class BrokenPromise(BadDocument):
    """The version does not say what changed; carries every change that it should have said."""


def promises(version: str) -> bool:
    """Whether it says what may change: a pre-release says nothing."""
    is_release, *_ = precedence(version)
    return is_release


def refuse_other_content(new: Sequence[Tool], known: Versions) -> None:
    """Raise BrokenPromise if one of these is known under the same version and says something else."""
    for tool in new:
        before = next((each for each in known(tool.id.toolkit) if each.id == tool.id), None)
        if before is not None and digests(before) != digests(tool):
            judged = release([before], [tool])
            fix = f"{tool.id} is registered with other content; {_needed(judged, known(tool.id.toolkit))}"
            raise BrokenPromise([Finding("/version", "contract/changed", fix), *map(_finding, judged.changes)])


def refuse_other_spelling(new: Sequence[Tool], known: Versions) -> None:
    """Raise BrokenPromise for a version that is there in another spelling: `1.0`, `1.0.0` and `1.0.0+build` are one."""
    for tool in new:
        for other in (*known(tool.id.toolkit), *new):
            same = other.id.toolkit == tool.id.toolkit and other.id.tool == tool.id.tool and other.id != tool.id
            if same and precedence(other.id.version) == precedence(tool.id.version):
                fix = f"{tool.id} is the same version as {other.id}; raise one of its three numbers"
                raise BrokenPromise([Finding("/version", "contract/same-version", fix)])


def refuse_small_rise(new: Sequence[Tool], known: Versions, behaviour: Kind | None, *, whole: bool) -> None:
    """Raise BrokenPromise unless each version rises as the changes demand.

    `whole` says that these are all tools of their toolkit: one that is missing was removed.
    """
    for toolkit, version in dict.fromkeys((tool.id.toolkit, tool.id.version) for tool in new):
        together = [tool for tool in new if (tool.id.toolkit, tool.id.version) == (toolkit, version)]
        versions = known(toolkit)
        for group in [together] if whole else [[tool] for tool in together]:
            names = {tool.id.tool for tool in group}
            others = [each for each in versions if whole or each.id.tool in names]
            _refuse_after(_before(version, others), group, behaviour, others)
            _refuse_before(group, _after(version, others), others)


def _refuse_after(old: Sequence[Tool], new: Sequence[Tool], behaviour: Kind | None, known: Sequence[Tool]) -> None:
    """Refuse what comes after a release and does not say what changed since."""
    judged = release(old, new, behaviour) if old else None
    if judged is None or judged.ok:
        return
    rise = f"from {old[0].id.version} to {new[0].id.version}"
    what = f"{rise} is too little for a {judged.required} change; {_needed(judged, known)}"
    raise BrokenPromise([Finding("/version", "contract/bump", what), *map(_finding, judged.changes)])


def _refuse_before(new: Sequence[Tool], later: Sequence[Tool], known: Sequence[Tool]) -> None:
    """Refuse what comes below a release that would not keep its promises."""
    judged = release(new, later) if later else None
    if judged is None or judged.ok:
        return
    top = max((each.id.version for each in known), key=precedence)
    what = f"{later[0].id.version} is registered, and does not keep what this promises; write a version above {top}"
    raise BrokenPromise([Finding("/version", "contract/bump", what), *map(_finding, judged.changes)])


def _needed(judged: Release, known: Sequence[Tool]) -> str:
    """What to write; a pre-release is for who is not done yet."""
    if judged.next is None:
        return "write a version that says so"
    versions = {each.id.version for each in known}
    if judged.next in versions:
        return f"write a version above {max(versions, key=precedence)}"
    return f"write version {judged.next} (or {judged.next}-dev while you work on it)"


def _finding(change: Change) -> Finding:
    return Finding(change.path, f"contract/{change.kind}", change.reason)


def _before(version: str, known: Sequence[Tool]) -> list[Tool]:
    """The tools of the newest release that is older; a pre-release promised nothing, whatever its number."""
    older = [each.id.version for each in known if promises(each.id.version) and _is_less(each.id.version, version)]
    latest = max(older, key=precedence, default=None)
    return [tool for tool in known if tool.id.version == latest]


def _after(version: str, known: Sequence[Tool]) -> list[Tool]:
    """The tools of the oldest release that is newer than this one, if this is a release."""
    newer = [each.id.version for each in known if _is_less(version, each.id.version)] if promises(version) else []
    first = min(newer, key=precedence, default=None)
    return [tool for tool in known if tool.id.version == first]


def _is_less(one: str, other: str) -> bool:
    return precedence(one) < precedence(other)
