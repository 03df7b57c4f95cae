"""Serves with one worker process that restarts when a source file changes: FileWatcher, UnavailableResponder.

Theory of operation. The supervisor binds the listening socket once and hands it to every worker, so the URL stays the
same and clients that connect during a restart wait in the socket's backlog. FileWatcher compares modification times
and sizes twice a second. When the worker cannot load its targets, its clients would wait until the next change;
UnavailableResponder therefore accepts their connections in the supervisor and answers 503 until a file changes.
"""

import asyncio
import contextlib
import importlib.util
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

from toolhall.model.json import encode
from toolhall.server.process import ServeConfig
from toolhall.server.supervisor import SupervisorOutput, WorkerProcess, shutdown_event

_MESSAGE = "what is served here cannot be loaded; look at the terminal of 'toolhall serve', which says why"
_BODY = encode({"error": {"code": "unavailable", "message": _MESSAGE}})
_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)
_MAX_OPEN = 128  # connections that were answered and not closed yet
_DRAIN_SECONDS = 1.0
_SIGNAL_SECONDS = 0.1  # at most this long after a signal the responder returns
_READ_CHUNK = 65_536

_POLL_SECONDS = 0.5
_MAX_FILES = 5_000
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}
FileSnapshot: TypeAlias = dict[Path, tuple[int, int]]  # modification time in nanoseconds, size


class WatchedFiles(NamedTuple):
    """A folder whose Python files are watched, with or without its subfolders."""

    folder: Path
    recursive: bool


def run_reloading(main_module: str, config: ServeConfig, listening: socket.socket, output: SupervisorOutput) -> int:
    """Serve with one worker at a time and restart it on every change of a file; return the exit code."""
    with shutdown_event() as stopped:
        output.ready(listening)
        watcher = FileWatcher(tuple(_watched_folders(config.targets)))
        with UnavailableResponder(listening) as responder:
            while not stopped.is_set():
                watcher.take_snapshot()
                worker = WorkerProcess(main_module, config, listening)
                changed = _wait_for_change(worker, watcher, responder, stopped, output)
                worker.stop()
                worker.wait()
                if changed:
                    output.note(f"{changed.name} changed; serving it again")
    return 0


def _wait_for_change(
    worker: WorkerProcess,
    watcher: "FileWatcher",
    responder: "UnavailableResponder",
    stopped: threading.Event,
    output: SupervisorOutput,
) -> Path | None:
    """Return the file that changed, None on shutdown; once the worker has exited, clients get 503 meanwhile."""
    failed = False
    while not responder.wait(_POLL_SECONDS, stopped, respond=failed):
        changed = watcher.changed()
        if changed:
            return changed
        if worker.exit_code() is not None and not failed:
            failed = True
            output.note("waiting for a change")
    return None


class UnavailableResponder:
    """Answers 503 on the listening socket, only during `wait(..., respond=True)`.

    Connections that it does not accept stay in the backlog for the next worker. An answered connection is read until
    the client closes it, for at most a second: to close it with unread data would reset it, and the client could lose
    the response. At most 128 are open; the oldest is closed for a new one.
    """

    def __init__(self, listening: socket.socket) -> None:
        listening.setblocking(False)  # as the worker's event loop does, on the same open file
        self._listening = listening
        self._runner = asyncio.Runner()
        self._draining: dict[asyncio.Task[None], None] = {}  # the oldest first

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    @property
    def open_connections(self) -> int:
        """How many clients were answered and have not closed their connection."""
        return len(self._draining)

    def wait(self, seconds: float, stopped: threading.Event, *, respond: bool) -> bool:
        """Wait so long, or until `stopped` is set, and return whether it is; with `respond`, answer clients."""
        if respond or self._draining:
            self._runner.run(self._run(seconds, stopped, respond=respond))
            return stopped.is_set()
        return stopped.wait(seconds)

    async def _run(self, seconds: float, stopped: threading.Event, *, respond: bool) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if respond:
            loop.add_reader(self._listening, self._accept, loop)
        try:
            while not stopped.is_set() and (left := until - loop.time()) > 0:  # noqa: ASYNC110 - a signal handler sets it
                await asyncio.sleep(min(left, _SIGNAL_SECONDS))
        finally:  # not asyncio.start_server, which drops a connection that it accepts while it is being closed
            loop.remove_reader(self._listening)

    def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:  # the client has closed it again
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(_RESPONSE)  # fits into the send buffer of a new connection
            connection.shutdown(socket.SHUT_WR)
        if len(self._draining) >= _MAX_OPEN:
            oldest = next(iter(self._draining))
            del self._draining[oldest]
            oldest.cancel()
        task = loop.create_task(_drain(connection, loop))
        self._draining[task] = None
        task.add_done_callback(lambda done: self._draining.pop(done, None))


async def _drain(connection: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
    """Read and discard what the client sends until it closes the connection or the time is up; then close it."""
    with connection, contextlib.suppress(OSError):  # TimeoutError is an OSError
        async with asyncio.timeout(_DRAIN_SECONDS):
            while await loop.sock_recv(connection, _READ_CHUNK):
                pass


class FileWatcher:
    """Finds changes of Python files since the last snapshot by their modification time and size."""

    def __init__(self, folders: tuple[WatchedFiles, ...]) -> None:
        self._folders = folders
        self._snapshot: FileSnapshot = {}

    def take_snapshot(self) -> None:
        """Remember the files as they are now, before a worker loads them."""
        self._snapshot = _file_states(self._folders)

    def changed(self) -> Path | None:
        """A file that was changed, added or removed since the snapshot."""
        before, now = self._snapshot, _file_states(self._folders)
        return next((path for path in (*now, *before) if now.get(path) != before.get(path)), None)


def _watched_folders(targets: tuple[str, ...]) -> Iterator[WatchedFiles]:
    """Yield what a change of the targets can be in: a file's folder (it may import its neighbours), or a package."""
    for target in targets:
        path = Path(f"{target.partition('.py:')[0]}.py") if ".py:" in target else Path(target)
        if path.is_dir():
            yield WatchedFiles(path, recursive=True)
        elif path.suffix == ".py":
            yield WatchedFiles(path.parent, recursive=False)
        else:
            yield from _package_folders(target.partition(":")[0].partition(".")[0])


def _package_folders(name: str) -> Iterator[WatchedFiles]:
    if (Path.cwd() / f"{name}.py").is_file():
        yield WatchedFiles(Path.cwd(), recursive=False)
        return
    local = Path.cwd() / name
    spec = None if local.is_dir() else importlib.util.find_spec(name)
    for folder in [local] if local.is_dir() else (spec.submodule_search_locations or [] if spec else []):
        yield WatchedFiles(Path(folder), recursive=True)


def _file_states(watched: tuple[WatchedFiles, ...]) -> FileSnapshot:
    """The state of every watched file, of at most 5,000."""
    states: FileSnapshot = {}
    for each in watched:
        for file in _python_files(each):
            if len(states) >= _MAX_FILES:
                break
            try:
                state = file.stat()
            except OSError:  # gone since it was listed
                continue
            states[file] = (state.st_mtime_ns, state.st_size)
    return states


def _python_files(watched: WatchedFiles) -> Iterator[Path]:
    if not watched.recursive:
        yield from watched.folder.glob("*.py")
        return
    for folder, below, names in os.walk(watched.folder):
        below[:] = [name for name in below if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))
