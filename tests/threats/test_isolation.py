"""Tools in worker processes that block, crash, leak, lie and look around: only their own calls pay for it."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.patience import patience
from tests.threats import isolated_tools as tools
from tests.threats.guarded import inside
from toolhall.authoring.definition import definitions_of
from toolhall.execution.executor import ExecutorLimits, FunctionExecutor
from toolhall.execution.worker_protocol import WorkerLimits
from toolhall.model.caller import LOCAL, Allow
from toolhall.model.errors import BadOutput, Crashed, TimedOut
from toolhall.model.messages import NULL_LINK, Call
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Equipped
from toolhall.process_supervisor import inherited_environment
from toolhall.registry.snapshot import compile_entry

MEGABYTE = 1 << 20


class Tools:
    """The tools under attack, run as a hall runs them."""

    def __init__(self, *hidden: Path) -> None:
        limits = WorkerLimits(file_bytes=2 * MEGABYTE, result_bytes=MEGABYTE)
        executor_limits = ExecutorLimits(
            threads=4, default_timeout=60, worker_limits=limits, hidden_paths=tuple(map(str, hidden))
        )
        self.executor = FunctionExecutor(executor_limits, Run.tool_of_frame)
        self._run = Run(60, self.executor.activity)

    async def call(self, function: Any, **arguments: Any) -> Any:
        definition = next(definitions_of(function))
        entry = compile_entry(definition.tool, self.executor.runner_for(definition), known_good=True)
        call = Call("call-1", entry.id, arguments, LOCAL, NULL_LINK, "test", 2, 0.0)
        fields: dict[str, Any] = {
            "call": call,
            "entry": entry,
            "arguments": arguments,
            "verdict": Allow("test", 1),
            "secrets": (),
        }
        equipped = Equipped(**{name: each for name, each in fields.items() if name in Equipped.__struct_fields__})
        return (await self._run(equipped)).value


@pytest.fixture
async def hall() -> AsyncIterator[Tools]:
    made = Tools()
    yield made
    made.executor.close()


def has_exited(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # dead; whoever adopted it has not looked yet
    except psutil.NoSuchProcess:
        return True


async def wait_for_exit(*pids: int) -> None:
    """Return once these have ended."""
    async with asyncio.timeout(patience()):
        while not all(map(has_exited, pids)):  # noqa: ASYNC110 - processes of nobody's
            await asyncio.sleep(0.01)


async def read_pids(fifo: Path) -> list[int]:
    """The process of the tool, its child, and its session."""
    return [int(each) for each in (await asyncio.to_thread(fifo.read_text)).split()]


@pytest.mark.threat("I7")
@pytest.mark.parametrize("function", [tools.never, tools.spin], ids=["sleeps", "spins"])
async def test_I7_isolated_tool_that_never_returns_is_killed_at_its_deadline(hall: Tools, function: Any) -> None:  # noqa: N802
    """A tool that blocks in C code or spins is killed when its time is up, and the next call finds a worker."""
    with pytest.raises(TimedOut, match=r"within 0\.3 seconds"):
        await hall.call(function)
    assert await hall.call(tools.where) != os.getpid()
    assert hall.executor.worker_pool.running == 0


@pytest.mark.threat("H7")
async def test_H7_child_processes_of_a_cancelled_isolated_tool_are_killed(hall: Tools, tmp_path: Path) -> None:  # noqa: N802
    """When a call is cancelled, its worker goes, and with it every process that the tool has started."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    task = asyncio.ensure_future(hall.call(tools.orphan, fifo=str(fifo)))
    worker, child, session = await read_pids(fifo)
    assert session == worker != os.getsid(0)
    task.cancel()
    await asyncio.wait([task])
    await wait_for_exit(worker, child)


_HALL = """
import asyncio, sys
from tests.threats.test_isolation import Tools, tools
asyncio.run(Tools().call(tools.orphan, fifo=sys.argv[1]))
"""


@pytest.mark.threat("H7")
def test_H7_worker_and_its_child_end_when_the_hall_is_killed(tmp_path: Path) -> None:  # noqa: N802
    """After kill -9 of the hall, neither its worker nor the worker's child is left."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", _HALL, str(fifo)], cwd=Path(__file__).parents[2]) as hall:
        worker, child, _ = asyncio.run(read_pids(fifo))
        hall.send_signal(signal.SIGKILL)
    asyncio.run(wait_for_exit(worker, child))


@pytest.mark.threat("H8")
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("SIGSEGV", r"it crashed \(SIGSEGV\)"),
        ("exit", "ended its process with code 3"),
        ("SIGKILL", "for want of memory"),
        ("SIGXCPU", "it used more than 61 seconds of CPU"),
    ],
)
async def test_H8_crash_of_an_isolated_tool_fails_only_its_own_call(hall: Tools, how: str, said: str) -> None:  # noqa: N802
    """A tool that takes its process down fails that call with a clear message, and no other."""
    with pytest.raises(Crashed, match=f"the tool was stopped: .*{said}"):
        await hall.call(tools.crash, how=how)
    assert await hall.call(tools.where) != os.getpid()


@pytest.mark.threat("R12")
async def test_R12_isolated_tool_over_the_memory_limit_is_stopped_and_its_worker_replaced(hall: Tools) -> None:  # noqa: N802
    """A tool that keeps what it uses is stopped at 1 GiB, and starts afresh."""
    counts = [await hall.call(tools.leak) for _ in range(2)]
    assert counts == [1, 2]
    with pytest.raises(Crashed, match="it used more than 1 GiB of memory"):
        await hall.call(tools.leak, megabytes=700)
    with pytest.raises(Crashed, match="it used more than 1 GiB of memory"):
        await hall.call(tools.hog, megabytes=1025)
    assert await hall.call(tools.leak) == 1


@pytest.mark.threat("H8")
async def test_H8_isolated_tool_over_the_descriptor_or_file_size_limit_fails_alone(hall: Tools, tmp_path: Path) -> None:  # noqa: N802
    """A tool that leaks descriptors or fills the disk fails alone, and what it wrote is no larger than the limit."""
    with pytest.raises(Crashed):
        await hall.call(tools.leak_files)
    with pytest.raises(Crashed):
        await hall.call(tools.write, path=str(tmp_path / "big"), megabytes=5)
    assert (tmp_path / "big").stat().st_size <= 2 * MEGABYTE
    found = await hall.call(tools.limits)
    assert found["CPU"] > 0
    assert {kind: found[kind] for kind in ("AS", "NOFILE", "FSIZE", "CORE")} == {
        "AS": 1 << 30,
        "NOFILE": 256,
        "FSIZE": 2 * MEGABYTE,
        "CORE": 0,
    }


@pytest.mark.threat("G10")
@pytest.mark.threat("H4")
async def test_G10_worker_environment_holds_only_the_allowed_variables(  # noqa: N802
    hall: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the hall's environment a tool sees only what it needs to find programs, files and time zones."""
    for name in ("OPENAI_API_KEY", "TOOLHALL_OXP_SECRET", "HTTPS_PROXY", "PYTHONSTARTUP", "LD_PRELOADED"):
        monkeypatch.setenv(name, "CANARY-30ad")
    seen = await hall.call(tools.environment)
    assert "CANARY-30ad" not in seen.values()
    assert inherited_environment(seen) == seen
    assert inherited_environment({"MINE": "1", "PATH": "/bin"}, ("MINE",)) == {"MINE": "1", "PATH": "/bin"}


@pytest.mark.threat("G6")
async def test_G6_oversized_result_of_a_worker_is_refused_unread(hall: Tools) -> None:  # noqa: N802
    """Fifty megabytes are refused in the worker, and one that claims to send two gigabytes is not listened to."""
    with pytest.raises(BadOutput, match=r"the tool returned 52428\d+ bytes"):
        await hall.call(tools.big, megabytes=50)
    with pytest.raises(BadOutput, match="the tool returned 2147483647 bytes"):
        await hall.call(tools.forge, hexadecimal="7fffffff" + "00" * 100)


@pytest.mark.threat("H8")
@pytest.mark.parametrize("said", [b"{}", b"\xff\x00", b'{"type":"ready"}', b'{"type":"nonsense"}'])
async def test_H8_forged_message_from_a_worker_fails_only_its_own_call(hall: Tools, said: bytes) -> None:  # noqa: N802
    """What a tool writes to the hall in its worker's name is checked like anything from outside."""
    with pytest.raises(Crashed):
        await hall.call(tools.forge, hexadecimal=(len(said).to_bytes(4, "big") + said).hex())


@pytest.mark.threat("P8")
async def test_P8_calls_are_answered_while_other_isolated_tools_block_crash_and_leak(hall: Tools) -> None:  # noqa: N802
    """While isolated tools block, crash and leak, every call of the others is answered."""
    blocked = [asyncio.ensure_future(hall.call(tools.block)) for _ in range(5)]
    dying = [asyncio.ensure_future(hall.call(tools.crash)) for _ in range(2)]
    leaking = [asyncio.ensure_future(hall.call(tools.leak)) for _ in range(2)]
    answers = [
        await asyncio.gather(hall.call(tools.where), hall.call(tools.quick), hall.call(tools.where_async))
        for _ in range(20)
    ]
    assert {here for _, here, _ in answers} == {os.getpid()}
    assert all(os.getpid() not in (sync, other) for sync, _, other in answers)
    assert not any(task.done() for task in blocked)
    assert all(isinstance(each, Crashed) for each in await asyncio.gather(*dying, return_exceptions=True))
    await asyncio.gather(*leaking, return_exceptions=True)
    for task in blocked:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*blocked)
    await asyncio.wait(blocked)


@pytest.mark.threat("B3")
async def test_B3_credential_of_a_caller_is_not_passed_to_worker_processes() -> None:  # noqa: N802
    """A caller with a key may use a tool in a process of its own, which is told who calls and not by what proof."""
    async with inside(tools) as hall:
        reply = await hall.send("POST", "/tools/isolated_tools/who", {}, hall.bearer("alice"))
        assert reply.status_code == 200, reply.text
        told = reply.json()
        assert (told["caller"], told["told"]) == ("alice", False)
        assert "credential=None" in told["seen"]
