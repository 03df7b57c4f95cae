"""DeclarationPlanner: plans which tools that a tool server declares are new, changed or quarantined."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.model.tool import Tool
from toolhall.registration.records import IndexedTool, RecordIndex
from toolhall.registration.rules import BrokenPromise, RegistrationRules, check_content_unchanged, is_release_version


class DeclarationPlan(msgspec.Struct, frozen=True):
    """The declared tools by what must be done with them."""

    new: list[IndexedTool] = []
    changed: list[IndexedTool] = []  # pre-releases, which may change under one version
    quarantined: dict[str, IndexedTool] = {}  # by id: declared tools that were not reviewed yet


class DeclarationPlanner:
    """Plans the registration of declared toolkits; leaves the index as it was."""

    def __init__(self, index: RecordIndex, rules: RegistrationRules) -> None:
        self._index = index
        self._rules = rules

    def plan(self, toolkits: Sequence[Sequence[IndexedTool]]) -> DeclarationPlan:
        """Check each toolkit against the index and the toolkits before it, and return what to do.

        Raises BrokenPromise, BadDocument or Malformed if one of them may not be registered.
        """
        plan = DeclarationPlan()
        with self._staged() as staged:
            for declared in toolkits:
                new, changed = self._plan_toolkit(declared)
                plan.new.extend(new)
                plan.changed.extend(changed)
                for each in (*new, *changed):
                    staged.append((each.record.id, self._known(each)))
                    self._index.put(each.record, each.tool)
                listed = [each for each in map(self._known, declared) if each is not None]
                plan.quarantined.update({each.record.id: each for each in listed if each.record.state == "quarantined"})
        return plan

    def current(self, ids: Iterable[str]) -> list[IndexedTool]:
        """Return these tools from the index, after they were saved."""
        return [listed for tool_id in ids if (listed := self._index.get(tool_id)) is not None]

    @contextmanager
    def _staged(self) -> Generator[list[tuple[str, IndexedTool | None]]]:
        """Undo changes to the index at the end: the list holds ids and what the index had before."""
        staged: list[tuple[str, IndexedTool | None]] = []
        try:
            yield staged
        finally:
            for tool_id, before in reversed(staged):
                if before is None:
                    self._index.remove(tool_id)
                else:
                    self._index.put(before.record, before.tool)

    def _plan_toolkit(self, declared: Sequence[IndexedTool]) -> tuple[list[IndexedTool], list[IndexedTool]]:
        """Return the new and the changed tools of one toolkit."""
        others = [each for each in declared if not self._is_known(each)]
        changed = [
            each for each in others if self._known(each) is not None and not is_release_version(each.record.version)
        ]
        new = [each for each in others if each not in changed]
        check_content_unchanged([each.tool for each in new], self._versions)
        self._check_same_tools(declared)
        if others:
            tools = [each.tool for each in declared]
            self._rules.check([each.record for each in new], tools, None, complete=True)
        return new, changed

    def _check_same_tools(self, declared: Sequence[IndexedTool]) -> None:
        """Check that a release has the tools it had when it was first declared: every replica gets every call."""
        first = declared[0].record
        before = {
            each.record.tool
            for each in self._index.in_toolkit(first.toolkit)
            if each.record.version == first.version and is_release_version(first.version)
        }
        now = {each.record.tool for each in declared}
        if before and before != now:
            names = ", ".join(sorted(before ^ now))
            fix = f"{first.toolkit}@{first.version} is known with other tools ({names}); raise its version"
            raise BrokenPromise([Finding("/tool/version", "contract/changed", fix)])

    def _is_known(self, declared: IndexedTool) -> bool:
        known = self._known(declared)
        return known is not None and known.record.digests == declared.record.digests

    def _known(self, declared: IndexedTool) -> IndexedTool | None:
        return self._index.get(declared.record.id) if declared.record.id in self._index else None

    def _versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._index.in_toolkit(toolkit)]
