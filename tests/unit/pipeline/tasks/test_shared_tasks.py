"""Long calls of several processes that share a data folder, and of tools in processes of their own."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.lateness import measured_lateness
from tests.harness.long_calls import PersonLink, accepted, asking, ended, row_when, start, text_of, until
from tests.unit.pipeline.tasks import isolated_tools
from toolhall import Config, Context, Toolhall, tool
from toolhall.app.data_dir import OpenOptions
from toolhall.model.caller import LOCAL
from toolhall.model.messages import TaskView
from toolhall.pipeline.tasks import engine
from toolhall.stores.tasks import LEASE_SECONDS, StoredTask

SAID_SECONDS, GONE_SECONDS = 1.0, 2.0  # after which a task is cancelled, and its process gone
PEER = OpenOptions(role="peer", tools_optional=True, enforce_versions=False)


class Gate:
    """What the tools of a test did, and where they wait."""

    def __init__(self) -> None:
        self.runs = 0
        self.open = asyncio.Event()


@pytest.fixture
async def gate() -> Gate:
    return Gate()


def tools(gate: Gate) -> tuple[Any, ...]:
    @tool(effect="reads", task=True)
    async def work() -> str:
        """Wait at the gate."""
        gate.runs += 1
        await gate.open.wait()
        return "done"

    @tool(effect="writes", task=True)
    async def ask(ctx: Context) -> str:
        """Ask a person."""
        given = await ctx.ask("Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}}, key="sure")
        return given.action

    return work, ask


class Peers:
    """Halls on one folder, each as a process of its own would have it."""

    def __init__(self, data: Path, gate: Gate) -> None:
        self._data = data
        self._gate = gate
        self.halls: list[Toolhall] = []

    async def open(self) -> Toolhall:
        """One more."""
        hall = Toolhall(*tools(self._gate), config=Config(data=str(self._data)))
        hall.without_pages()
        await hall.open(PEER)
        self.halls.append(hall)
        return hall

    async def close(self) -> None:
        """End them all."""
        for hall in self.halls:
            await hall.settle()
            hall.close()


@pytest.fixture
async def peers(tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(engine, "TICK_SECONDS", 0.02)
    opened = Peers(tmp_path, gate)
    yield opened
    await opened.close()


async def test_task_is_seen_answered_and_cancelled_by_another_process(peers: Peers, gate: Gate) -> None:
    first, second = await peers.open(), await peers.open()
    task = await asking(second, await start(first, "ask"))
    await second.tasks.answer(task.id, LOCAL, {"sure": accepted(sure=True)})
    assert text_of(await ended(first, task)) == "accept"
    running = await start(first, "work")
    assert (await second.tasks.cancel(running.id, LOCAL)).state == "cancelled"
    await until(lambda: not first.tasks.running)
    assert (await ended(first, running)).state == "cancelled"
    assert gate.runs == 1


async def test_task_is_waited_for_by_another_process(peers: Peers, gate: Gate) -> None:
    first, second = await peers.open(), await peers.open()
    task = await start(first, "work")
    waiting = asyncio.create_task(ended(second, task))
    gate.open.set()
    assert (await waiting).state == "completed"


async def test_task_whose_process_gave_it_up_goes_on_in_another(peers: Peers, gate: Gate) -> None:
    first, second = await peers.open(), await peers.open()
    task = await start(first, "work")
    await until(lambda: gate.runs)
    await first.tasks.settle()  # it stops: its task is left to whoever comes
    await until(lambda: gate.runs > 1)
    gate.open.set()
    assert (await ended(second, task)).state == "completed"


async def test_task_held_by_a_process_whose_lease_is_over_is_taken_once(
    peers: Peers, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await peers.open(), await peers.open()
    third = await peers.open()
    task = await start(first, "work")
    await until(lambda: gate.runs)
    monkeypatch.setattr(first.tasks, "_tick_from_now_on", lambda: None)
    vars(first.tasks)["_ticking"].cancel()  # as a process that is paused
    for hall in (second, third):
        await hall.tasks.find(task.id, LOCAL)  # which opens the file that the first has created
        store: Any = hall.tasks.rows.store
        statements = store._source.current().tasks._statements
        monkeypatch.setattr(statements, "_clock", partial(_later, statements._clock))
    await until(lambda: gate.runs == 2)
    gate.open.set()
    view: TaskView = await ended(second, task)
    row = await second.tasks.rows.store.find(task.id)
    assert isinstance(row, StoredTask)
    assert (view.state, row.epoch, row.attempt) == ("completed", 2, 2)
    await until(lambda: not first.tasks.running)
    assert await second.tasks.rows.store.find(task.id) == row, "the first process writes nothing any more"


def _later(clock: Callable[[], float]) -> float:
    return clock() + 2 * LEASE_SECONDS


# --- tools in processes of their own ----------------------------------------------------------------------------------


async def test_isolated_task_remembers_and_knows_its_id(tmp_path: Path) -> None:
    async with Toolhall(isolated_tools, config=Config(data=str(tmp_path))) as hall:
        task = await start(hall, "gather", link=PersonLink())
        assert text_of(await ended(hall, task)) == f"1 1 {task.id}"
        row = await hall.tasks.rows.store.find(task.id)
        assert row is not None
        assert (await hall.tasks.rows.memory(row)).results == {"count": b"1"}


async def test_isolated_task_cancelled_ends_its_process(tmp_path: Path) -> None:
    async with Toolhall(isolated_tools, config=Config(data=str(tmp_path))) as hall:
        task = await start(hall, "hang")
        row = await row_when(hall, lambda row: row.sealed_status is not None)
        pid = int((await hall.tasks.view(row)).status or "")
        assert psutil.pid_exists(pid)
        with measured_lateness() as lateness:
            asked_at = time.monotonic()
            assert (await hall.tasks.cancel(task.id, LOCAL)).state == "cancelled"
            said_at = time.monotonic()
            await until(lambda: not psutil.pid_exists(pid))
            gone_at = time.monotonic()
    assert said_at - asked_at < SAID_SECONDS + lateness.late(SAID_SECONDS, asked_at, said_at)
    assert gone_at - asked_at < GONE_SECONDS + lateness.late(GONE_SECONDS, asked_at, gone_at)
