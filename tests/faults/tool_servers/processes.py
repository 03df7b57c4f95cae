"""One hall and its tool servers, each a process of its own that the tests may do anything to."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from tests.harness.patience import patience
from tests.threats.served import POLL_SECONDS, toolhall

HERE = Path(__file__).parent
Kit: TypeAlias = Literal["PyLedger", "TsLedger"]
KITS: tuple[Kit, ...] = ("PyLedger", "TsLedger")


class Effect(NamedTuple):
    """A line that a tool server has written, and which process did."""

    nonce: str
    pid: int


async def eventually(holds: Callable[[], bool], seconds: float | None = None) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + (patience() if seconds is None else seconds)
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Process:
    """A server that has been started: its id, what it announced, and how it ended."""

    def __init__(self, command: list[str], folder: Path, name: str, settings: dict[str, str]) -> None:
        self._said, self._log = folder / f"{name}.out", folder / f"{name}.log"
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TOOLHALL_")}
        with self._said.open("wb") as out, self._log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=folder, env=kept | settings, stdin=subprocess.DEVNULL, stdout=out, stderr=errors
            )
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    async def announced(self) -> str:
        """Its address, once it says that it serves, or that it has joined."""
        assert await eventually(lambda: b"\n" in self._said.read_bytes() or self._process.poll() is not None), self.log
        line = self._said.read_bytes().partition(b"\n")[0]
        assert line, f"it did not start, and ended with {self._process.poll()}:\n{self.log}"
        return str(json.loads(line)["url"])

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    async def ended(self) -> int:
        """Its exit status."""
        assert await eventually(lambda: self._process.poll() is not None), f"it does not end:\n{self.log}"
        return self._process.wait()

    def kill(self) -> None:
        """At once, also if it was stopped."""
        self._process.kill()
        self._process.wait()


class Site:
    """A hall that serves, and whoever joined it."""

    def __init__(self, folder: Path, script: Path) -> None:
        self._folder = folder
        self._script = script  # of the tool server in TypeScript
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._processes: list[Process] = []
        self.port = 0

    async def open(self) -> None:
        """Start the hall."""
        command = toolhall("serve", str(HERE / "beside.py"), "--port", "0", "--json")
        hall = self._start(command, "hall", {"TOOLHALL_DATA": str(self._folder / "data")})
        self.port = int((await hall.announced()).rpartition(":")[2].strip("/"))

    def start(self, kit: Kit, *options: str, hall: int = 0) -> Process:
        """A replica more, which joins at the hall's own port unless told otherwise."""
        target = (
            toolhall("serve", str(HERE / "ledger.py"), "--json") if kit == "PyLedger" else ["node", str(self._script)]
        )
        words = [*target, "--join", f"http://127.0.0.1:{hall or self.port}", *options]
        listening = () if {"--socket", "--port"} & {*options} else ("--port", "0")
        return self._start([*words, *listening], f"{kit}-{len(self._processes)}", {"LEDGER": str(self._ledger)})

    def effects(self) -> list[Effect]:
        """All that was written so far, in order."""
        lines = (line.split(" ") for line in self._ledger.read_text().splitlines())
        return [Effect(nonce, int(pid)) for nonce, pid in lines]

    async def stopped(self, *processes: Process) -> list[int]:
        """Tell them to end, and wait until they have; their exit statuses."""
        for process in processes:
            process.send(signal.SIGTERM)
        return [await process.ended() for process in processes]

    def close(self) -> None:
        """Nobody is left, whatever happened."""
        for process in self._processes:
            process.kill()

    def _start(self, command: list[str], name: str, settings: dict[str, str]) -> Process:
        process = Process(command, self._folder, name, settings)
        self._processes.append(process)
        return process


@asynccontextmanager
async def site(folder: Path, script: Path) -> AsyncGenerator[Site]:
    """A hall without tool servers; all that was started ends with the block."""
    opened = Site(folder, script)
    try:
        await opened.open()
        yield opened
    finally:
        opened.close()
