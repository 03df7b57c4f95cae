"""Supervisor of worker processes that share one listening socket: WorkerProcess, `run_workers`, `shutdown_event`.

Theory of operation. The supervisor binds the socket and never accepts. Each worker is a new Python process
(`python -m`, with the main module that the caller names) that inherits the listening socket and one end of a socket
pair, the channel.
Other users of the machine can read a process's command line, and its tools its environment; the ServeConfig and the
hall's secrets are therefore sent over the channel, as one JSON line. The worker answers READY once it accepts. After
that the channel means only one thing: when the supervisor's end closes, because it stops the worker or has died, the
worker shuts down.

The first worker is started alone: it creates the data folder, and its exit code says whether the targets can be
served at all. Then the others start, as siblings. A worker that dies is replaced, at most one a second. SIGINT and
SIGTERM stop all workers gracefully; one that takes longer than its own shutdown grace is killed.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import Protocol

import msgspec

from toolhall.model.json import encode
from toolhall.server.process import ServeConfig, secret_env_in

READY = b"1"
_STOP_SECONDS = 28.0  # more than a worker gives its own connections (SHUTDOWN_GRACE_SECONDS)
_POLL_SECONDS = 0.2
_RESPAWN_SECONDS = 1.0  # between two restarts, so that a worker that always dies is not started in a tight loop


class WorkerProcess:
    """One worker process, which runs `main_module`, and the channel to it."""

    def __init__(self, main_module: str, config: ServeConfig, listening: socket.socket) -> None:
        secrets = secret_env_in(os.environ)
        self._channel, theirs = socket.socketpair()
        with theirs:
            inherited = (listening.fileno(), theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-P", "-m", main_module, *map(str, inherited)],
                pass_fds=inherited,
                env={name: value for name, value in os.environ.items() if name not in secrets},
            )
        with contextlib.suppress(OSError):  # it has exited already, which `wait_ready` and `exit_code` show
            self._channel.sendall(encode((config, secrets)) + b"\n")

    def wait_ready(self, stop: threading.Event) -> bool:
        """Wait until the worker accepts connections; False if it exited before, or if `stop` is set."""
        self._channel.settimeout(0.1)
        while not stop.is_set():
            try:
                return self._channel.recv(1) == READY
            except TimeoutError:
                continue
        return False

    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to shut down gracefully; `wait` then waits for that."""
        self._process.terminate()

    def wait(self) -> int:
        """Wait for its exit and return the exit code; a worker that takes too long is killed."""
        self._channel.close()
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@contextlib.contextmanager
def shutdown_event() -> Generator[threading.Event, None, None]:
    """Yield an event that SIGINT and SIGTERM set instead of ending the process."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SupervisorOutput(Protocol):
    """Prints the supervisor's messages for the person who started it."""

    def ready(self, listening: socket.socket) -> None:
        """Print that the workers accept connections on this socket."""
        ...

    def note(self, text: str) -> None:
        """Print one line."""
        ...


def run_workers(main_module: str, config: ServeConfig, listening: socket.socket, output: SupervisorOutput) -> int:
    """Run the workers on a listening socket until a signal, replace those that die; return the exit code."""
    with shutdown_event() as stopped:
        first = WorkerProcess(main_module, config, listening)
        if not first.wait_ready(stopped):
            return _startup_failed(first, stopped)
        config = msgspec.structs.replace(config, sibling=True)
        workers = [first, *(WorkerProcess(main_module, config, listening) for _ in range(config.workers - 1))]
        output.ready(listening)
        _respawn(workers, lambda: WorkerProcess(main_module, config, listening), stopped, output)
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.wait()
    return 0


def _startup_failed(worker: WorkerProcess, stopped: threading.Event) -> int:
    """Return the exit code of a worker that never became ready; it has printed the reason itself."""
    if not stopped.is_set():
        return worker.wait() or 1
    worker.stop()
    worker.wait()
    return 0


def _respawn(
    workers: list[WorkerProcess], start: Callable[[], WorkerProcess], stopped: threading.Event, output: SupervisorOutput
) -> None:
    last_start = time.monotonic()
    while not stopped.wait(_POLL_SECONDS):
        for index, worker in enumerate(workers):
            code = worker.exit_code()
            if code is None or time.monotonic() - last_start < _RESPAWN_SECONDS:
                continue
            output.note(f"a worker ended with code {code}; another one takes its place")
            worker.wait()
            workers[index] = start()
            last_start = time.monotonic()
