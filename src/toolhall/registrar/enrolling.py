"""What a tool server declares, beside what is known: what of it is new, what is replaced, and what is refused."""

from collections.abc import Sequence

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.model.tool import Tool
from toolhall.registrar.admission import Admission
from toolhall.registrar.ledger import Ledger, Listed
from toolhall.registrar.promises import BrokenPromise, promises, refuse_other_content


class Declared(msgspec.Struct, frozen=True):
    """One toolkit of one version as a tool server declares it, sorted by what has to be done with it."""

    known: tuple[Listed, ...] = ()  # exactly as it is kept
    new: tuple[Listed, ...] = ()
    changed: tuple[Listed, ...] = ()  # a pre-release, which promises nothing


class Enrolling:
    """Reads what is known, changes nothing."""

    def __init__(self, ledger: Ledger, admission: Admission) -> None:
        self._ledger = ledger
        self._admission = admission

    def sort(self, declared: Sequence[Listed]) -> Declared:
        """Raises BrokenPromise, BadDocument or Malformed for what may not stand beside what is known."""
        known = tuple(each for each in declared if self._is_known(each))
        others = [each for each in declared if each not in known]
        changed = tuple(each for each in others if each.kept.id in self._ledger and not promises(each.kept.version))
        new = tuple(each for each in others if each not in changed)
        refuse_other_content([each.tool for each in new], self._versions)
        if new or changed:
            self._refuse_more(declared)
            tools = [each.tool for each in declared]
            self._admission.refuse([each.kept for each in new], tools, None, whole=True)
        return Declared(known, new, changed)

    def waiting(self, declared: Sequence[Listed]) -> list[Listed]:
        """Those that nobody has looked at."""
        found = [self._ledger.get(each.kept.id) for each in declared]
        return [each for each in found if each is not None and each.kept.state == "quarantined"]

    def _refuse_more(self, declared: Sequence[Listed]) -> None:
        """A release has the tools that it had when it was first declared."""
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
        known = self._ledger.get(declared.kept.id) if declared.kept.id in self._ledger else None
        return known is not None and known.kept.digests == declared.kept.digests

    def _versions(self, toolkit: str) -> list[Tool]:
        return [listed.tool for listed in self._ledger.toolkit(toolkit)]
