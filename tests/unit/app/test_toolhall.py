"""The composition root: what a hall opens, and that it closes it again."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.recorded import recorded
from toolhall.app import Toolhall
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.model.caller import LOCAL
from toolhall.model.errors import NeedsVerification
from toolhall.model.json import Json
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.registry.registry import Conflict


@tool
def add(a: int, b: int) -> int:
    return a + b


def ask(name: str, size: int = 0, **arguments: Json) -> CallTool:
    return CallTool(name, arguments, "test", size)


async def test_toolhall_data_folder_is_created_with_private_modes(tmp_path: Path) -> None:
    folder = tmp_path / "inner" / "data"
    with Toolhall(add, config=Config(data=str(folder))) as hall:
        await hall.dispatcher.answer(ask("add", a=1, b=2), LOCAL)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()} == {
        "audit": 0o700,
        "state.key": 0o600,
    }
    assert [record["outcome"] for record in recorded(folder)] == ["ok"]


async def test_toolhall_restarted_keeps_its_state_key(tmp_path: Path) -> None:
    config = Config(data=str(tmp_path))
    Toolhall(config=config).close()
    key = (tmp_path / "state.key").read_bytes()
    Toolhall(config=config).close()
    assert (tmp_path / "state.key").read_bytes() == key


def test_toolhall_without_data_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Toolhall(add) as hall:
        assert isinstance(asyncio.run(hall.dispatcher.answer(ask("add", a=1, b=2), LOCAL)), CompletedCall)
    assert list(tmp_path.iterdir()) == []


async def test_toolhall_close_ends_idle_tool_threads() -> None:
    hall = Toolhall(add)
    await asyncio.gather(*(hall.dispatcher.answer(ask("add", a=1, b=n), LOCAL) for n in range(20)))
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("toolhall-tool")]
    assert workers
    hall.close()
    for worker in workers:
        worker.join(patience())
        assert not worker.is_alive()


async def test_toolhall_close_closes_all_components_when_some_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that were left would fail this test, too."""
    hall = Toolhall(add, config=Config(data=str(tmp_path)))
    closed: list[str] = []

    def broken(name: str) -> Callable[[], None]:
        def close() -> None:
            closed.append(name)
            raise RuntimeError(name)

        return close

    await hall.open()
    await hall.dispatcher.answer(ask("add", a=1, b=2), LOCAL)
    with monkeypatch.context() as patch:
        for name in ("tool_servers", "registration", "access"):
            patch.setattr(getattr(hall, name), "close", broken(name))
        with pytest.raises(RuntimeError):
            hall.close()
    assert closed == ["tool_servers", "registration", "access"]
    assert [record["outcome"] for record in recorded(tmp_path)] == ["ok"]
    hall.close()


async def test_toolhall_runs_at_most_the_configured_number_of_tool_threads() -> None:
    release, running = threading.Event(), threading.Semaphore(0)

    @tool
    def block() -> None:
        running.release()
        release.wait(patience())

    with Toolhall(block, config=Config(threads=2)) as hall:
        calls = [asyncio.ensure_future(hall.dispatcher.answer(ask("block"), LOCAL)) for _ in range(4)]
        try:
            for _ in range(2):
                assert await asyncio.to_thread(running.acquire, timeout=patience())
            assert not running.acquire(blocking=False)
        finally:
            release.set()
        assert all(isinstance(answer, CompletedCall) for answer in await asyncio.gather(*calls))


async def test_toolhall_without_approver_answers_a_high_level_call_with_needs_verification() -> None:
    @tool(level=8)
    def risky() -> None: ...

    with Toolhall(risky) as hall:
        answer = await hall.dispatcher.answer(ask("risky"), LOCAL)
    assert isinstance(answer, NeedsVerification)
    assert (answer.how, answer.id) == ("step_up", (answer.url or "").rpartition("/approve/")[2])


async def test_toolhall_validates_costly_arguments_in_a_separate_process() -> None:
    @tool(input={"type": "object", "properties": {"rows": {"items": {"enum": [[number] for number in range(5_000)]}}}})
    async def pick(**arguments: Json) -> int:
        return len(arguments["rows"])

    with Toolhall(pick) as hall:
        answer = await hall.dispatcher.answer(ask("pick", size=1_500, rows=[[4_999]] * 2), LOCAL)
    assert isinstance(answer, CompletedCall)
    assert answer.result.encoded == b"2"


def test_toolhall_add_with_a_conflict_leaves_the_registry_unchanged() -> None:
    with Toolhall(add) as hall:
        with pytest.raises(Conflict):
            hall.add(add)
        assert [entry.tool.name for entry in hall.registry.snapshot.entries] == ["add"]
