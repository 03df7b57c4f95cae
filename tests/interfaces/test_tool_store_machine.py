"""The tool store in SQLite equals the memory store, whatever is saved, replaced, removed and reopened in any order."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.interfaces.tool_records import changed, event, kept
from tests.interfaces.tool_stores import open_readonly, open_store
from toolhall.stores.common import DATABASE_FILE, Stale, Unstorable
from toolhall.stores.tools import MemoryToolStore, ToolEvent, ToolRecord, ToolStore

# Everything that UTF-8 can say, but NUL.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
moments = st.floats(0, 1e11, allow_subnormal=False)
values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | texts, st.lists, max_leaves=5)
details: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.text(max_size=5), values, max_size=3)
odd_rows = st.builds(
    kept,
    toolkit=st.sampled_from(["Kit", "Other"]),
    name=st.sampled_from(["pick", "put", "Pick", "pïck"]),
    version=st.sampled_from(["1.0.0", "1.0.0-rc.1", "2.0.0+b"]),
    dialect=texts,
    document=st.binary(max_size=40),
    number=st.integers(0, 2**31 - 1),
    state=st.sampled_from(["registered", "quarantined", "active", "inactive"]),
    sunset=st.none() | texts,
    successor=st.none() | texts,
    origin=st.sampled_from(["code", "file", "http", "cli", "tool-server"]),
    origin_detail=texts,
    by=texts,
    registered_at=moments,
    changed_at=moments,
    shown_digest=texts,
    contract_digest=texts,
)
WHAT = st.sampled_from(["registered", "activated", "removed", "rolled back"])


@cache
def empty_file() -> bytes:
    """A store that nobody has used, so that not every example makes its tables."""
    with tempfile.TemporaryDirectory() as folder:
        open_store(Path(folder)).close()
        return (Path(folder) / DATABASE_FILE).read_bytes()


class ToolStoreMachine(RuleBasedStateMachine):
    """Does the same to both, with rows as they are and as they were."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / DATABASE_FILE).write_bytes(empty_file())
        self.oracle, self.sqlite = MemoryToolStore(), open_store(self.folder)
        self.seen: list[ToolRecord] = []  # every row that was ever stored, most of them stale

    def teardown(self) -> None:
        self.sqlite.close()
        self.loop.close()
        shutil.rmtree(self.folder)

    def run_on_both(self, do: Callable[[ToolStore], Awaitable[Any]]) -> Any:
        """Do it to both: they return the same, or refuse in the same words."""
        ends = [self.loop.run(_end(do, store)) for store in (self.oracle, self.sqlite)]
        assert ends[0] == ends[1]
        return ends[0]

    def save(self, rows: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        saved = self.run_on_both(lambda store: store.save(rows, events))
        self.seen += saved if isinstance(saved, tuple) else ()

    @rule(rows=st.lists(odd_rows, max_size=4), what=WHAT, detail=details)
    def save_new(self, rows: list[ToolRecord], what: str, detail: dict[str, Any]) -> None:
        self.save(rows, [event(row, what, **detail) for row in rows])

    @rule(data=st.data(), by=texts, document=st.binary(max_size=5))
    def replace(self, data: st.DataObject, by: str, document: bytes) -> None:
        rows = [changed(row, by=by, document=document) for row in self.some_records(data)]
        self.save(rows, [event(row, "replaced") for row in rows])

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        rows = self.some_records(data)
        self.run_on_both(lambda store: store.remove(rows, [event(row, "removed") for row in rows]))

    @rule()
    def reopen(self) -> None:
        self.sqlite.close()
        self.sqlite = open_store(self.folder)

    @rule(limit=st.integers(-1, 5))
    def read_by_a_second_connection(self, limit: int) -> None:
        reader = open_readonly(self.folder)
        try:
            assert self.loop.run(reader.all()) == self.loop.run(self.oracle.all())
            assert self.loop.run(reader.history(limit=limit)) == self.loop.run(self.oracle.history(limit=limit))
        finally:
            reader.close()

    @invariant()
    def contents_are_equal(self) -> None:
        self.run_on_both(lambda store: store.all())
        self.run_on_both(lambda store: store.history(limit=1_000))
        if self.seen:
            self.run_on_both(lambda store: store.history(self.seen[-1].id))

    def some_records(self, data: st.DataObject) -> list[ToolRecord]:
        """Rows that were stored once: as they are now, more often than not."""
        now = self.loop.run(self.oracle.all())
        rows = (*now, *now, *self.seen)
        return data.draw(st.lists(st.sampled_from(rows), max_size=3)) if rows else []


async def _end(do: Callable[[ToolStore], Awaitable[Any]], store: ToolStore) -> Any:
    try:
        return await do(store)
    except (Stale, Unstorable) as refused:
        return f"{type(refused).__name__}: {refused}"


def test_tool_store_in_sqlite_equals_the_memory_store() -> None:
    # A failure is shown as it was found: making it smaller would outlast the time that a test may take.
    found = settings(max_examples=25, stateful_step_count=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    run_state_machine_as_test(ToolStoreMachine, settings=found)
