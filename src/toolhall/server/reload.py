"""Serves with one worker process that restarts when a source file changes: FileWatcher, UnavailableResponder."""

import contextlib
import importlib.util
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeAlias

from toolhall.model.json import encode
from toolhall.server.process import ServeConfig
from toolhall.server.supervisor import SupervisorOutput, WorkerProcess, shutdown_event

_MESSAGE = "what is served here cannot be loaded; look at the terminal of 'toolhall serve', which says why"
_BODY = encode({"error": {"code": "unavailable", "message": _MESSAGE}})
_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)
_MAX_OPEN = 128
_LINGER_SECONDS = 1.0
_SELECT_SECONDS = 0.1  # how soon a signal is heard
_READ_CHUNK = 65_536


class UnavailableResponder:
    """Takes connections only while it is told to; what it does not take waits in line for the next process.

    A caller that has its answer is heard out until it hangs up, or the answer could be lost on its way.
    """

    def __init__(self, listening: socket.socket) -> None:
        listening.setblocking(False)  # whoever serves does the same
        self._listening = listening
        self._lingering: dict[socket.socket, float] = {}  # until when each is heard out, the oldest first
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> "UnavailableResponder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for connection in list(self._lingering):
            self._close(connection)
        self._selector.close()

    @property
    def open_connections(self) -> int:
        """How many callers have their answer and have not hung up."""
        return len(self._lingering)

    def wait(self, seconds: float, stopped: threading.Event, *, respond: bool) -> bool:
        """Let this much time pass, meanwhile answer if that is asked for; whether it is time to stop."""
        if not respond and not self._lingering:
            return stopped.wait(seconds)
        until = time.monotonic() + seconds
        if respond:
            self._selector.register(self._listening, selectors.EVENT_READ)
        try:
            while not stopped.is_set() and (left := until - time.monotonic()) > 0:
                self._poll(min(left, _SELECT_SECONDS))
        finally:
            if respond:
                self._selector.unregister(self._listening)
        return stopped.is_set()

    def _poll(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listening:
                self._accept()
            elif key.data in self._lingering and not _read_more(key.data):
                self._close(key.data)
        now = time.monotonic()
        for connection in [each for each, until in self._lingering.items() if until <= now]:
            self._close(connection)

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:  # it has gone again
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # whoever has hung up is forgotten when it is read
            connection.send(_RESPONSE)  # fits into the buffer of a new connection
            connection.shutdown(socket.SHUT_WR)
        if len(self._lingering) >= _MAX_OPEN:
            self._close(next(iter(self._lingering)))
        self._lingering[connection] = time.monotonic() + _LINGER_SECONDS
        self._selector.register(connection, selectors.EVENT_READ, connection)

    def _close(self, connection: socket.socket) -> None:
        del self._lingering[connection]
        self._selector.unregister(connection)
        connection.close()


def _read_more(connection: socket.socket) -> bool:
    """Read some of the request; False once there is no more."""
    try:
        return bool(connection.recv(_READ_CHUNK))
    except BlockingIOError:
        return True
    except OSError:
        return False


_POLL_SECONDS = 0.5
_MAX_FILES = 5_000
_SKIPPED_FOLDERS = {"__pycache__", "node_modules", "site-packages"}
FileSnapshot: TypeAlias = dict[Path, tuple[int, int]]


class WatchedFiles(NamedTuple):
    """A folder whose Python files matter, with those below it or without."""

    folder: Path
    recursive: bool


def run_reloading(config: ServeConfig, listening: socket.socket, output: SupervisorOutput) -> int:
    """Serve with one worker at a time on a socket that stays open, so that callers wait while the worker restarts."""
    with shutdown_event() as stopped:
        output.ready(listening)
        watch = FileWatcher(tuple(_watched_folders(config.targets)))
        with UnavailableResponder(listening) as stand_in:
            while not stopped.is_set():
                watch.take_snapshot()
                child = WorkerProcess(config, listening)
                changed = _wait_for_change(child, watch, stand_in, stopped, output)
                child.stop()
                child.wait()
                if changed:
                    output.note(f"{changed.name} changed; serving it again")
    return 0


class FileWatcher:
    """Files, and whether one of them has changed since the last start."""

    def __init__(self, folders: tuple[WatchedFiles, ...]) -> None:
        self._folders = folders
        self._snapshot: FileSnapshot = {}

    def take_snapshot(self) -> None:
        """What is there now is what will be served."""
        self._snapshot = _file_states(self._folders)

    def changed(self) -> Path | None:
        """A file that is not what it was."""
        seen, now = self._snapshot, _file_states(self._folders)
        return next((path for path in (*now, *seen) if now.get(path) != seen.get(path)), None)


def _wait_for_change(
    child: WorkerProcess,
    watch: FileWatcher,
    responder: UnavailableResponder,
    stopped: threading.Event,
    output: SupervisorOutput,
) -> Path | None:
    """The file that changed; None when it is time to stop. Of a child that failed callers hear until then."""
    failed = False
    while not responder.wait(_POLL_SECONDS, stopped, respond=failed):
        changed = watch.changed()
        if changed:
            return changed
        if child.exit_code() is not None and not failed:
            failed = True
            output.note("waiting for a change")
    return None


def _watched_folders(targets: tuple[str, ...]) -> Iterator[WatchedFiles]:
    """A file's own folder (it may import its neighbours), a folder, or a whole package."""
    for target in targets:
        place = Path(f"{target.partition('.py:')[0]}.py") if ".py:" in target else Path(target)
        if place.is_dir():
            yield WatchedFiles(place, recursive=True)
        elif place.suffix == ".py":
            yield WatchedFiles(place.parent, recursive=False)
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
    """Every file with what a change of it changes."""
    seen: FileSnapshot = {}
    for each in watched:
        for file in _python_files(each):
            if len(seen) >= _MAX_FILES:
                break
            try:
                state = file.stat()
            except OSError:  # gone since it was listed
                continue
            seen[file] = (state.st_mtime_ns, state.st_size)
    return seen


def _python_files(watched: WatchedFiles) -> Iterator[Path]:
    if not watched.recursive:
        yield from watched.folder.glob("*.py")
        return
    for folder, below, names in os.walk(watched.folder):
        below[:] = [name for name in below if name not in _SKIPPED_FOLDERS and not name.startswith(".")]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))
