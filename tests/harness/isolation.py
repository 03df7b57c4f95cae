"""Keeps what a command changes in its process from the tests that run in the same one.

A command owns the process that it runs in: it moves descriptors, adds log handlers, imports the files that it is
pointed at. Everything that it may change, and everything that a fresh process has otherwise than pytest's, is set for
the time of one command and put back after it.
"""

import asyncio
import contextlib
import ctypes
import gc
import importlib
import linecache
import logging
import os
import pty
import resource
import signal
import site
import sys
import sysconfig
import tempfile
import threading
import warnings
from collections.abc import Generator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, NoReturn

import toolhall
from toolhall.redaction import log_redaction

_PACKAGE = Path(toolhall.__file__).parent
_ROOT = Path(__file__).parents[2]
# What is imported from here is the same for every command, and stays.
_LIBRARIES = tuple(
    f"{Path(each).resolve()}{os.sep}"
    for each in {*sysconfig.get_paths().values(), *site.getsitepackages(), str(_PACKAGE)}
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)
_LIMITS = (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)
_PIPE_BYTES = 65_536  # what a pipe takes without a reader
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


class Output:
    """What a command wrote, filled in when it has ended."""

    stdout = ""
    stderr = ""


@contextlib.contextmanager
def isolated(
    folder: Path, environment: Mapping[str, str], text: str, *, terminal: bool
) -> Generator[Output, None, None]:
    """Meanwhile this process looks to a command like a fresh one in this folder, with this environment and input.

    At a terminal everything is output, as a user sees it, and `text` is not used.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a command in process needs the main thread; run it in a process of its own")
    output = Output()
    with contextlib.ExitStack() as stack:
        for each in (
            *(_limits(), _collector(), _hooks(), _signals(), _loggers(), _modules(), _no_running_loop()),
            *(_place(folder), _variables(environment)),
            _terminal(output) if terminal else _pipes(text, output),
            _no_hard_exit(),
        ):
            stack.enter_context(each)
        yield output


@contextlib.contextmanager
def _pipes(text: str, output: Output) -> Generator[None, None, None]:
    with (
        _filled_pipe(text.encode()) as source,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        with _streams(source, out.fileno(), err.fileno()):
            yield
        output.stdout, output.stderr = _written(out), _written(err)


@contextlib.contextmanager
def _terminal(output: Output) -> Generator[None, None, None]:
    ours, theirs = pty.openpty()
    parts: list[bytes] = []

    def drain() -> None:
        with contextlib.suppress(OSError):  # Linux says so when the other side has been closed
            while part := os.read(ours, _PIPE_BYTES):
                parts.append(part)

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    try:
        with _streams(theirs, theirs, theirs):
            yield
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
        output.stdout = b"".join(parts).decode()


@contextlib.contextmanager
def _streams(*descriptors: int) -> Generator[None, None, None]:
    """Real descriptors as well as Python's streams, because commands move both."""
    python = sys.stdin, sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        for number, target in enumerate(descriptors):
            kept = os.dup(number)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, number)
            os.dup2(target, number)
        sys.stdin, sys.stdout, sys.stderr = _text(0, "r"), _text(1, "w"), _text(2, "w")
        try:
            yield
        finally:
            ours = sys.stdout, sys.stderr
            sys.stdin, sys.stdout, sys.stderr = python
            for stream in ours:
                stream.flush()


def _text(number: int, mode: str) -> TextIOWrapper:
    """A stream as Python opens it at its start."""
    raw: Any = open(number, f"{mode}b", closefd=False)  # noqa: SIM115 - the descriptor is the process's
    errors = "backslashreplace" if number == 2 else "strict"
    return TextIOWrapper(raw, encoding="utf-8", errors=errors, line_buffering=number == 2)


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


@contextlib.contextmanager
def _filled_pipe(data: bytes) -> Generator[int, None, None]:
    """The end of a pipe from which these bytes, and then its end, are read."""
    source, sink = os.pipe()

    def fill() -> None:
        with contextlib.suppress(BrokenPipeError), open(sink, "wb") as pipe:  # noqa: PTH123
            pipe.write(data)

    writer = threading.Thread(target=fill, daemon=True) if len(data) > _PIPE_BYTES else None
    if writer is None:
        fill()
    else:
        writer.start()
    try:
        yield source
    finally:
        os.close(source)
        if writer is not None:
            writer.join()


@contextlib.contextmanager
def _variables(environment: Mapping[str, str]) -> Generator[None, None, None]:
    """The same object with other contents: much of the program holds on to `os.environ` itself."""
    before = dict(os.environ)
    _become(environment)
    try:
        yield
    finally:
        _become(before)


def _become(environment: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


@contextlib.contextmanager
def _place(folder: Path) -> Generator[None, None, None]:
    mask = os.umask(0o022)
    os.umask(mask)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.umask(mask)


@contextlib.contextmanager
def _modules() -> Generator[None, None, None]:
    """What is imported from a test's own files is forgotten, so that the next command imports it anew."""
    path, known, no_bytecode = list(sys.path), set(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # that of a file changed twice in a second is taken for new
    sys.path[:] = [each for each in path if each and Path(each) != _ROOT]  # pytest's own addition
    importlib.invalidate_caches()
    linecache.clearcache()
    sys.modules.pop("toolhall.cli.app", None)  # its parser remembers the terminal that it first wrote to
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, no_bytecode
        for name in [*sys.modules.keys() - known]:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and not str(Path(file).resolve()).startswith(_LIBRARIES):
                del sys.modules[name]


@contextlib.contextmanager
def _loggers() -> Generator[None, None, None]:
    """No handler of pytest's sees what a command logs; no handler, level or filter of a command stays."""
    before = {logger: _settings(logger) for logger in _all_loggers()}
    disabled, factory = logging.root.manager.disable, logging.getLogRecordFactory()
    logging.disable(logging.NOTSET)
    logging.root.handlers, logging.root.filters = [], []
    logging.root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger in _all_loggers():
            handlers, filters, level, propagate, off = before.get(logger, ([], [], logging.NOTSET, True, False))
            logger.handlers, logger.filters, logger.propagate, logger.disabled = [*handlers], [*filters], propagate, off
            if logger.level != level:
                logger.setLevel(level)
        logging.setLogRecordFactory(factory)
        logging.disable(disabled)


def _all_loggers() -> list[logging.Logger]:
    known = logging.root.manager.loggerDict.values()
    return [logging.root, *(each for each in known if isinstance(each, logging.Logger))]


def _settings(logger: logging.Logger) -> tuple[list[Any], list[Any], int, bool, bool]:
    return [*logger.handlers], [*logger.filters], logger.level, logger.propagate, logger.disabled


@contextlib.contextmanager
def _no_running_loop() -> Generator[None, None, None]:
    """A command runs a loop of its own, also where it is called by an asynchronous test, which waits meanwhile."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


@contextlib.contextmanager
def _signals() -> Generator[None, None, None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextlib.contextmanager
def _limits() -> Generator[None, None, None]:
    before = {kind: resource.getrlimit(kind) for kind in _LIMITS}
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
    dumpable = prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) if prctl else None
    try:
        yield
    finally:
        if prctl and prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != dumpable:
            prctl(_PR_SET_DUMPABLE, dumpable, 0, 0, 0)
        for kind, limit in before.items():
            if resource.getrlimit(kind) != limit:
                resource.setrlimit(kind, limit)


@contextlib.contextmanager
def _collector() -> Generator[None, None, None]:
    before = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _hooks() -> Generator[None, None, None]:
    """The interpreter's hooks and warnings as they are without pytest, and no secret of another command in use."""
    words, exception, thread, unraisable = sys.argv, sys.excepthook, threading.excepthook, sys.unraisablehook
    secrets = log_redaction.SECRETS_IN_USE
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__
    sys.unraisablehook = sys.__unraisablehook__
    log_redaction.SECRETS_IN_USE = log_redaction.SecretsInUse()
    try:
        with warnings.catch_warnings():
            warnings.resetwarnings()
            for ignored in (ResourceWarning, ImportWarning, PendingDeprecationWarning, DeprecationWarning):
                warnings.simplefilter("ignore", ignored)
            warnings.showwarning = _show_warning
            yield
    finally:
        log_redaction.SECRETS_IN_USE = secrets
        sys.argv, sys.excepthook, threading.excepthook, sys.unraisablehook = words, exception, thread, unraisable


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


@contextlib.contextmanager
def _no_hard_exit() -> Generator[None, None, None]:
    """A command that leaves a thread running ends its process at once, which would be this one."""

    def refuse(status: int) -> NoReturn:
        raise AssertionError(f"the command would end its process with code {status}: run it in a process of its own")

    leave = os._exit
    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave
