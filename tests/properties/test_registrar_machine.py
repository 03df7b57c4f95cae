"""The registration service equals an oracle, whatever is registered, activated, removed and restarted in any order."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

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
from tests.properties.registering.documents import CODE, CODE_NAMES, CODE_VERSIONS, FILES, KITS, SAFE, Draft, Recipe
from tests.properties.registering.hall import RestartableRegistrar, empty_file, outcome
from tests.properties.registering.oracle import Oracle, RegistrationRefused, key_of, version_of
from toolhall.registry.registry import DIALECT_NAMINGS
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.sqlite import open_sqlite

RECIPES = st.builds(Recipe, *[st.sampled_from([0, 0, 1])] * 3)
# Toolkits that affect each other; an example uses one or two of these groups, and code.
RELATED_TOOLKITS = [(), (), ("calc",), ("Wire",), ("Ox",), ("Eye",), ("Eye", "EYE", SAFE), ("own",), ("own",), FILES]
UNKNOWN = "calc.nothing"


@st.composite
def drafts(draw: st.DrawFn, toolkit: str, versions: Sequence[str]) -> Draft:
    kit = KITS[toolkit]
    many = len(kit.names) if kit.dialect in ("machine", "hub") else 1
    names = draw(st.lists(st.sampled_from(kit.names), min_size=1, max_size=many, unique=True))
    return Draft(toolkit, draw(st.sampled_from(versions)), tuple((name, draw(RECIPES)) for name in names))


def some_of(draw: st.DataObject, choices: Sequence[str], most: int) -> list[str]:
    return draw.draw(st.lists(st.sampled_from(choices), min_size=min(2, len(choices)), max_size=most, unique=True))


class RegistrationMachine(RuleBasedStateMachine):
    """Does every step twice, with the registration service and with the oracle, and compares them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.service = RestartableRegistrar(self.opener())
        self.oracle = Oracle(self.service.today)
        self.drafts: list[Draft] = []  # what was registered once
        self.versions: dict[str, list[str]] = {}  # by toolkit
        self.code_ids: list[str] = []
        self.run(self.service.restart({}, ()), lambda: None)

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """With few toolkits and few versions, some of them there."""
        groups = data.draw(st.lists(st.sampled_from(RELATED_TOOLKITS), min_size=1, max_size=2))
        toolkits = [toolkit for group in groups for toolkit in group]
        self.versions = {toolkit: some_of(data, KITS[toolkit].versions, 3) for toolkit in toolkits}
        versions = some_of(data, CODE_VERSIONS, 2)
        self.code_ids = [f"{CODE}.{name}@{version}" for name in CODE_NAMES for version in versions]
        for toolkit in toolkits:
            self.add(self.draft(data, toolkit))
        if data.draw(st.booleans()):
            self.activate_everything()
        if not toolkits or data.draw(st.booleans()):
            self.restart(data)

    def opener(self) -> Callable[[], Stores]:
        stores = in_memory()
        return lambda: stores

    def teardown(self) -> None:
        self.service.close()
        self.loop.close()

    def run(self, real: Awaitable[object], plain: Callable[[], None]) -> bool:
        """Both agree on whether it may be done, and why not."""
        try:
            plain()
            expected: frozenset[str | None] = frozenset([None])
        except RegistrationRefused as refusal:
            expected = refusal.why
        refused = self.loop.run(outcome(real))
        assert refused in expected
        return refused is None

    def change(self, real: Awaitable[object], plain: Callable[[], None]) -> bool:
        """As `run`; and subscribers are notified once if the listed tools changed, and else never."""
        before, self.service.notified = self.service.listed, 0
        done = self.run(real, plain)
        assert self.service.notified == int(self.service.listed != before)
        return done

    # --- from outside -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        self.add(self.draft(data, data.draw(st.sampled_from(list(self.versions)))))

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def register_another_version(self, data: st.DataObject) -> None:
        """One that is not there yet, so that it is a matter of promises."""
        toolkit = data.draw(st.sampled_from(list(self.versions)))
        there = {version_of(each) for each in self.oracle.rows if each.startswith(f"{toolkit}.")}
        left = [version for version in KITS[toolkit].versions if version not in there]
        if left:
            self.add(data.draw(drafts(toolkit, left)))

    @precondition(lambda self: self.drafts)
    @rule(data=st.data(), raised=st.booleans())
    def register_again(self, data: st.DataObject, raised: bool) -> None:
        """The same once more, or the same content under another version."""
        draft = data.draw(st.sampled_from(self.drafts))
        if raised:
            draft = draft._replace(version=data.draw(st.sampled_from(self.versions[draft.toolkit])))
        self.change(self.service.register(draft), lambda: self.oracle.register(draft))

    @precondition(lambda self: self.oracle.code)
    @rule(draft=drafts(CODE, KITS[CODE].versions))
    def register_as_code(self, draft: Draft) -> None:
        assert not self.change(self.service.register(draft), lambda: self.oracle.register(draft))

    # --- what the operator does ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.oracle.known)
    @rule(data=st.data(), right=st.booleans())
    def activate(self, data: st.DataObject, right: bool) -> None:
        name = self.name(data)
        self.change(self.service.activate(name, right=right), lambda: self.oracle.activate(name, seen=right))

    @precondition(lambda self: self.oracle.withheld)
    @rule()
    def activate_everything(self) -> None:
        """So that there is much to be served."""
        for tool_id in sorted(self.oracle.withheld):
            activate = partial(self.oracle.activate, tool_id, seen=True)
            self.change(self.service.activate(tool_id, right=True), activate)

    @precondition(lambda self: self.oracle.known)
    @rule(data=st.data())
    def deactivate(self, data: st.DataObject) -> None:
        name = self.name(data)
        self.change(self.service.registrar.deactivate(name, "eve"), lambda: self.oracle.deactivate(name))

    @precondition(lambda self: self.oracle.known)
    @rule(data=st.data(), days=st.none() | st.integers(0, 3), with_successor=st.booleans())
    def deprecate(self, data: st.DataObject, days: int | None, with_successor: bool) -> None:
        name, successor = self.name(data), self.name(data) if with_successor else None
        sunset = None if days is None else self.service.today + timedelta(days)
        self.change(
            self.service.registrar.deprecate(name, "eve", sunset, successor),
            lambda: self.oracle.deprecate(name, sunset, successor),
        )

    @precondition(lambda self: self.oracle.known)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        name = self.name(data)
        self.change(self.service.registrar.roll_back(name, "eve"), lambda: self.oracle.roll_back(name))

    @precondition(lambda self: self.oracle.known)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = self.name(data)
        self.change(self.service.registrar.remove(name, "eve"), lambda: self.oracle.remove(name))

    @rule(days=st.integers(1, 2))
    def pass_days(self, days: int) -> None:
        to = self.service.today + timedelta(days)
        self.change(self.service.pass_days(to), lambda: self.oracle.pass_days(to))

    # --- code, files, restarts ----------------------------------------------------------------------------------------

    @rule(data=st.data(), recipe=RECIPES)
    def add_code_tool(self, data: st.DataObject, recipe: Recipe) -> None:
        tool_id = data.draw(st.sampled_from(self.code_ids))
        if tool_id not in self.oracle.code:
            known = self.oracle.rows.get(tool_id)
            recipe = recipe if known is None or data.draw(st.booleans()) else known.recipe
            self.change(self.service.add_code_tool(tool_id, recipe), lambda: self.oracle.add_code_tool(tool_id, recipe))

    @precondition(lambda self: self.oracle.code)
    @rule(data=st.data())
    def remove_code_tool(self, data: st.DataObject) -> None:
        tool_id = data.draw(st.sampled_from(sorted(self.oracle.code)))
        self.change(self.remove_code_tool_once(tool_id), lambda: self.oracle.remove_code_tool(tool_id))

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """With the same code or other, and files that may have changed; what may not start like this starts without."""
        code = self.code_for_restart(data)
        files = [self.file_for_restart(data, toolkit) for toolkit in FILES if toolkit in self.versions]
        for own, papers in ((code, files), ({}, [])):
            if self.run(self.service.restart(own, papers), partial(self.oracle.restart, own, papers)):
                self.drafts += papers
                return
        raise AssertionError("without code and files everything starts")

    # --- what must be true all the time -------------------------------------------------------------------------------

    @invariant()
    def served_tools_match_the_oracle(self) -> None:
        snapshot = self.service.registry.snapshot
        assert {entry.id for entry in snapshot.entries} == self.oracle.served
        assert {key: entry.id for key in self.keys() if (entry := snapshot.find(key))} == self.oracle.newest

    @invariant()
    def withheld_tools_have_their_reason(self) -> None:
        found = {each: self.service.registry.inactive.find(each) for each in self.oracle.known}
        assert {each: reason.state for each, reason in found.items() if reason} == self.oracle.withheld

    @invariant()
    def nothing_quarantined_is_served(self) -> None:
        quarantined = {kept.id for kept in self.service.registrar.all_records if kept.state == "quarantined"}
        assert quarantined.isdisjoint(entry.id for entry in self.service.registry.snapshot.entries)

    @invariant()
    def stored_rows_match_the_oracle(self) -> None:
        stored = sorted(self.loop.run(self.service.store.all()), key=lambda kept: kept.id)
        assert stored == self.service.written
        rows = self.oracle.rows
        assert {kept.id: (kept.state, kept.sunset, kept.successor) for kept in stored} == {
            each: (row.state, row.sunset.isoformat() if row.sunset else None, row.successor)
            for each, row in rows.items()
        }

    @invariant()
    def history_matches_the_oracle(self) -> None:
        recorded: dict[str, list[str]] = {}
        for event in reversed(self.loop.run(self.service.store.history(limit=10_000))):
            recorded.setdefault(event.id, []).append(event.what)
        assert recorded == self.oracle.history

    @invariant()
    def dialect_names_find_their_tools(self) -> None:
        published, snapshot = self.service.registry.dialect_names, self.service.registry.snapshot
        for dialect, spelling in DIALECT_NAMINGS.items():
            for entry in snapshot.entries:
                name, version = spelling.name_parts(entry.tool), spelling.format_version(entry.tool.id.version)
                bare, exact = published.find(dialect, name), published.find(dialect, name, version)
                assert bare is not None
                assert bare.id == self.oracle.newest[key_of(entry.id)]
                assert exact is not None
                assert key_of(exact.id) == key_of(entry.id)
                assert exact.id == entry.id or version != entry.tool.id.version

    def code_for_restart(self, data: st.DataObject) -> dict[str, Recipe]:
        """The code as it was, all that ever was, or none; with something new or changed in it, or without."""
        ever = {each: row.recipe for each, row in self.oracle.rows.items() if row.from_code} | self.oracle.code
        kept = data.draw(st.sampled_from([ever, ever, self.oracle.code, {}]))
        return kept | data.draw(st.dictionaries(st.sampled_from(self.code_ids), RECIPES, max_size=2))

    def file_for_restart(self, data: st.DataObject, toolkit: str) -> Draft:
        """The file as it may have been before, or another; in a version that is there already, more often than not."""
        before = [draft for draft in self.drafts if draft.toolkit == toolkit]
        again = data.draw(st.booleans()) and bool(before)
        return data.draw(st.sampled_from(before)) if again else self.draft(data, toolkit)

    def add(self, draft: Draft) -> None:
        if self.change(self.service.register(draft), lambda: self.oracle.register(draft)):
            self.drafts.append(draft)

    def draft(self, data: st.DataObject, toolkit: str) -> Draft:
        return data.draw(drafts(toolkit, self.versions[toolkit]))

    async def remove_code_tool_once(self, tool_id: str) -> None:
        assert self.service.registrar.remove_code_tool(tool_id)
        assert not self.service.registrar.remove_code_tool(tool_id)

    def keys(self) -> set[str]:
        return {key_of(each) for each in self.oracle.known}

    def name(self, data: st.DataObject) -> str:
        """An id, or a name that all versions share; now and then one of nothing."""
        return data.draw(
            st.sampled_from([*sorted(self.oracle.known), *sorted(self.oracle.known | self.keys()), UNKNOWN])
        )


class SqliteRegistrationMachine(RegistrationMachine):
    """The same over SQLite, opened anew with every restart."""

    def opener(self) -> Callable[[], Stores]:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / DATABASE_FILE).write_bytes(empty_file())
        return lambda: open_sqlite(self.folder)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


# A failure is shown as it was found: making it smaller would outlast the time that a test may take.
WITHOUT_SHRINKING = settings(derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])


def test_registration_in_memory_matches_the_oracle() -> None:
    run_state_machine_as_test(
        RegistrationMachine, settings=settings(WITHOUT_SHRINKING, max_examples=examples(100), stateful_step_count=30)
    )


def test_registration_over_sqlite_matches_the_oracle() -> None:
    run_state_machine_as_test(
        SqliteRegistrationMachine, settings=settings(WITHOUT_SHRINKING, max_examples=10, stateful_step_count=20)
    )
