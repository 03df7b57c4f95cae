"""Children: what they get, what they are held to, and that nothing of them is left after any kind of end."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.harness import seeds
from tests.harness.patience import patience
from toolhall.mcp_client import child_process
from toolhall.mcp_client.child_process import ChildProcess
from toolhall.mcp_client.session import NotAcceptable, NotSent
from toolhall.mcp_client.targets import CommandTarget
from toolhall.model.secret import Secret

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
IGNORE = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
STUBBORN = IGNORE + "print('[]', flush=True); time.sleep(3600)"
FAMILY = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleep = [sys.executable, "-S", "-c", {IGNORE + "time.sleep(3600)"!r}]
same_group = subprocess.Popen(sleep)
own_session = subprocess.Popen(sleep, start_new_session=True)
print([os.getpid(), same_group.pid, own_session.pid], flush=True)
"""
FRAME_LIMIT = 1_000_000


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        self.ends: list[str] = []

    def on_frame(self, frame: bytes) -> None:
        self.frames.put_nowait(frame)

    def on_exit(self, reason: str) -> None:
        self.ends.append(reason)

    async def frame(self) -> bytes:
        async with asyncio.timeout(patience()):
            return await self.frames.get()


def python(code: str, **changes: object) -> CommandTarget:
    return CommandTarget(command=sys.executable, args=("-S", "-c", code), **changes)  # type: ignore[arg-type]


async def started(code: str, **changes: object) -> tuple[ChildProcess, Heard]:
    heard = Heard()
    return await ChildProcess.start(python(code, **changes), heard, FRAME_LIMIT), heard


async def ended(child: ChildProcess) -> str:
    async with asyncio.timeout(patience()):
        return await child.wait()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience()
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.01)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def test_child_answers_what_it_is_sent_and_leaves_when_its_input_ends() -> None:
    child, heard = await started(ECHO)
    await child.send(b'{"id":1}')
    await child.send(b'{"id":2}')
    assert [await heard.frame(), await heard.frame()] == [b'{"id":1}', b'{"id":2}']
    pid = child.pid
    await child.close()
    assert heard.ends == ["the session was closed"]
    assert pid is not None
    assert is_gone(pid)
    with pytest.raises(NotSent):
        await child.send(b"{}")


async def test_message_larger_than_the_pipe_arrives_whole() -> None:
    child, heard = await started(ECHO)
    large = json.dumps({"text": "x" * 900_000}).encode()
    await child.send(large)
    await child.send(b"{}")
    assert (await heard.frame(), await heard.frame()) == (large, b"{}")
    await child.close()


async def test_messages_of_one_turn_arrive_in_order_even_if_the_input_is_closed_right_after() -> None:
    child, heard = await started(ECHO)
    sent = [b'{"id":%d}' % number for number in range(20)]
    await asyncio.gather(*map(child.send, sent), child.close())
    assert [await heard.frame() for _ in sent] == sent


async def test_child_that_closes_its_input_is_ended_as_its_answers_will_not_come() -> None:
    child, heard = await started("import os, time\nos.close(0)\nprint('[]', flush=True)\ntime.sleep(3600)")
    await heard.frame()
    with pytest.raises(NotSent, match="no longer reads"):
        await child.send(b"{}")
    await child.send(b"{}")  # in the same turn
    assert "no longer reads its input" in await ended(child)
    await child.close()


async def test_sender_waits_while_the_child_does_not_read() -> None:
    child, heard = await started("import sys\nprint('[]', flush=True)\nsys.stdin.readline()\nprint('{}')")
    await heard.frame()
    await child.send(b"x" * 500_000)
    sender = asyncio.ensure_future(child.send(b"y"))
    await child.kill("the test ends it")
    with pytest.raises(NotSent):
        await sender


@pytest.mark.threat("H6")
async def test_lines_that_are_no_messages_are_skipped_and_counted() -> None:
    child, heard = await started("print('Welcome!\\n\\n  {\"id\":1}\\r\\ntext\\n[]\\nrest', end='', flush=True)")
    await ended(child)
    assert [heard.frames.get_nowait() for _ in range(2)] == [b'{"id":1}', b"[]"]
    assert child.skipped_lines == 2
    await child.close()


@pytest.mark.threat("H6")
async def test_message_over_the_limit_ends_the_child() -> None:
    child, heard = await started(f"import time\nprint('{{' + 'x' * {2 * FRAME_LIMIT}, flush=True)\ntime.sleep(3600)")
    assert "larger than what is passed on" in await ended(child)
    assert heard.frames.empty()
    await child.close()


@pytest.mark.threat("H4")
async def test_environment_is_the_short_list_and_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHALL_KEY", "canary-1")
    monkeypatch.setenv("GITHUB_TOKEN", "canary-2")
    child, heard = await started("import json, os\nprint(json.dumps(dict(os.environ)), flush=True)", env={"MINE": "1"})
    environment = json.loads(await heard.frame())
    assert environment["MINE"] == "1"
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"TOOLHALL_KEY", "GITHUB_TOKEN", "PYTEST_CURRENT_TEST"} & environment.keys()
    assert "canary" not in str(environment)
    await child.close()


async def test_child_is_limited_niced_and_leads_a_group_of_its_own() -> None:
    code = """
import json, os, resource, signal
limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)]
open_files = sorted(int(each) for each in os.listdir("/proc/self/fd"))
ignored = open("/proc/self/status").read().split("SigIgn:")[1].split()[0]
print(json.dumps([limits, os.nice(0), os.getpgid(0) == os.getpid(), open_files, ignored]), flush=True)
"""
    child, heard = await started(code)
    (core, files), niceness, leads, open_files, ignored = json.loads(await heard.frame())
    assert (core, niceness, leads) == (0, min(19, os.nice(0) + 10), True)
    assert files == min(4_096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert len(open_files) == 4  # the listing's own among them
    own = {signal.SIGPIPE, signal.SIGXFSZ}  # that Python ignores; those from 32 on are the C library's
    assert [number for number in range(1, 32) if int(ignored, 16) >> (number - 1) & 1 and number not in own] == []
    await child.close()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (CommandTarget(command="npx-nowhere"), ["'npx-nowhere' is not in PATH", "full path"]),
        (CommandTarget(command="npx", env={"PATH": "/nowhere"}), ["'npx' is not in PATH", "Node.js"]),
        (CommandTarget(command="uvx", env={"PATH": "/nowhere"}), ["install uv, https://docs.astral.sh/uv"]),
        (CommandTarget(command="/nowhere/server"), ["does not exist"]),
        (CommandTarget(command="cat", cwd="/nowhere"), ["working folder", "change cwd"]),
        (CommandTarget(command="cat", args=("a\0b",)), ["cannot be started"]),
    ],
)
async def test_command_that_cannot_be_run_says_what_to_do(command: CommandTarget, words: list[str]) -> None:
    before = descriptors()
    with pytest.raises(NotAcceptable) as caught:
        await ChildProcess.start(command, Heard(), FRAME_LIMIT)
    assert all(word in caught.value.reason for word in words), caught.value.reason
    assert descriptors() == before


async def test_file_that_is_no_program_is_refused_by_the_system(tmp_path: Path) -> None:
    program, heard = tmp_path / "server", Heard()
    program.write_text("not a program")
    with pytest.raises(NotAcceptable, match=r"is not executable; allow that with chmod"):
        await ChildProcess.start(CommandTarget(command="./server", cwd=str(tmp_path)), heard, FRAME_LIMIT)
    program.chmod(0o700)
    with pytest.raises(NotAcceptable, match="Exec format error"):
        await ChildProcess.start(CommandTarget(command="./server", cwd=str(tmp_path)), heard, FRAME_LIMIT)
    assert heard.ends == []


async def test_exit_is_told_with_its_code_and_the_last_words_without_secrets() -> None:
    code = "import sys\nprint('no key hunter2-hunter2 here\\n', file=sys.stderr)\nsys.exit(3)"
    child, heard = await started(code, secrets=(Secret("hunter2-hunter2"),))
    reason = await ended(child)
    assert reason.startswith("the command exited with code 3 and said: no key ")
    assert "hunter2" not in reason + child.errors.tail
    assert heard.ends == [reason]
    await child.close()
    assert heard.ends == [reason]


async def test_values_of_variables_that_look_secret_are_redacted() -> None:
    code = "import os, sys\nprint(os.environ['API_TOKEN'], os.environ['PLACE'], file=sys.stderr)"
    child, _ = await started(code, env={"API_TOKEN": "sesame-4711", "PLACE": "Oslo-street"})
    await ended(child)
    await child.close()
    assert "sesame" not in child.errors.tail
    assert "Oslo-street" in child.errors.tail


async def test_child_that_is_killed_says_by_which_signal() -> None:
    child, heard = await started("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert await ended(child) == "the command was killed by SIGSEGV"
    await child.close()
    assert len(heard.ends) == 1


@pytest.mark.threat("H6")
async def test_flood_of_error_output_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "toolhall.upstream")
    code = "import sys\nfor number in range(5_000): print(number, '\\x1b[31m' + 'x' * 100, file=sys.stderr)"
    child, _ = await started(code)
    await ended(child)
    await child.close()
    assert len(caplog.records) < 500
    assert "lines were left out" in caplog.text
    assert "\x1b" not in caplog.text + child.errors.tail
    assert 60_000 < len(child.errors.tail) < 70_000
    assert child.errors.last_line.startswith("4999 ")


async def test_memory_above_the_limit_ends_the_group() -> None:
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-S', '-c', \"import time; kept = b'x' * 80_000_000; time.sleep(3600)\"])\n"
        "time.sleep(3600)"
    )
    child, _ = await started(code, max_memory=60)
    assert "MiB of memory, which is more than max_memory" in await ended(child)
    await child.close()


@pytest.mark.threat("H7")
async def test_stubborn_family_is_terminated_and_then_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(child_process, "TERMINATE_SECONDS", 0.1)
    child, heard = await started(FAMILY + "time.sleep(3600)")
    family = json.loads(await heard.frame())
    await child.close()
    await until(lambda: all(map(is_gone, family)))


async def test_group_hears_sigterm_before_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "CLOSE_SECONDS", 0.1)
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('{\"ended\":true}', flush=True)))\n"
        "print('[]', flush=True)\ntime.sleep(3600)"
    )
    child, heard = await started(code)
    assert await heard.frame() == b"[]"
    await child.close()
    assert await heard.frame() == b'{"ended":true}'


@pytest.mark.threat("H7")
async def test_child_that_leaves_processes_behind_takes_them_with_it() -> None:
    child, heard = await started(FAMILY)
    family = json.loads(await heard.frame())
    await ended(child)
    assert all(map(is_gone, family))
    await child.close()


async def test_killed_supervisor_takes_the_group_with_it() -> None:
    child, heard = await started(FAMILY + "own_session.kill()\nprint([], flush=True)\ntime.sleep(3600)")
    family = json.loads(await heard.frame())
    assert await heard.frame() == b"[]"  # what has left the group is beyond the reach of anybody but the supervisor
    assert child.pid is not None
    psutil.Process(child.pid).parent().kill()  # type: ignore[union-attr]
    await ended(child)
    await until(lambda: all(map(is_gone, family)))
    await child.close()


async def test_cancelled_close_ends_the_child_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "CLOSE_SECONDS", 0.3)
    monkeypatch.setattr(child_process, "TERMINATE_SECONDS", 0.1)
    child, heard = await started(STUBBORN)
    await heard.frame()
    closing = asyncio.ensure_future(child.close())
    await asyncio.sleep(0)
    closing.cancel()
    await ended(child)
    assert child.pid is not None
    assert is_gone(child.pid)


def test_loop_that_ends_during_a_close_leaves_nothing() -> None:
    pids: list[int | None] = []

    async def serve() -> None:
        child, heard = await started(STUBBORN)
        await heard.frame()
        pids.append(child.pid)
        task = asyncio.ensure_future(child.close())
        await asyncio.sleep(0)
        assert not task.done()

    before = descriptors()
    asyncio.run(serve())
    assert pids[0] is not None
    assert is_gone(pids[0])
    assert descriptors() == before


HALL = """
import asyncio, os, signal, sys
from toolhall.mcp_client.child_process import ChildProcess
from toolhall.mcp_client.targets import CommandTarget
class Listener:
    def on_frame(self, frame): print(frame.decode(), flush=True)
    def on_exit(self, reason): pass
async def main():
    command = CommandTarget(command=sys.executable, args=("-S", "-c", sys.argv[1]))
    child = await ChildProcess.start(command, Listener(), 1_000_000)
    await asyncio.sleep(3600)
asyncio.run(main())
"""


@pytest.mark.threat("H7")
async def test_killed_hall_takes_its_children_and_theirs_with_it() -> None:
    code = FAMILY + "time.sleep(3600)"
    with subprocess.Popen(  # noqa: ASYNC220 - started at once
        [sys.executable, "-c", HALL, code], stdout=subprocess.PIPE
    ) as hall:
        assert hall.stdout is not None
        family = json.loads(await asyncio.to_thread(hall.stdout.readline))
        hall.send_signal(signal.SIGKILL)
    await until(lambda: all(map(is_gone, family)))


async def test_hundred_starts_and_ends_leave_no_descriptor_and_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(child_process, "TERMINATE_SECONDS", 0.05)
    codes = (ECHO, "raise SystemExit(1)", STUBBORN, "import os; os.close(0); os.close(1); os.close(2)")
    own = psutil.Process()
    before = descriptors(), own.children(recursive=True)

    async def start_and_end(number: int) -> None:
        code = codes[number % len(codes)]
        child, heard = await started(code)
        if code == STUBBORN:
            await heard.frame()
        await child.close()
        assert len(heard.ends) == 1

    for batch in range(seeds.count(25, 250)):
        await asyncio.gather(*(start_and_end(4 * batch + each) for each in range(4)))
    assert (descriptors(), own.children(recursive=True)) == before
