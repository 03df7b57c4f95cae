"""Keeps the registry what the papers say it is: what is active is served until its last day, the rest is withheld."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time

import msgspec

from toolhall.model.errors import Malformed
from toolhall.registrar.ledger import Listed
from toolhall.registry.entry import Entry, Runner, compile_entry
from toolhall.registry.names import Claims
from toolhall.registry.registry import Conflict, Registry
from toolhall.registry.withheld import RETIRED, UNSERVED
from toolhall.stores.base import Kept

_LONGEST_SLEEP = 3_600.0  # clocks are set, and machines sleep
_log = logging.getLogger("toolhall.registrar")


class Serving:
    """The operator's own code brings its own runners; one runner has all the rest."""

    def __init__(self, registry: Registry, clock: Callable[[], float], runner: Runner) -> None:
        self._registry = registry
        self._clock = clock
        self._runner = runner
        self._own: dict[str, Entry] = {}
        self._toolkits: Counter[str] = Counter()  # of the operator's own tools
        self.own_claims = Claims()
        self._ending: dict[str, Listed] = {}  # what is active, and has a last day
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def own(self) -> tuple[Entry, ...]:
        """The operator's own tools, served or not."""
        return tuple(self._own.values())

    def bring(self, entries: Iterable[Entry]) -> None:
        """Tools of the operator's own code are there from now on."""
        for entry in entries:
            self._own[entry.id] = entry
            self._toolkits[entry.tool.id.toolkit] += 1
            self.own_claims.take(entry.tool)

    def take_away(self, name: str) -> Entry | None:
        """A tool of the operator's own code is there no more: by id or published name, served or not."""
        found = self._registry.snapshot.find(name)
        by_name = [each for each in self._own.values() if each.tool.name == name]
        entry = self._own.pop(found.id if found else by_name[-1].id if by_name else name, None)
        if entry is not None:
            self.own_claims.release(entry.tool)
            self._toolkits[entry.tool.id.toolkit] -= 1
            self._registry.change(without={entry.id})
        return entry

    def brings(self, kept: Kept) -> bool:
        """Whether it could be served: of code only what is there, and nothing else beside that in its toolkit."""
        return kept.id in self._own if kept.origin == "code" else not self.has(kept.toolkit)

    def has(self, toolkit: str) -> bool:
        """Whether a toolkit is the operator's own code."""
        return self._toolkits[toolkit] > 0

    def refuse_twin(self, listed: Listed) -> None:
        """Raise Malformed if this cannot be served beside what is."""
        if problem := self._registry.problem(self._entry(listed)):
            raise Malformed(problem)

    def show(self, changed: Iterable[Listed]) -> None:
        """Serve or withhold each of these, as its papers say now."""
        everything = [each for each in changed if not self._stands(each) and not self.outdoes(each.kept)]
        served = [each for each in everything if self._is_served(each.kept)]
        for each in everything:
            self._registry.withheld.drop(each.kept.id)
            self._ending.pop(each.kept.id, None)
            if not self._is_served(each.kept):
                self._registry.withheld.put(each.tool, self._state(each.kept))
            if each.kept.state == "active" and each.kept.sunset is not None and not self._is_over(each.kept):
                self._ending[each.kept.id] = each
        try:
            self._registry.change([self._entry(each) for each in served], {each.kept.id for each in everything})
        except Conflict:
            self._show_singly(everything, served)

    def hide(self, tool_id: str) -> None:
        """It is known no more."""
        self._registry.change(without={tool_id})
        self._registry.withheld.drop(tool_id)
        self._ending.pop(tool_id, None)

    def watch(self) -> None:
        """Take tools away when their last day is over; in the loop that runs now."""
        self.stop()
        over = [each for each in self._ending.values() if self._is_over(each.kept)]
        if over:
            self.show(over)
        days = [each.kept.sunset for each in self._ending.values() if each.kept.sunset is not None]
        if days:
            left = _begin(min(days)) - self._clock()
            self._alarm = asyncio.get_running_loop().call_later(min(left, _LONGEST_SLEEP), self.watch)

    def stop(self) -> None:
        """Watch no longer."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _show_singly(self, everything: list[Listed], served: list[Listed]) -> None:
        """One of them has a twin among what is served, which was there first: that one alone is left out."""
        self._registry.change(without={each.kept.id for each in everything})
        for each in sorted(served, key=lambda each: each.kept.id not in self._own):  # code wins
            try:
                self._registry.add([self._entry(each)])
            except Conflict as conflict:
                _log.warning("%s is not served: %s", each.kept.id, conflict)
                self._registry.withheld.put(each.tool, UNSERVED)

    def _stands(self, listed: Listed) -> bool:
        """Whether the operator's own tool is served already, exactly so; then its place in lists stays, too."""
        own = self._own.get(listed.kept.id)
        stands = own is not None and self._registry.snapshot.find(own.id) is own
        return stands and self._is_served(listed.kept) and listed.kept.deprecated_at is None

    def outdoes(self, kept: Kept) -> bool:
        """Whether the operator's own code has the very id of this, which is then as if it were not there."""
        return kept.origin != "code" and kept.id in self._own

    def _is_served(self, kept: Kept) -> bool:
        return kept.state == "active" and not self._is_over(kept) and self.brings(kept)

    def _is_over(self, kept: Kept) -> bool:
        return kept.sunset is not None and _begin(kept.sunset) <= self._clock()

    def _state(self, kept: Kept) -> str:
        if kept.state != "active":
            return kept.state
        return RETIRED if self._is_over(kept) else UNSERVED

    def _entry(self, listed: Listed) -> Entry:
        own = self._own.get(listed.kept.id)
        if own is None:
            return compile_entry(listed.tool, self._runner, known_good=True)
        deprecation = listed.tool.deprecation
        if own.tool.deprecation == deprecation:
            return own
        return msgspec.structs.replace(own, tool=msgspec.structs.replace(own.tool, deprecation=deprecation))


def _begin(day: str) -> float:
    """When a day begins, UTC."""
    return datetime.combine(date.fromisoformat(day), time.min, UTC).timestamp()
