"""The task store in SQLite equals the memory store, whatever several processes do to the same tasks in any order."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.interfaces.approval_rows import ROOT_KEY, Clock, database
from tests.interfaces.test_task_store import task
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.tasks import SqlTaskStore
from toolhall.stores.tasks import LEASE_SECONDS, MemoryTaskStore, StoredTask, TaskQuery, TaskStore, TooManyTasks

IDS = st.sampled_from(["t1", "t2", "t3", "t4"])
OWNERS = st.sampled_from(["alice", "bob"])
HOLDERS = st.sampled_from(["p1", "p2", "p3"])
STATES = st.sampled_from(["working", "working", "input_required", "completed", "failed", "cancelled"])
SEALED = st.none() | st.binary(max_size=6)


class TaskStoreMachine(RuleBasedStateMachine):
    """Does the same to both, with rows as they are and as they were; checks what no order may break."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.opened = database(self.folder)
        self.seen: list[StoredTask] = []
        self.ends: dict[str, StoredTask] = {}

    @initialize(shared=st.booleans())
    def open(self, shared: bool) -> None:
        self.oracle: TaskStore = MemoryTaskStore(self.clock, shared=shared)
        self.sqlite: TaskStore = SqlTaskStore(self.opened.__enter__(), RowMac(ROOT_KEY), self.clock, shared=shared)

    def teardown(self) -> None:
        self.opened.__exit__(None, None, None)
        self.loop.close()
        shutil.rmtree(self.folder)

    def run_on_both(self, do: Callable[[TaskStore], Awaitable[Any]]) -> Any:
        """Do it to both: they return the same, or refuse in the same words."""
        ends = [self.loop.run(_end(do, store)) for store in (self.oracle, self.sqlite)]
        assert ends[0] == ends[1]
        return ends[0]

    def note(self, found: Any) -> None:
        """Remember a row; one that has ended may never change again."""
        if isinstance(found, StoredTask):
            assert found.id not in self.ends, "it had ended"
            self.seen.append(found)
            if found.has_ended:
                self.ends[found.id] = found

    @rule(task_id=IDS, owner=OWNERS, holder=st.none() | HOLDERS)
    def add(self, task_id: str, owner: str, holder: str | None) -> None:
        if all(each.id != task_id for each in self.seen):
            row = task(id=task_id, owner=owner, holder=holder, created_at=self.clock.now)
            self.note(self.run_on_both(lambda store: store.add(row)))

    @rule(data=st.data(), state=STATES, memory=SEALED, holder=st.none() | HOLDERS)
    def swap(self, data: st.DataObject, state: Any, memory: bytes | None, holder: str | None) -> None:
        for row in self.some(data):
            after = msgspec.structs.replace(row, state=state, sealed_memory=memory, holder=holder)
            self.note(self.run_on_both(methodcaller("swap", row, after)))

    @rule(data=st.data(), holder=HOLDERS)
    def claim(self, data: st.DataObject, holder: str) -> None:
        for row in self.some(data):
            claimed = self.run_on_both(methodcaller("claim", row, holder))
            if claimed is not None:
                assert claimed.epoch > max(each.epoch for each in self.seen if each.id == row.id)
            self.note(claimed)

    @rule(holder=HOLDERS)
    def renew(self, holder: str) -> None:
        self.run_on_both(lambda store: store.renew(holder))

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS / 2, LEASE_SECONDS]))
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(before=st.sampled_from([0.0, 3_600.0]))
    def sweep(self, before: float) -> None:
        for gone in self.run_on_both(lambda store: store.sweep(self.clock.now + before)):
            self.ends.pop(gone, None)

    @invariant()
    def contents_are_equal(self) -> None:
        if hasattr(self, "oracle"):
            rows = self.run_on_both(lambda store: store.page())
            for each in ("p1", "p2"):
                self.run_on_both(methodcaller("claimable", each))
            self.run_on_both(lambda store: store.counts(self.clock.now))
            self.run_on_both(lambda store: store.search(TaskQuery(unexpired_at=self.clock.now)))
            for row in rows:
                ended = self.ends.get(row.id)
                assert ended is None or row == ended

    def some(self, data: st.DataObject) -> list[StoredTask]:
        """Rows that were stored once: as they are now, more often than not."""
        now = self.loop.run(self.oracle.page())
        rows = (*now, *now, *self.seen)
        return data.draw(st.lists(st.sampled_from(rows), max_size=2)) if rows else []


async def _end(do: Callable[[TaskStore], Awaitable[Any]], store: TaskStore) -> Any:
    try:
        return await do(store)
    except TooManyTasks as refused:
        return str(refused)


def test_task_store_in_sqlite_equals_the_memory_store() -> None:
    # A failure is shown as it was found: making it smaller would outlast the time that a test may take.
    found = settings(max_examples=25, stateful_step_count=20, phases=[Phase.explicit, Phase.reuse, Phase.generate])
    run_state_machine_as_test(TaskStoreMachine, settings=found)
