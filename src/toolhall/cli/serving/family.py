"""A supervisor and the processes that serve for it: started on one shared socket, stopped together."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from types import FrameType

from toolhall.cli.failure import CommandFailed
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.privacy import secrets_in
from toolhall.model.json import encode

READY = b"1"
_PROGRAM = "toolhall.cli.serving.child"
_STOP_SECONDS = 28.0  # a little more than a child gives its own connections


class Child:
    """One serving process; others can read its command line and its environment, so it is told its plan in private."""

    def __init__(self, plan: Plan, listening: socket.socket) -> None:
        secrets = secrets_in(os.environ)
        self._channel, theirs = socket.socketpair()
        with theirs:
            inherited = (listening.fileno(), theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-P", "-m", _PROGRAM, *map(str, inherited)],
                pass_fds=inherited,
                env={name: value for name, value in os.environ.items() if name not in secrets},
            )
        with contextlib.suppress(OSError):  # it has ended already, and whoever waits for it will see that
            self._channel.sendall(encode((plan, secrets)) + b"\n")

    def ready(self, stopped: threading.Event) -> bool:
        """Wait until it accepts; False if it ended before, or if everything is to stop."""
        self._channel.settimeout(0.1)
        while not stopped.is_set():
            try:
                return self._channel.recv(1) == READY
            except TimeoutError:
                continue
        return False

    def ended(self) -> int | None:
        """Its exit code, once it has one."""
        return self._process.poll()

    def stop(self) -> None:
        """Tell it to finish what runs; `gone` then waits for that."""
        self._process.terminate()

    def gone(self) -> int:
        """Wait until it has ended, which it is made to when it takes too long."""
        self._channel.close()
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


@contextlib.contextmanager
def stop_signal() -> Generator[threading.Event, None, None]:
    """An event that SIGINT and SIGTERM set, so that a supervisor can end in order."""
    if sys.platform == "win32":
        raise CommandFailed("--reload and --workers need a system that can share sockets; serve without them")
    stopped = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, how in before.items():
            signal.signal(number, how)
