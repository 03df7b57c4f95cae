"""Server processes to attack: started as a person would start them, measured from outside."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
TOOLS = HERE / "hostile_tools.py"
START_SECONDS = 90.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.01


def toolhall(*arguments: str) -> list[str]:
    """The command line of a `toolhall` command."""
    return [sys.executable, "-m", "toolhall.cli", *arguments]


class Served:
    """A running server over HTTP: its address, its log, and what it holds."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.data = log.parent / "data"
        self._log = log
        self._inside = psutil.Process(process.pid)

    @property
    def log(self) -> str:
        """Everything written to the error output so far."""
        return self._log.read_text(errors="replace")

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
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    @property
    def cpu(self) -> float:
        """Seconds of processor time used so far, those of its children included."""
        times = self._inside.cpu_times()
        return times.user + times.system + times.children_user + times.children_system

    @property
    def loop_cpu(self) -> float:
        """Seconds of processor time that the thread of the event loop used so far."""
        (loop,) = (thread for thread in self._inside.threads() if thread.id == self.process.pid)
        return float(loop.user_time + loop.system_time)

    @property
    def children(self) -> list[int]:
        """The processes it started."""
        return [child.pid for child in self._inside.children(recursive=True)]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        self.process.send_signal(how)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def serving(folder: Path, target: Path = TOOLS, *, port: int = 0, **settings: Any) -> Generator[Served]:
    """Serve a file of tools over HTTP; settings are those of the configuration."""
    log = folder / "server.log"
    command = toolhall("serve", str(target), "--port", str(port), "--json")
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment(folder, settings)
        )
    try:
        yield Served(process, _announced_port(process, log), log)
    finally:
        _end(process)


def environment(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """This process's environment, with settings for the server."""
    chosen = {"data": folder / "data", **settings}
    return {**os.environ, **{f"TOOLHALL_{name.upper()}": str(value) for name, value in chosen.items()}}


def eventually(holds: "Any", seconds: float = 10.0) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _announced_port(process: "subprocess.Popen[bytes]", log: Path) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the server did not start:\n{log.read_text()}"
    return int(json.loads(line)["url"].rpartition(":")[2].strip("/"))


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait(STOP_SECONDS)
    if process.stdout:
        process.stdout.close()
    if process.stdin:
        process.stdin.close()
