"""What a tool server declares, beside what is known: what of it is new, what is replaced, and what is refused."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.model.tool import Tool
from toolhall.registrar.admission import Admission
from toolhall.registrar.ledger import Ledger, Listed
from toolhall.registrar.promises import BrokenPromise, promises, refuse_other_content


class Declared(msgspec.Struct, frozen=True):
    """What a tool server declares, sorted by what has to be done with it."""

    new: list[Listed] = []
    changed: list[Listed] = []  # pre-releases, which promise nothing
    waiting: dict[str, Listed] = {}  # by id: of all of it, what nobody has looked at


class Enrolling:
    """Reads what is known, changes nothing."""

    def __init__(self, ledger: Ledger, admission: Admission) -> None:
        self._ledger = ledger
        self._admission = admission

    def sort(self, toolkits: Sequence[Sequence[Listed]]) -> Declared:
        """Each toolkit beside what is known, and beside those before it.

        Raises BrokenPromise, BadDocument or Malformed if one of them may not stand there.
        """
        found = Declared()
        with self._trying() as tried:
            for declared in toolkits:
                new, changed = self._sorted(declared)
                found.new.extend(new)
                found.changed.extend(changed)
                for each in (*new, *changed):
                    tried.append((each.kept.id, self._known(each)))
                    self._ledger.put(each.kept, each.tool)
                listed = [each for each in map(self._known, declared) if each is not None]
                found.waiting.update({each.kept.id: each for each in listed if each.kept.state == "quarantined"})
        return found

    def now(self, ids: Iterable[str]) -> list[Listed]:
        """What these are, once they are kept."""
        return [listed for tool_id in ids if (listed := self._ledger.get(tool_id)) is not None]

    @contextmanager
    def _trying(self) -> Generator[list[tuple[str, Listed | None]]]:
        """What is put into the ledger meanwhile is taken back: by id, with what was there before."""
        tried: list[tuple[str, Listed | None]] = []
        try:
            yield tried
        finally:
            for tool_id, before in reversed(tried):
                if before is None:
                    self._ledger.drop(tool_id)
                else:
                    self._ledger.put(before.kept, before.tool)

    def _sorted(self, declared: Sequence[Listed]) -> tuple[list[Listed], list[Listed]]:
        """What is new, and what is changed."""
        others = [each for each in declared if not self._is_known(each)]
        changed = [each for each in others if self._known(each) is not None and not promises(each.kept.version)]
        new = [each for each in others if each not in changed]
        refuse_other_content([each.tool for each in new], self._versions)
        self._refuse_other_tools(declared)
        if others:
            tools = [each.tool for each in declared]
            self._admission.refuse([each.kept for each in new], tools, None, whole=True)
        return new, changed

    def _refuse_other_tools(self, declared: Sequence[Listed]) -> None:
        """A release has the tools that it had when it was first declared: any replica of it is given any call."""
        first = declared[0].kept
        before = {
            each.kept.tool
            for each in self._ledger.toolkit(first.toolkit)
            if each.kept.version == first.version and promises(first.version)
        }
        now = {each.kept.tool for each in declared}
        if before and before != now:
            names = ", ".join(sorted(before ^ now))
            fix = f"{first.toolkit}@{first.version} is known with other tools ({names}); raise its version"
            raise BrokenPromise([Finding("/tool/version", "contract/changed", fix)])

    def _is_known(self, declared: Listed) -> bool:
        known = self._known(declared)
        return known is not None and known.kept.digests == declared.kept.digests

    def _known(self, declared: Listed) -> Listed | None:
        return self._ledger.get(declared.kept.id) if declared.kept.id in self._ledger else None

    def _versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._ledger.toolkit(toolkit)]
