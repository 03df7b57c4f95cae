"""ChildProcess: a program that talks over its standard streams, owned and ended by the event loop that started it.

One owner starts a child, writes to it and closes it; its PipeListener hears the messages and the end. A supervisor
(`process_supervisor`) between the two ends the program and everything that it started however this process ends.

Nothing here starts a task or a thread for a message: the loop calls when a pipe can be read, one write sends a message,
and what the pipe does not take is kept until it does. Who sends meanwhile waits.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Literal, Protocol, TypeAlias

from toolhall import process_supervisor
from toolhall.concurrency import BackgroundTasks
from toolhall.mcp_client.child_output import ErrorOutput, FrameSplitter, FrameTooLarge
from toolhall.mcp_client.session import NotAcceptable, NotSent
from toolhall.mcp_client.targets import CommandTarget
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret, looks_secret
from toolhall.process_supervisor import TERMINATE, inherited_environment, signal_group

CLOSE_SECONDS = 5.0  # for a program to end by itself once its input is closed
TERMINATE_SECONDS = 2.0  # and then after SIGTERM
_START_SECONDS = 60.0  # for the supervisor, on a machine that is very busy
_REAP_SECONDS = 5.0  # for the supervisor to end once the program has been killed
_POLL_SECONDS = 0.005
_CHUNK = 256 * 1024
_PAUSE_SECONDS = 0.02  # after output that nobody wants: printing must not use up a core
_MAX_LAST_LINE = 200
_MAX_DRAINED = 64  # chunks; a pipe holds less
_Stream: TypeAlias = Literal["_stdout", "_stderr"]
# What usually has a command that is not there.
_PACKAGES = {
    "npx": "Node.js, https://nodejs.org",
    "npm": "Node.js, https://nodejs.org",
    "node": "Node.js, https://nodejs.org",
    "uvx": "uv, https://docs.astral.sh/uv",
    "uv": "uv, https://docs.astral.sh/uv",
    "pipx": "pipx, https://pipx.pypa.io",
    "python": "Python, https://www.python.org",
    "python3": "Python, https://www.python.org",
    "bunx": "Bun, https://bun.sh",
    "bun": "Bun, https://bun.sh",
    "deno": "Deno, https://deno.com",
    "docker": "Docker, https://www.docker.com",
    "dnx": "the .NET SDK, https://dotnet.microsoft.com",
    "dotnet": "the .NET SDK, https://dotnet.microsoft.com",
}


def child_environment(target: CommandTarget) -> dict[str, str]:
    """All variables of the program: the few that every child gets, and those of the target."""
    return {**inherited_environment(os.environ), **target.env}


def child_secrets(target: CommandTarget) -> tuple[Secret, ...]:
    """What error output is redacted of: stated secrets, and values of variables whose names say that they are."""
    named = (value for name, value in target.env.items() if looks_secret(name) and len(value) >= MIN_SECRET_LENGTH)
    return (*target.secrets, *map(Secret, named))


class PipeListener(Protocol):
    """What hears the other side of a pipe of messages."""

    def on_frame(self, frame: bytes) -> None:
        """Take a line of standard output that begins like a JSON object or list."""
        ...

    def on_exit(self, reason: str) -> None:
        """The child has ended by itself or was closed, and nothing more will come; called once, if it was started."""
        ...


def find_program(target: CommandTarget, environment: Mapping[str, str]) -> str:
    """The absolute path of the program, looked up in the child's own PATH; raises NotAcceptable with what to do."""
    folder = target.cwd or os.getcwd()  # noqa: PTH109 - as a string
    if not os.path.isdir(folder):  # noqa: PTH112
        raise NotAcceptable(f"the working folder {folder!r:.300} does not exist; change cwd")
    name = target.command
    if "/" in name:
        path = os.path.join(folder, os.path.expanduser(name))  # noqa: PTH111, PTH118
        if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
            return path
        problem = "is not executable; allow that with chmod +x" if os.path.exists(path) else "does not exist"  # noqa: PTH110
        raise NotAcceptable(f"the command {path!r:.300} {problem}")
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None:
        package = f"install {_PACKAGES[name]}, or" if name in _PACKAGES else "install it, or"
        raise NotAcceptable(f"the command {name!r:.100} is not in PATH; {package} write its full path")
    return os.path.abspath(found)  # noqa: PTH100


class ChildProcess:
    """A running child; `start` makes one. Close it: nothing of it is left afterwards."""

    def __init__(self, target: CommandTarget, listener: PipeListener, max_frame_bytes: int) -> None:
        self.errors = ErrorOutput(target.command, child_secrets(target))
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._frames = FrameSplitter(max_frame_bytes)
        self._outgoing = bytearray()
        self._gathers = False  # something was written in this turn of the loop, and the rest waits for its end
        self._writable: asyncio.Future[None] | None = None  # while `_outgoing` holds something
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._tasks = BackgroundTasks()
        self._closing: asyncio.Task[None] | None = None
        self._cause: str | None = None  # why it is killed, if it is
        self._pid: int | None = None
        self._spawn(target)

    @classmethod
    async def start(cls, target: CommandTarget, listener: PipeListener, max_frame_bytes: int) -> "ChildProcess":
        """Start a program; raises NotAcceptable if it cannot be run, with what to do, and NotSent otherwise."""
        child = cls(target, listener, max_frame_bytes)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await asyncio.shield(child._started)
        except TimeoutError:
            await child.kill("it could not be started in time")
            raise NotSent("the command could not be started in time") from None
        except BaseException:
            await child.kill("its start was given up")
            raise
        return child

    @property
    def pid(self) -> int | None:
        """The process id of the program, which is the id of its process group as well."""
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether messages can be sent."""
        return self._stdin is not None and not self._ended.done()

    @property
    def skipped_lines(self) -> int:
        """How many lines of standard output were no messages."""
        return self._frames.skipped

    async def send(self, frame: bytes) -> None:
        """Send a message, without its newline; raises NotSent if none of it was or will be written.

        The first of a turn of the loop is written at once, the others together at its end: each write wakes the child.
        """
        while self._writable is not None and self.is_running:
            await asyncio.shield(self._writable)
        if self._stdin is None or self._ended.done():
            raise NotSent(self._ended.result() if self._ended.done() else "the command is being ended")
        self._outgoing += frame
        self._outgoing += b"\n"
        if not self._gathers:
            self._gathers = True
            self._loop.call_soon(self._end_turn)
            self._write(self._stdin)
        elif len(self._outgoing) > _CHUNK:
            self._write_gathered()

    def _end_turn(self) -> None:
        self._gathers = False
        if self._outgoing and self._writable is None:
            self._write_gathered()

    def _write_gathered(self) -> None:
        try:
            if self._stdin is not None:
                self._write(self._stdin)
        except NotSent:
            self.abort("it no longer reads its input")  # its end tells whoever waits

    def _write(self, stdin: int) -> None:
        """Write what is to be sent, as far as the pipe takes it now; raises NotSent if it will take no more."""
        try:
            del self._outgoing[: os.write(stdin, self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:  # it has closed its input; its end follows, or `close`
            self._outgoing.clear()
            raise NotSent("the command no longer reads its input") from None
        if self._outgoing and self._writable is None:
            self._writable = self._loop.create_future()
            self._loop.add_writer(stdin, self._on_writable)

    async def wait(self) -> str:
        """Wait for the end of the program; the reason."""
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """Close the input and wait; after 5 seconds SIGTERM, after 2 more SIGKILL, each to all of the group."""
        if self._closing is None:
            self._closing = self._tasks.start(self._end())
        await asyncio.shield(self._closing)

    async def kill(self, cause: str) -> None:
        """End the program and everything that it started at once, and wait until nothing is left."""
        self.abort(cause)
        await self.close()

    def abort(self, cause: str) -> None:
        """End the program and everything that it started at once, without waiting for that."""
        self._cause = self._cause or cause
        self._shut_control()

    def _spawn(self, target: CommandTarget) -> None:
        if sys.platform == "win32":
            raise NotAcceptable("commands need a POSIX system; on Windows, use WSL or a server at a URL")
        environment = child_environment(target)
        program = find_program(target, environment)
        control, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str((target.max_memory or 0) << 20), program, *target.args]
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                    [sys.executable, "-I", "-S", str(Path(process_supervisor.__file__)), *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                    cwd=target.cwd,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:  # ValueError: a null character
            control.close()
            raise NotAcceptable(f"the command cannot be started: {getattr(error, 'strerror', error)}") from None
        self._control = control
        control.setblocking(False)
        self._stdin: int | None = _detached(self._process.stdin)
        self._stdout: int | None = _detached(self._process.stdout)
        self._stderr: int | None = _detached(self._process.stderr)
        self._loop.add_reader(control, self._on_control)
        self._loop.add_reader(self._stdout, self._on_output)
        self._loop.add_reader(self._stderr, self._on_errors)

    def _on_writable(self) -> None:
        self._write_gathered()
        if self._stdin is not None and not self._outgoing:
            self._loop.remove_writer(self._stdin)
            self._wake_senders()

    def _wake_senders(self) -> None:
        waiting, self._writable = self._writable, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _on_output(self) -> None:
        chunk = _read(self._stdout)
        if chunk == b"":
            self._stop_reading("_stdout")
        elif chunk and not self._take_output(chunk):
            self._pause("_stdout", self._on_output)

    def _take_output(self, chunk: bytes) -> bool:
        """Hand over the messages that are complete; False if it held nothing but lines that are none."""
        skipped = self._frames.skipped
        try:
            frames = self._frames.feed(chunk)
        except FrameTooLarge:
            self._cause = self._cause or "it sent a message that is larger than what is passed on"
            self._stop_reading("_stdout")
            self._shut_control()
            return True
        for frame in frames:
            self._listener.on_frame(frame)
        return bool(frames) or self._frames.skipped == skipped

    def _on_errors(self) -> None:
        chunk = _read(self._stderr)
        if chunk == b"":
            self._stop_reading("_stderr")
        elif chunk and not self.errors.feed(chunk):
            self._pause("_stderr", self._on_errors)

    def _pause(self, stream: "_Stream", read: Callable[[], None]) -> None:
        """Let the pipe fill up for a moment: printing must not use up a core of this process."""

        def resume() -> None:
            if getattr(self, stream) is not None:
                self._loop.add_reader(getattr(self, stream), read)

        self._loop.remove_reader(getattr(self, stream))
        self._loop.call_later(_PAUSE_SECONDS, resume)

    def _stop_reading(self, stream: "_Stream") -> None:
        descriptor = getattr(self, stream)
        if descriptor is not None:
            setattr(self, stream, None)
            self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def _on_control(self) -> None:
        try:
            told = self._control.recv(4_096)
        except BlockingIOError:
            return
        except OSError:
            told = b""
        if not told:
            self._loop.remove_reader(self._control)
            self._reap(_REAP_SECONDS)
            return
        for line in told.decode().splitlines():
            self._hear(*line.split())

    def _hear(self, word: str, figure: str) -> None:
        match word:
            case "started":
                self._pid = int(figure)
                if not self._started.done():
                    self._started.set_result(None)
            case "failed":
                self._fail_start(NotAcceptable(f"the command cannot be run: {os.strerror(int(figure))}"))
            case _:
                self._cause = f"it used {int(figure) >> 10} MiB of memory, which is more than max_memory"

    def _fail_start(self, error: Exception) -> None:
        if not self._started.done():
            self._started.set_exception(error)
            self._started.exception()  # nobody may be waiting any more

    def _reap(self, seconds_left: float) -> None:
        """Take the supervisor's exit code as soon as it is there; kill one that hangs."""
        if (code := self._process.poll()) is not None:
            self._finish(code)
            return
        if seconds_left <= 0:
            self._process.kill()
        self._loop.call_later(_POLL_SECONDS, self._reap, seconds_left - _POLL_SECONDS)

    def _finish(self, code: int) -> None:
        """Everything has ended: hand over what was still printed, close what is open, and tell the end."""
        if self._ended.done():
            return
        if self._pid is not None and code == -signal.SIGKILL:
            signal_group(self._pid, signal.SIGKILL)  # if it was the supervisor that somebody killed
        try:
            self._drain()
            self.errors.finish()
        finally:
            self._release()
            reason = self._reason(code)
            self._fail_start(NotSent(reason))
            self._ended.set_result(reason)
            self._wake_senders()
        if self._pid is not None:
            self._listener.on_exit(reason)

    def _drain(self) -> None:
        """Read what is left in the pipes, which nothing should write to any more."""
        for _ in range(_MAX_DRAINED):
            output, errors = _read(self._stdout), _read(self._stderr)
            if output:
                self._take_output(output)
            if errors:
                self.errors.feed(errors)
            if not output and not errors:
                return

    def _release(self) -> None:
        self._close_input()
        self._stop_reading("_stdout")
        self._stop_reading("_stderr")
        self._loop.remove_reader(self._control)
        self._control.close()

    def _reason(self, code: int) -> str:
        if self._cause is not None:
            return f"the command was ended: {self._cause}"
        if self._closing is not None:
            return "the session was closed"
        ended = f"exited with code {code}" if code >= 0 else f"was killed by {_signal_name(-code)}"
        last = self.errors.last_line[:_MAX_LAST_LINE]
        return f"the command {ended}" + (f" and said: {last}" if last else "")

    async def _end(self) -> None:
        try:
            self._end_turn()
            self._close_input()
            if not await self._ends_within(CLOSE_SECONDS):
                with contextlib.suppress(OSError):
                    self._control.send(TERMINATE)
                if not await self._ends_within(TERMINATE_SECONDS):
                    self._shut_control()
            await asyncio.shield(self._ended)
        finally:
            if not self._ended.done():  # the loop is being closed
                self._kill_blocking()

    async def _ends_within(self, seconds: float) -> bool:
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.done()

    def _kill_blocking(self) -> None:
        """Kill and reap without the loop; takes milliseconds."""
        self._shut_control()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_SECONDS)
        if self._process.poll() is None:
            self._process.kill()
        self._finish(self._process.wait())

    def _close_input(self) -> None:
        stdin, self._stdin = self._stdin, None
        if stdin is not None:
            self._loop.remove_writer(stdin)
            os.close(stdin)
            self._outgoing.clear()
            self._wake_senders()

    def _shut_control(self) -> None:
        """Tell the supervisor to kill everything; its end is heard afterwards."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)


def _detached(stream: IO[bytes] | None) -> int:
    """The descriptor of a pipe, which is ours alone from now on."""
    if stream is None:
        raise ValueError("the child has no such stream")
    descriptor = os.dup(stream.fileno())
    stream.close()
    os.set_blocking(descriptor, False)
    return descriptor


def _read(descriptor: int | None) -> bytes | None:
    """What the pipe holds; empty at its end, None if it holds nothing now or is closed."""
    if descriptor is None:
        return None
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
