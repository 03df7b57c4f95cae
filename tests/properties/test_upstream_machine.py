"""The sync of an upstream equals an oracle, whatever it lists, whoever says yes, and whenever the hall restarts."""

import asyncio
from typing import Any, NamedTuple

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.harness.seeds import examples
from tests.unit.registration.upstream_lists import UpstreamHarness, listing, schema, tool, upstream
from toolhall.model.upstream import Upstream

NAMES = ("add", "drop", "find")
Version = tuple[int, int, int]


class Definition(NamedTuple):
    """What an upstream may say of one tool."""

    word: int
    reads: bool
    needs_language: bool

    def written(self, name: str) -> dict[str, Any]:
        needed = ("text", "lang") if self.needs_language else ("text",)
        hints = {"readOnlyHint": True} if self.reads else {}
        return tool(
            name,
            f"Does this {self.word}.",
            inputSchema=schema(*needed, text="string", lang="string"),
            annotations=hints,
        )

    def size_of_change(self, new: "Definition") -> int:
        """0: texts only, 1: additive, 2: breaking."""
        if (self.reads and not new.reads) or (new.needs_language and not self.needs_language):
            return 2
        return int(self[1:] != new[1:])


class Known(NamedTuple):
    """One tool as the oracle knows it."""

    served: Definition | None
    version: Version
    waiting: Definition | None
    is_gone: bool = False

    @property
    def waiting_version(self) -> Version:
        if self.served is None or self.waiting is None:
            return (1, 0, 0)
        major, minor, patch = self.version
        return ((major, minor, patch + 1), (major, minor + 1, 0), (major + 1, 0, 0))[
            self.served.size_of_change(self.waiting)
        ]


DEFINITIONS = st.builds(Definition, st.integers(0, 2), st.booleans(), st.booleans())
LISTS = st.dictionaries(st.sampled_from(NAMES), DEFINITIONS, max_size=3)


def source(on_change: str, trusted: bool) -> Upstream:
    """The upstream with these settings."""
    return upstream(on_change=on_change, trusted=trusted, named=True)


SOURCES = st.builds(
    source, st.sampled_from(["keep", "keep", "hold", "follow"]), st.sampled_from([False, False, False, True])
)


class UpstreamMachine(RuleBasedStateMachine):
    """Does every step with the real sync and with a plain reading of the rules."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.known: dict[str, Known] = {}
        self.source = upstream()
        self.hall = UpstreamHarness()
        self.local = False

    @initialize(local=st.booleans(), source=SOURCES)
    def begin(self, local: bool, source: Upstream) -> None:
        self.local, self.source = local, source
        self.hall = UpstreamHarness(local=local)
        self.loop.run(self.hall.open())

    def teardown(self) -> None:
        self.loop.close()

    @rule(offered=LISTS, shared=st.sampled_from([True, True, False]), source=st.none() | SOURCES)
    def sync(self, offered: dict[str, Definition], shared: bool, source: Upstream | None) -> None:
        before, heard, records = self.listed(), len(self.hall.heard), self.hall.service.all_records
        self.source = source or self.source
        found = listing(*(each.written(name) for name, each in offered.items()), shared=shared)
        outcome = self.loop.run(self.hall.sync.apply(self.source, found))
        first = not self.known
        for name, each in offered.items():
            self.known[name] = self.offered(self.known.get(name), each, first=first, shared=shared)
        for name in set(self.known) - set(offered) if shared else ():
            self.known[name] = self.known[name]._replace(waiting=None, is_gone=True)
            if self.known[name].served is None:
                del self.known[name]
        assert len(self.hall.heard) - heard == int(self.listed() != before)
        if not outcome:
            assert self.states() == {each.id: each.state for each in records}
        again = self.hall.service.all_records
        assert not self.loop.run(self.hall.sync.apply(self.source, found))
        assert self.hall.service.all_records == again

    def offered(self, known: Known | None, new: Definition, *, first: bool, shared: bool) -> Known:
        """What becomes of a tool that is offered so."""
        chosen = self.source.settings
        if known is None or known.served is None:
            at_once = chosen.trusted or (first and self.local)
            return Known(new, (1, 0, 0), None) if at_once else Known(None, (1, 0, 0), new)
        if known.served == new:
            return Known(new, known.version, None if shared else known.waiting)
        changed = Known(known.served, known.version, new)
        if chosen.on_change == "follow" and (chosen.trusted or known.served.size_of_change(new) < 2):
            return Known(new, changed.waiting_version, None)
        return changed

    @precondition(lambda self: any(each.waiting for each in self.known.values()))
    @rule()
    def accept(self) -> None:
        heard, before = len(self.hall.heard), self.listed()
        expected = {self.id_of(name, each.waiting_version) for name, each in self.known.items() if each.waiting}
        assert set(self.loop.run(self.hall.accept())) == expected
        self.known = {
            name: Known(each.waiting, each.waiting_version, None) if each.waiting else each
            for name, each in self.known.items()
        }
        assert len(self.hall.heard) - heard == int(self.listed() != before) == 1

    @rule()
    def restart(self) -> None:
        self.hall = self.loop.run(self.hall.restarted(self.source))

    @invariant()
    def serves_what_the_oracle_says(self) -> None:
        entries = {entry.id: entry for entry in self.hall.registry.snapshot.entries}
        assert {name: entry.tool.description for name, entry in entries.items()} == self.listed()
        for name, each in self.known.items():
            if each.served is None or each.is_gone:
                continue
            entry = entries[self.id_of(name, each.version)]
            size = None if each.waiting is None else each.served.size_of_change(each.waiting)
            holds_all = size is not None and (size == 2 or self.source.settings.on_change == "hold")
            assert (entry.held is not None) is holds_all
            assert (entry.next_input is not None) is (size == 1 and not holds_all)

    @invariant()
    def reviews_what_waits(self) -> None:
        waiting = {self.id_of(name, each.waiting_version) for name, each in self.known.items() if each.waiting}
        assert {item.id for item in self.hall.sync.review("Docs").items} == waiting
        assert {name for name, state in self.states().items() if state == "quarantined"} == waiting

    def listed(self) -> dict[str, str]:
        """The tools that models are shown, and their texts."""
        return {
            self.id_of(name, each.version): f"Does this {each.served.word}."
            for name, each in self.known.items()
            if each.served is not None and not each.is_gone
        }

    def states(self) -> dict[str, str]:
        return {each.id: each.state for each in self.hall.service.all_records}

    @staticmethod
    def id_of(name: str, version: Version) -> str:
        return f"Docs.{name}@{'.'.join(map(str, version))}"


WITHOUT_SHRINKING = settings(derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])


def test_sync_of_an_upstream_matches_the_oracle() -> None:
    run_state_machine_as_test(
        UpstreamMachine, settings=settings(WITHOUT_SHRINKING, max_examples=examples(120), stateful_step_count=20)
    )
