# ruff: noqa: N802 - tests carry the names of their rows
"""An isolated tool against its hall: its files, its processes, its log, and what it leaves behind (K9, K12-K14)."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.threats import isolated_tools as tools
from tests.threats.test_isolation import Tools, wait_for_exit
from tests.unit.execution.test_process_runner import run
from toolhall.config import Config
from toolhall.execution import sandbox, worker_process
from toolhall.execution.executor import hidden_paths, limits_from_config
from toolhall.execution.worker_pool import WorkerPool
from toolhall.execution.worker_process import WorkerHandle
from toolhall.execution.worker_protocol import WorkerLimits, WorkerMessage, WorkerReady
from toolhall.model.errors import Crashed, Unavailable
from toolhall.model.requirements import ResolvedCredentials
from toolhall.model.secret import Secret

KEY = "SECRET-4f1c77aa02"
ABI = sandbox.landlock_abi()
needs_landlock = pytest.mark.skipif(ABI < 2, reason=f"Landlock 2 (Linux 5.19) hides files; this kernel has {ABI}")
needs_scopes = pytest.mark.skipif(ABI < 6, reason=f"Landlock 6 (Linux 6.12) scopes signals; this kernel has {ABI}")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a hall."""
    folder = tmp_path / "hall" / "data"
    folder.mkdir(parents=True)
    (folder / "state.key").write_text(KEY)
    return folder


@pytest.fixture
async def hall(data: Path) -> AsyncIterator[Tools]:
    made = Tools(data)
    yield made
    made.executor.close()


@needs_landlock
@pytest.mark.threat("K12")
async def test_K12_isolated_tool_cannot_read_or_change_the_data_folder(hall: Tools, data: Path) -> None:
    """It can neither read, write, create, move, link nor remove anything there, by itself or by other programs."""
    done = await hall.call(tools.open_files, folder=str(data))
    assert [each for each in done if ABI >= 3 or each != "truncate"] == []
    assert [os.listdir(each) for each in (data, data.parent)] == [["state.key"], ["data"]]  # noqa: PTH208
    if ABI >= 3:
        assert (data / "state.key").read_text() == KEY


@needs_landlock
@pytest.mark.threat("K12")
async def test_K12_symlink_gives_an_isolated_tool_no_access_to_the_data_folder(
    hall: Tools, data: Path, tmp_path: Path
) -> None:
    """Neither a link to the folder nor one to a folder above it, both older than the worker, is a way in."""
    (tmp_path / "link").symlink_to(data)
    (tmp_path / "above").symlink_to(tmp_path)
    for way in (tmp_path / "link", tmp_path / "above" / "hall" / "data"):
        assert "read" not in await hall.call(tools.open_files, folder=str(way))


@pytest.mark.threat("K12")
async def test_K12_isolated_tool_can_use_other_files_programs_sockets_and_threads(hall: Tools, tmp_path: Path) -> None:
    """A tool reads, writes and moves files elsewhere, has temporary ones, runs programs, listens and starts threads."""
    (tmp_path / "elsewhere").mkdir()
    done = await hall.call(tools.use_files, folder=str(tmp_path / "elsewhere"))
    assert done == [
        "write",
        "read",
        "folder",
        "move",
        "list",
        "temporary",
        "program",
        "socket",
        "thread",
        "limits",
        "own limits by id",
        "lower priority",
        "priority",
        "CPU mask",
        "program's priority",
    ]


@needs_landlock
@pytest.mark.threat("K12")
async def test_K12_isolated_tool_whose_file_is_in_the_data_folder_is_refused_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A hall whose data folder holds the tool's own file says so in its log."""
    made = Tools(Path(tools.__file__).parent)
    try:
        with pytest.raises(Unavailable):
            await made.call(tools.where)
    finally:
        made.executor.close()
    assert "is in the hall's data folder, which such tools cannot read; move it elsewhere" in caplog.text


def test_hidden_paths_hold_the_data_folder_and_the_places_of_secrets(data: Path) -> None:
    environment = {
        "TOOLHALL_VAULT_KEY_FILE": "/run/vault",
        "TOOLHALL_DATA": "/other",
        "CREDENTIALS_DIRECTORY": "/run/creds",
    }
    assert hidden_paths(str(data), environment) == (str(data.resolve()), "/run/creds", "/run/vault")
    assert str(data.resolve()) in limits_from_config(Config(data=str(data))).hidden_paths
    assert hidden_paths(None, {}) == ()


@needs_scopes
@pytest.mark.threat("K13")
@pytest.mark.parametrize("hidden", [True, False], ids=["with data", "without data"])
async def test_K13_isolated_tool_cannot_signal_trace_limit_or_freeze_another_process(data: Path, hidden: bool) -> None:
    """It can neither signal, trace, read, limit nor freeze the hall, its own supervisor or anybody else."""
    made = Tools(*([data] if hidden else []))
    released = threading.Event()
    thread = threading.Thread(target=released.wait)
    thread.start()
    try:
        assert await made.call(tools.reach, pid=os.getpid(), tid=thread.native_id or 0) == []
    finally:
        released.set()
        thread.join()
        made.executor.close()


# A worker under its supervisor as on a kernel of before Linux 6.12; the hall is the test itself, and in no group of its
# own. The last argument is the id of a thread of the hall.
_OLDER_KERNEL = """
import fcntl, json, os, signal, socket, struct, subprocess, sys, threading
from toolhall.execution.sandbox import enter_sandbox
from toolhall.execution.worker import supervise
hall, line = os.getppid(), os.dup(2)
abi, judged, thread = map(int, sys.argv[1:])
main, group = int(open(f"/proc/{hall}/stat").read().rpartition(")")[2].split()[1]), os.getpgid(hall)
told = os.dup(1)
channel = supervise(hall, line)
missing = enter_sandbox([], [hall, os.getppid()], abi, channel if judged else None)
channel.close()
own = subprocess.Popen(["sleep", "600"], start_new_session=True)
left = int(subprocess.run(["sh", "-c", "sleep 600 >&- & echo $!"], stdout=subprocess.PIPE).stdout)
pair = socket.socketpair()

def finished(process):
    process.kill()
    process.wait()

done = []
for name, attempt in {
    "hall": lambda: os.kill(hall, 0), "group": lambda: os.kill(-hall, 0), "all": lambda: os.kill(-1, 0),
    "its group": lambda: os.killpg(group, 0), "supervisor": lambda: os.kill(os.getppid(), 0),
    "main process": lambda: os.kill(main, 0), "thread": lambda: os.kill(thread, 0),
    "pidfd": lambda: signal.pidfd_send_signal(os.open(f"/proc/{hall}", os.O_RDONLY), 0),
    "program": lambda: subprocess.run(["sh", "-c", f"kill -0 {hall}"], stderr=subprocess.DEVNULL, check=True),
    "owner": lambda: fcntl.fcntl(pair[0], fcntl.F_SETOWN, hall),
    "owner group": lambda: fcntl.fcntl(pair[0], fcntl.F_SETOWN, -group),
    "owner thread": lambda: fcntl.fcntl(pair[0], 15, struct.pack("ii", 0, thread)),
    "FIOSETOWN": lambda: fcntl.ioctl(pair[0], 0x8901, struct.pack("i", hall)),
    "SIOCSPGRP": lambda: fcntl.ioctl(pair[0], 0x8902, struct.pack("i", hall)),
    "itself": lambda: os.kill(os.getpid(), 0), "raise": lambda: signal.raise_signal(signal.SIGCHLD),
    "own group": lambda: os.killpg(0, 0),
    "thread of its own": lambda: signal.pthread_kill(threading.get_ident(), 0),
    "child's group": lambda: os.killpg(own.pid, 0),
    "child": lambda: finished(own), "grandchild": lambda: os.kill(left, 9),
    "program's child": lambda: subprocess.run(["sh", "-c", "sleep 600 & kill $!; wait; kill -0 $$"], check=True),
}.items():
    try:
        attempt()
        done.append(name)
    except (OSError, subprocess.CalledProcessError) as error:
        pass
os.write(told, json.dumps([missing, done]).encode())
os._exit(0)
"""
_OWN = ["itself", "raise", "own group", "thread of its own", "child's group", "child", "grandchild", "program's child"]


def _signalled(abi: int, *, judged: bool) -> tuple[list[str], list[str]]:
    """What a worker on such a kernel says is missing, and which signals it could send to a hall."""
    released = threading.Event()
    thread = threading.Thread(target=released.wait)
    thread.start()
    try:
        words = [sys.executable, "-c", _OLDER_KERNEL, str(abi), str(int(judged)), str(thread.native_id)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=patience())
    finally:
        released.set()
        thread.join()
    missing, sent = json.loads(done.stdout)
    return missing, sent


@pytest.mark.threat("K13")
@pytest.mark.parametrize("abi", [0, min(ABI, 2), min(ABI, 5)])
def test_K13_isolated_tool_without_landlock_scopes_can_signal_only_what_it_started(abi: int) -> None:
    """Before Linux 6.12 neither the hall, its threads, its group, those around it nor files' owners are ways."""
    assert _signalled(abi, judged=True) == ([] if abi >= 2 else [sandbox.NO_LANDLOCK], _OWN)


@pytest.mark.threat("K13")
def test_K13_signal_filter_without_a_supervisor_blocks_the_hall_by_id_and_reports_the_gap() -> None:
    """Before Linux 5.5 the hall and its family are shielded by their ids, which leaves the ids of threads."""
    assert _signalled(0, judged=False) == ([sandbox.NO_LANDLOCK, sandbox.NO_THREAD_SIGNAL_FILTER], ["thread", *_OWN])


@pytest.mark.threat("K12")
@pytest.mark.threat("K13")
async def test_K13_missing_kernel_feature_is_logged_once_for_each_hall(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator reads what an isolated tool may do on this machine, once for each hall."""
    lacking = (sandbox.NO_LANDLOCK, sandbox.NO_THREAD_SIGNAL_FILTER)
    hello = WorkerHandle.handshake

    async def on_an_older_kernel(child: WorkerHandle) -> WorkerMessage:
        report = await hello(child)
        return WorkerReady(lacking) if isinstance(report, WorkerReady) else report

    monkeypatch.setattr(WorkerHandle, "handshake", on_an_older_kernel)
    made = Tools()
    try:
        with pytest.raises(Crashed):
            await made.call(tools.crash, how="exit")
        await made.call(tools.where)
    finally:
        made.executor.close()
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == [f"an isolated tool is confined less than it could be: {each}" for each in lacking]


@pytest.mark.threat("K14")
@pytest.mark.parametrize("then", ["hang", "exit", "return"])
async def test_K14_daemon_of_an_isolated_tool_ends_with_its_worker(hall: Tools, tmp_path: Path, then: str) -> None:
    """A process with a session of its own is killed when the call is cancelled, its worker exits or the hall closes."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    task = asyncio.ensure_future(hall.call(tools.daemon, fifo=str(fifo), then=then))
    left = int(await asyncio.to_thread(fifo.read_text))
    if then == "hang":
        task.cancel()
    await asyncio.wait([task])
    if then == "exit":
        assert isinstance(task.exception(), Crashed)
        assert "ended its process with code 3" in str(task.exception())
    if then == "return":
        hall.executor.close()
    await wait_for_exit(left)


_HALL = """
import asyncio, sys
from tests.threats.test_isolation import Tools, tools
asyncio.run(Tools().call(tools.daemon, fifo=sys.argv[1], then="hang"))
"""


@pytest.mark.threat("K14")
def test_K14_daemon_of_an_isolated_tool_ends_when_the_hall_is_killed(tmp_path: Path) -> None:
    """After kill -9 of the hall the supervisor still ends what the tool had started."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", _HALL, str(fifo)], cwd=Path(__file__).parents[2]) as process:
        left = int(fifo.read_text())
        process.send_signal(signal.SIGKILL)
    asyncio.run(wait_for_exit(left))


async def printed(caplog: pytest.LogCaptureFixture, count: int) -> list[str]:
    """What the log has of the output of tools, once there is so much."""
    async with asyncio.timeout(patience()):
        while len(said := [each.getMessage() for each in caplog.records if each.name == "toolhall.output"]) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return said


@pytest.mark.threat("K9")
async def test_K9_worker_output_in_the_log_is_labelled_redacted_and_escaped(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Prints, raw writes and the output of programs become records that name the tool and hide its secrets."""
    workers = WorkerPool(WorkerLimits())
    equipment = ResolvedCredentials({"KEY": Secret(KEY)})
    try:
        await run(workers, tools.shout, equipment=equipment, text='key {}\r\x1b[2J{{"level":"info"}}')
        said = await printed(caplog, 3)
    finally:
        workers.close()
    assert said == ['tool isolated_tools.shout@0.1.0 printed: key [redacted]\\r\\x1b[2J{"level":"info"}'] * 3
    captured = capfd.readouterr()
    assert (captured.out, KEY in captured.err) == ("", False)


@pytest.mark.threat("K9")
async def test_K9_secret_printed_by_a_worker_after_its_call_or_across_lines_is_redacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What later calls of the same process print of an earlier call's secret is hidden, in lines or cut by them."""
    workers = WorkerPool(WorkerLimits())
    try:
        for secret in (KEY, "another-secret-of-the-tool"):
            await run(workers, tools.shout, equipment=ResolvedCredentials({"KEY": Secret(secret)}), text=f"{KEY} {{}}")
        said = await printed(caplog, 6)
        await run(
            workers, tools.shout, equipment=ResolvedCredentials({"KEY": Secret("first line\nsecond line")}), text="{}"
        )
        said = await printed(caplog, 9)
    finally:
        workers.close()
    assert not [line for line in said if KEY in line or "another" in line or "second line" in line]


@pytest.mark.threat("K9")
async def test_K9_worker_output_without_end_is_logged_up_to_a_bound_and_the_tool_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten thousand lines and a line without an end cost a few records, and the tool returns all the same."""
    workers = WorkerPool(WorkerLimits())
    equipment = ResolvedCredentials({"KEY": Secret(KEY)})
    try:
        await run(workers, tools.shout, equipment=equipment, text="line\n", times=10_000)
        await run(workers, tools.shout, equipment=equipment, text="x", times=3_000_000)
    finally:
        workers.close()
    said = await printed(caplog, 1)
    assert len(said) < 2 * worker_process.BURST_LINES + 20
    assert all(len(line) < worker_process.MAX_LINE_LENGTH + 100 for line in said)
    assert any("printed too much" in line for line in said)


def test_worker_output_is_logged_as_warnings_with_whole_decoded_lines(caplog: pytest.LogCaptureFixture) -> None:
    made = worker_process.WorkerOutput("mine")
    assert made.feed(b"no end yet")
    assert not caplog.records
    made.feed(" \u00e9\n\n".encode())
    made.feed(b"\xff rest")
    made.finish()
    assert [each.getMessage() for each in caplog.records] == [
        "tool mine printed: no end yet \u00e9",
        "tool mine printed: \ufffd rest",
    ]
    assert {each.levelno for each in caplog.records} == {logging.WARNING}
