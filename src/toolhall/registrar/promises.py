"""Refuses what breaks a promise: a version that rises too little, or other content under a version that is taken."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from toolhall.contracts.digest import digests
from toolhall.contracts.release import release
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence

Versions: TypeAlias = Callable[[str], Sequence[Tool]]  # everything that is known of a toolkit, in all its versions


class BrokenPromise(BadDocument):
    """The version does not say what changed; carries every change that it should have said."""


def refuse_broken_promises(tools: Sequence[Tool], known: Versions) -> None:
    """Raise BrokenPromise unless each of these may be published under the version it states."""
    for toolkit, version in dict.fromkeys((tool.id.toolkit, tool.id.version) for tool in tools):
        new = [tool for tool in tools if (tool.id.toolkit, tool.id.version) == (toolkit, version)]
        versions = known(toolkit)
        _refuse_other_content(new, versions)
        _refuse_small_rise(new, _before(version, versions))


def _refuse_other_content(new: Sequence[Tool], known: Sequence[Tool]) -> None:
    by_id = {tool.id: tool for tool in known}
    for tool in new:
        before = by_id.get(tool.id)
        if before is not None and digests(before) != digests(tool):
            fix = f"{tool.id} is registered with other content; raise its version"
            raise BrokenPromise([Finding("/version", "contract/changed", fix)])


def _refuse_small_rise(new: Sequence[Tool], old: Sequence[Tool]) -> None:
    if not old:
        return
    judged = release(old, new)
    if judged.ok:
        return
    needed = f"write version {judged.next}" if judged.next else "write a version that says so"
    what = f"from {old[0].id.version} to {new[0].id.version} this is not a {judged.required} change; {needed}"
    findings = [Finding("/version", "contract/bump", what)]
    findings += [Finding(change.path, f"contract/{change.kind}", change.reason) for change in judged.changes]
    raise BrokenPromise(findings)


def _before(version: str, known: Sequence[Tool]) -> list[Tool]:
    """The tools of the newest version that is older."""
    older = {tool.id.version for tool in known if precedence(tool.id.version) < precedence(version)}
    latest = max(older, key=precedence, default=None)
    return [tool for tool in known if tool.id.version == latest]
