"""A server process of our own: started, measured, stopped by its id, and nothing left behind."""

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

START_SECONDS = 120.0
STOP_SECONDS = 5.0
MEGABYTE = 1024 * 1024


class CpuTime(NamedTuple):
    """Seconds of CPU; the kernel's part is sampled by its clock tick, the total is exact."""

    total: float
    kernel: float

    def since(self, before: "CpuTime") -> "CpuTime":
        """What was used in between."""
        return CpuTime(self.total - before.total, self.kernel - before.kernel)


class Memory(NamedTuple):
    """Of a process and its children, in megabytes."""

    rss: float
    pss: float


class Place(NamedTuple):
    """Where a process runs."""

    folder: Path
    environment: Mapping[str, str]


class Process:
    """Runs from construction until `stop`; what it says on its error output is kept to explain a failure."""

    def __init__(
        self, name: str, command: Sequence[str], place: Place, *, piped: bool = False, counts_children: bool = True
    ) -> None:
        self.name = name
        self._counts_children = counts_children
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        pipe = subprocess.PIPE if piped else subprocess.DEVNULL
        # Its own session: a Ctrl-C reaches only us, and we stop it.
        self.popen = subprocess.Popen(
            command,
            cwd=place.folder,
            env=dict(place.environment),
            stdin=pipe,
            stdout=pipe,
            stderr=self._said,
            start_new_session=True,
        )
        self._process = psutil.Process(self.popen.pid)

    def cpu(self) -> CpuTime:
        """What it and its children have used, or it alone."""
        times = [_cpu(process) for process in (self._all() if self._counts_children else (self._process,))]
        return CpuTime(sum(time.total for time in times), sum(time.kernel for time in times))

    def memory(self) -> Memory:
        """What it and its children hold now."""
        infos = [process.memory_full_info() for process in self._all()]
        return Memory(sum(info.rss for info in infos) / MEGABYTE, sum(info.pss for info in infos) / MEGABYTE)

    def check(self) -> None:
        """Raise if it has ended."""
        if self.popen.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.popen.returncode}:\n{self.said()}")

    def said(self) -> str:
        """The end of its error output."""
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-2000:]

    def stop(self) -> None:
        """End it and its children, gently first."""
        try:
            processes = self._all()
        except psutil.NoSuchProcess:
            processes = []
        for process in processes:
            _quietly(process.terminate)
        _, alive = psutil.wait_procs(processes, STOP_SECONDS)
        for process in alive:
            _quietly(process.kill)
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe:
                _quietly(pipe.close)
        self.popen.wait(STOP_SECONDS)
        self._said.close()

    def _all(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]


def _cpu(process: psutil.Process) -> CpuTime:
    """By the kernel's clock of that process (clock_getcpuclockid): nanoseconds, where /proc counts hundredths."""
    try:
        times = process.cpu_times()
        own = time.clock_gettime(~process.pid << 3 | 2)
    except (psutil.NoSuchProcess, OSError):
        return CpuTime(0.0, 0.0)
    return CpuTime(own + times.children_user + times.children_system, times.system + times.children_system)


def _quietly(act: Callable[[], object]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        act()


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_port(process: Process, port: int) -> None:
    """Return once the port accepts connections; raise if the process exits before."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        process.check()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.002)
        else:
            return
    raise RuntimeError(f"{process.name} did not listen within {START_SECONDS:g} seconds:\n{process.said()}")
