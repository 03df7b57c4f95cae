"""A hall in a process of its own in front of upstreams that count what runs and do harm, and callers of their tools."""

import asyncio
import itertools
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import psutil

from tests.harness.http_client import AsyncConnection, Message, request_url
from tests.harness.lateness import measured_lateness
from tests.harness.mcp_messages import MODERN, McpAnswer, encoded, headers_for, tool_call
from tests.harness.server_process import ServerProcess, environment, eventually, server_process, toolhall
from tests.harness.sync_mcp_client import answer_of, post
from tests.servers import faulty_mcp
from tests.servers.served_hall import ServedHall

Transport: TypeAlias = Literal["stdio", "http"]
TIMEOUT = 3.0  # of a call, unless a test says otherwise
SOON = 1.0  # a call that nothing stands in the way of
_ids = itertools.count(1)


def nonce() -> str:
    """The name of one call."""
    return f"n{next(_ids)}"


class FaultyUpstream:
    """One upstream and what its files say; over HTTP the test runs it, over stdio the hall does."""

    def __init__(self, folder: Path, name: str, transport: Transport, *, modern: bool = False, **settings: Any) -> None:
        self.name = name
        self.transport: Transport = transport
        self.folder = folder / name
        self.folder.mkdir()
        self.port = 0
        self.reached_at: int | None = None  # the port of a proxy in front of it
        self.process: ServerProcess | None = None
        self._command = [sys.executable, "-S", "-E", str(Path(faulty_mcp.__file__)), "modern" if modern else "legacy"]
        self._settings = {"trusted": True, "timeout": TIMEOUT} | settings

    @property
    def received(self) -> bytes:
        """Every byte that came in, if `record` was called before it started."""
        return (self.folder / "received").read_bytes()

    def record(self) -> None:
        """Keep every byte that comes in."""
        (self.folder / "received").touch()

    @property
    def settings(self) -> Message:
        """The table of the hall's settings."""
        if self.transport == "stdio":
            target = {"command": self._command[0], "args": [*self._command[1:], "stdio"], "cwd": str(self.folder)}
        else:
            target = {"url": f"http://127.0.0.1:{self.reached_at or self.port}/mcp"}
        return target | self._settings

    def start(self, *, modern: bool | None = None) -> None:
        """Start it over HTTP, on the port that it had before, after the end of the one that ran there."""
        if modern is not None:
            self._command[-1] = "modern" if modern else "legacy"
        self.stop()
        process = ServerProcess.start([*self._command, "http", str(self.port)], self.folder, log=self.folder / "log")
        self.process = process.ready()
        self.port = int(self.process.first["url"].split(":")[2].split("/")[0])

    def stop(self) -> None:
        """End it over HTTP."""
        if self.process is not None:
            self.process.kill()

    def lines(self, file: str) -> list[str]:
        """The lines of one of its files."""
        path = self.folder / file
        return path.read_text().split() if path.exists() else []

    @property
    def calls(self) -> list[str]:
        """The calls that ran, in order."""
        return self.lines("calls")

    @property
    def pids(self) -> list[int]:
        """The processes that it ever was."""
        return [int(each) for each in self.lines("pids")]

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the process that it is now."""
        if self.process is not None:
            self.process.process.send_signal(how)
        else:
            psutil.Process(self.pids[-1]).send_signal(how)

    def list(self, *tools: Message) -> None:
        """List these tools from now on."""
        (self.folder / "tools.json").write_text(json.dumps(tools))


def toml(table: Message) -> Iterator[str]:
    """A table of settings; its values are written in TOML as in JSON, but for tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            members = ", ".join(f"{json.dumps(name)} = {json.dumps(each)}" for name, each in value.items())
            yield f"{key} = {{ {members} }}"
        else:
            yield f"{key} = {json.dumps(value)}"


def write_settings(folder: Path, *upstreams: FaultyUpstream) -> None:
    """Write the hall's settings with these upstreams."""
    lines = [line for each in upstreams for line in (f"[upstreams.{each.name}]", *toml(each.settings))]
    (folder / "toolhall.toml").write_text("\n".join(lines))


class UpstreamHall:
    """The hall, and whoever calls its tools."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.port = server.port
        self.web = ServedHall(server.port)
        self._keys: dict[str, str] = {}

    def state(self, name: str) -> Message:
        """What the hall says of an upstream."""
        found: Message = json.loads(request_url(f"{self.server.origin}/api/upstreams/{name}").body)
        return found

    def is_ready(self, *upstreams: FaultyUpstream) -> bool:
        """Whether these are reached and listed."""
        return all(self.state(each.name).get("state") == "ready" for each in upstreams)

    async def until_ready(self, *upstreams: FaultyUpstream) -> None:
        """Wait until these are reached and listed."""
        assert await until(lambda: self.is_ready(*upstreams)), self.server.log

    def admit(self, name: str) -> str:
        """A key of a new caller, who may call everything."""
        return self.web.keys[self.web.admit(name)]


@contextmanager
def upstream_hall(
    folder: Path, *upstreams: FaultyUpstream, command: list[str] | None = None, **settings: Any
) -> Generator[UpstreamHall]:
    """Run the upstreams and a hall in front of them; nothing of either is left at the end."""
    with ExitStack() as stack:
        for each in upstreams:
            stack.callback(each.stop)
            if each.transport == "http" and each.process is None:
                each.start()
        write_settings(folder, *upstreams)
        words = command or toolhall("serve", "--port", "0", "--json")
        env, log = environment(folder, settings), folder / "hall.log"
        with server_process(words, folder, env=env, log=log) as server:
            yield UpstreamHall(server, folder)
            if server.process.poll() is None:
                assert server.stop() == 0
        assert "Traceback" not in log.read_text(errors="replace"), log.read_text(errors="replace")
        assert eventually(lambda: not living(each for one in upstreams if one.process is None for each in one.pids))


def patched_command(patch: str) -> list[str]:
    """The command of a hall in which these lines ran first: for times that no test can wait for."""
    return [sys.executable, "-c", f"{patch}\nfrom toolhall.cli import main\nmain()", "serve", "--port", "0", "--json"]


def living(pids: Iterable[int]) -> list[int]:
    """Those of these processes that are still there; a zombie is."""
    return [pid for pid in pids if psutil.pid_exists(pid)]


async def until(holds: Callable[[], bool], seconds: float | None = None) -> bool:
    """Whether something becomes true in time, looked at without blocking the loop."""
    return await asyncio.to_thread(eventually, holds, seconds)


class Answered(NamedTuple):
    """A call, what was answered, and after how many seconds."""

    nonce: str
    answer: McpAnswer
    seconds: float
    ended: float

    @property
    def ok(self) -> bool:
        """Whether it came back with its own value."""
        return not self.answer.is_error and self.answer.text == self.nonce


class UpstreamCaller:
    """One caller with one connection to the hall, and one call at a time."""

    def __init__(self, hall: UpstreamHall, key: str | None = None) -> None:
        self._port = hall.port
        self._proof = [] if key is None else [("Authorization", f"Bearer {key}")]
        self._line: AsyncConnection | None = None

    async def call(self, tool: str, **arguments: Any) -> McpAnswer:
        """Call a tool."""
        return await self.send(tool_call(MODERN, tool, arguments))

    async def send(self, message: Message) -> McpAnswer:
        """Send a request of the newest revision."""
        body = encoded(message)
        if self._line is None:
            self._line = await AsyncConnection.open(self._port)
        self._line.send(post(self._port, body, *headers_for(body), *self._proof))
        return answer_of(await self._line.reply())

    async def write(self, upstream: FaultyUpstream, name: str | None = None, **arguments: Any) -> Answered:
        """Let something run once, under a name that no other call has."""
        name, began = name or nonce(), time.monotonic()
        answer = await self.call(f"{upstream.name}_write", nonce=name, **arguments)
        ended = time.monotonic()
        return Answered(name, answer, ended - began, ended)

    async def close(self) -> None:
        """Hang up."""
        if self._line is not None:
            await self._line.close()


class UpstreamLoad:
    """Callers of one upstream, each with one call after the other for as long as the block runs."""

    def __init__(self, hall: UpstreamHall, upstream: FaultyUpstream, callers: int, **arguments: Any) -> None:
        self.answers: list[Answered] = []
        self._callers = [UpstreamCaller(hall) for _ in range(callers)]
        self._upstream = upstream
        self._arguments = arguments
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "UpstreamLoad":
        self._tasks = [asyncio.create_task(self._work(each)) for each in self._callers]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        try:
            await asyncio.gather(*self._tasks)
        finally:
            for each in self._callers:
                await each.close()

    async def _work(self, caller: UpstreamCaller) -> None:
        while not self._stop.is_set():
            answered = await caller.write(self._upstream, **self._arguments)
            self.answers.append(answered)
            # Who was refused at once does not ask again at once.
            await asyncio.sleep(0.01 if answered.ok else 0.05)

    async def until_answered(self, count: int) -> None:
        """Wait until so many calls from now on have gone well."""
        before = len(self.answers)

        def have_succeeded() -> bool:
            return sum(each.ok for each in self.answers[before:]) >= count

        assert await until(have_succeeded), [each.answer.text for each in self.answers[-5:]]


def assert_ran_once(upstream: FaultyUpstream, answers: list[Answered]) -> None:
    """No call ran twice, and what was answered well ran."""
    ran = Counter(upstream.calls)
    assert not [name for name, times in ran.items() if times > 1]
    assert not [each.nonce for each in answers if each.ok and each.nonce not in ran]


@asynccontextmanager
async def harms_nobody_else(hall: UpstreamHall, beside: FaultyUpstream) -> AsyncGenerator[None]:
    """What happens in this block is not noticed by whoever calls the upstream beside."""
    with measured_lateness() as machine:
        async with UpstreamLoad(hall, beside, 2) as load:
            began = time.monotonic()
            await load.until_answered(2)
            yield
            await load.until_answered(2)
        ended = time.monotonic()
    assert all(each.ok for each in load.answers)
    assert max(each.seconds for each in load.answers) < SOON + machine.late(SOON, began, ended)
