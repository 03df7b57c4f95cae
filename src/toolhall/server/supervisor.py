"""Supervisor of worker processes that share one listening socket: WorkerProcess, shutdown signals, respawning."""

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
_WORKER_MODULE = "toolhall.cli.serve_http"
_STOP_SECONDS = 28.0  # a little more than a child gives its own connections


class WorkerProcess:
    """One serving process; others can read its command line and its environment, so it is told its plan in private."""

    def __init__(self, config: ServeConfig, listening: socket.socket) -> None:
        secrets = secret_env_in(os.environ)
        self._channel, theirs = socket.socketpair()
        with theirs:
            inherited = (listening.fileno(), theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-P", "-m", _WORKER_MODULE, *map(str, inherited)],
                pass_fds=inherited,
                env={name: value for name, value in os.environ.items() if name not in secrets},
            )
        with contextlib.suppress(OSError):  # it has ended already, and whoever waits for it will see that
            self._channel.sendall(encode((config, secrets)) + b"\n")

    def wait_ready(self, stop: threading.Event) -> bool:
        """Wait until it accepts; False if it ended before, or if everything is to stop."""
        self._channel.settimeout(0.1)
        while not stop.is_set():
            try:
                return self._channel.recv(1) == READY
            except TimeoutError:
                continue
        return False

    def exit_code(self) -> int | None:
        """Its exit code, once it has one."""
        return self._process.poll()

    def stop(self) -> None:
        """Tell it to finish what runs; `gone` then waits for that."""
        self._process.terminate()

    def wait(self) -> int:
        """Wait until it has ended, which it is made to when it takes too long."""
        self._channel.close()
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@contextlib.contextmanager
def shutdown_event() -> Generator[threading.Event, None, None]:
    """An event that SIGINT and SIGTERM set, so that a supervisor can end in order."""
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, how in before.items():
            signal.signal(number, how)


_POLL_SECONDS = 0.2
_RESPAWN_SECONDS = 1.0  # a worker that cannot live must not be started in a tight loop


class SupervisorOutput(Protocol):
    """What a supervisor tells the person who started it."""

    def ready(self, listening: socket.socket) -> None:
        """The workers accept connections on this socket."""
        ...

    def note(self, text: str) -> None:
        """Something that the person should know, in one line."""
        ...


def run_workers(config: ServeConfig, listening: socket.socket, output: SupervisorOutput) -> int:
    """Start the workers on a listening socket, replace those that die, stop them all; return the exit code."""
    with shutdown_event() as stopped:
        first = WorkerProcess(config, listening)
        # The first one alone: it makes what all of them share, and tells whether the target can be served at all.
        if not first.wait_ready(stopped):
            return _startup_failed(first, stopped)
        config = msgspec.structs.replace(config, sibling=True)
        workers = [first, *(WorkerProcess(config, listening) for _ in range(config.workers - 1))]
        output.ready(listening)
        _respawn(workers, lambda: WorkerProcess(config, listening), stopped, output)
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.wait()
    return 0


def _startup_failed(worker: WorkerProcess, stopped: threading.Event) -> int:
    """The worker has said itself what was wrong."""
    if not stopped.is_set():
        return worker.wait() or 1
    worker.stop()
    worker.wait()
    return 0


def _respawn(
    workers: list[WorkerProcess], start: Callable[[], WorkerProcess], stopped: threading.Event, output: SupervisorOutput
) -> None:
    started = time.monotonic()
    while not stopped.wait(_POLL_SECONDS):
        for place, worker in enumerate(workers):
            code = worker.exit_code()
            if code is None or time.monotonic() - started < _RESPAWN_SECONDS:
                continue
            output.note(f"a worker ended with code {code}; another one takes its place")
            worker.wait()
            workers[place] = start()
            started = time.monotonic()
