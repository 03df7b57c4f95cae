"""Servers in processes of their own: started by a command, ready once they say where they listen, then measured."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil

from tests.harness.patience import patience
from tests.harness.processes import read_json_line

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.01
STDIO_GRACE_SECONDS = 5.0  # a server whose input has ended is killed after this time


def toolhall(*arguments: str) -> list[str]:
    """The command line of a `toolhall` command."""
    return [sys.executable, "-m", "toolhall.cli", *arguments]


def environment(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """This process's environment, with settings for a server whose data folder is in `folder`."""
    chosen = {"data": folder / "data", **settings}
    return {**os.environ, **{f"TOOLHALL_{name.upper()}": str(value) for name, value in chosen.items()}}


def bare_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with these settings of Toolhall and no others."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TOOLHALL_")} | dict(settings)


class ServerProcess:
    """A server that was started; `first` is the line that it prints when it is ready, `log` its error output."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path | None = None) -> None:
        self.process = process
        self.pid = process.pid
        self.first: dict[str, Any] = {}
        self._log = log

    @classmethod
    def start(
        cls, command: list[str], folder: Path, *, env: Mapping[str, str] | None = None, log: Path | None = None
    ) -> Self:
        """Start a command in a folder; its error output goes to the file `log`, or to where that of the tests goes."""
        errors = log.open("wb") if log else None
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,  # or a line could wait in a buffer where select does not see it
            )
        finally:
            if errors:
                errors.close()
        return cls(process, log)

    def ready(self) -> Self:
        """Wait for its first line."""
        self.first = read_json_line(self.process, self._log)
        return self

    @property
    def url(self) -> str:
        """Its base URL."""
        return str(self.first["url"])

    @property
    def origin(self) -> str:
        """The scheme, host and port of its URL."""
        return self.url.rstrip("/")

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self.origin.rpartition(":")[2])

    @property
    def mcp(self) -> str:
        """The URL of its MCP endpoint."""
        return f"{self.origin}/mcp"

    @property
    def log(self) -> str:
        """Everything written to the error output so far."""
        assert self._log is not None
        return self._log.read_text(errors="replace")

    @property
    def data(self) -> Path:
        """Its data folder, as `environment` says."""
        assert self._log is not None
        return self._log.parent / "data"

    @property
    def fds(self) -> int:
        """Open file descriptors."""
        return self._inside.num_fds()

    @property
    def threads(self) -> int:
        """Running threads."""
        return self._inside.num_threads()

    @property
    def rss(self) -> int:
        """Bytes of memory in use."""
        return int(self._inside.memory_info().rss)

    @property
    def peak(self) -> int:
        """The most bytes of memory it ever used."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    @property
    def cpu(self) -> float:
        """Seconds of processor time used so far, those of its children included."""
        times = self._inside.cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    @property
    def loop_cpu(self) -> float:
        """Seconds of processor time that the thread of the event loop used so far."""
        (loop,) = (thread for thread in self._inside.threads() if thread.id == self.pid)
        return float(loop.user_time + loop.system_time)

    @property
    def children(self) -> list[int]:
        """The processes it started."""
        return [child.pid for child in self._inside.children(recursive=True)]

    @property
    def _inside(self) -> psutil.Process:
        return psutil.Process(self.pid)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        self.process.send_signal(how)
        return self.process.wait(patience())

    def kill(self) -> None:
        """Kill it if it still runs, also if it was suspended, and close its output."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(patience())
        if self.process.stdout:
            self.process.stdout.close()


@contextmanager
def server_process(
    command: list[str], folder: Path, *, env: Mapping[str, str] | None = None, log: Path | None = None
) -> Generator[ServerProcess]:
    """Start a server and wait until it is ready; it is killed at the end of the block, if it still runs."""
    server = ServerProcess.start(command, folder, env=env, log=log)
    try:
        yield server.ready()
    finally:
        server.kill()


@contextmanager
def serving(
    folder: Path, target: Path, *, port: int = 0, workers: int = 1, **settings: Any
) -> Generator[ServerProcess]:
    """Serve a file of tools over HTTP; settings are those of the configuration."""
    several = () if workers == 1 else ("--workers", str(workers))
    command = toolhall("serve", str(target), "--port", str(port), "--json", *several)
    with server_process(command, folder, env=environment(folder, settings), log=folder / "server.log") as server:
        yield server


@contextmanager
def stdio_server(
    command: list[str], folder: Path, *, env: Mapping[str, str] | None = None, log: Path | None = None
) -> "Generator[subprocess.Popen[bytes]]":
    """Start a server on its standard input and output; it is ended by closing its input, and by a kill after that."""
    pipe = subprocess.PIPE
    with (log or Path(os.devnull)).open("wb") as errors:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, cwd=folder, env=env)
    try:
        yield process
    finally:
        for each in (process.stdin, process.stdout):
            if each:
                each.close()
        try:
            process.wait(STDIO_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def eventually(holds: Any, seconds: float | None = None) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + (patience() if seconds is None else seconds)
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True
