r"""Supervisor of a child process: `main` runs as a small process between a hall and a program that it starts.

Theory of operation
-------------------
A hall that is killed cannot end the programs that it started, and a program that ends may leave others behind. So the
hall starts `python -I -S process_supervisor.py`, which starts the program and outlives it:

    hall --- control socket --- supervisor (subreaper, session of its own)
      \                             |
       stdin, stdout, stderr ---- program (process group of its own, limited, niced)
                                    |
                                processes that the program starts

The supervisor keeps none of the program's pipes. It ends everything below it when the control socket closes, which the
kernel does however the hall ends; when the program ends; and when the program uses more memory than it may. Because it
is a subreaper, a descendant that loses its parent becomes its child, wherever it has moved: `kill_descendants` kills
until none is left. Then it ends as the program did, so that the hall reads the program's end from it. If somebody kills
the supervisor itself, the kernel kills the program (PR_SET_PDEATHSIG) and the hall the rest of its group; only what has
left that group is out of reach then.

Over the control socket the hall sends TERMINATE (SIGTERM to the group) and the supervisor one line at the start,
`started PID` or `failed ERRNO`, and `memory KIB` before it kills a program that is too large.

This file imports nothing but the standard library's smallest modules: it is started for every child.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Mapping

if sys.platform != "win32":
    import resource

# Enough to run programs, and to find files, time zones and certificates.
_PROGRAM_VARIABLES = ("PATH", "VIRTUAL_ENV", "HOME", "USER", "LOGNAME", "TMPDIR", "TMP", "TEMP")
_LOCALE_VARIABLES = ("LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_ALLOWED_VARIABLES = frozenset((*_PROGRAM_VARIABLES, *_LOCALE_VARIABLES))
TERMINATE = b"T"
NICENESS = 10
MAX_FILES = 4_096
MAX_PROCESSES = 1_024  # and threads, besides those that the user has when the program starts
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_MEMORY_CHECK_SECONDS = 0.5
# A shell without a terminal ignores some, and Python SIGPIPE; a program expects what every program is started with.
_DEFAULT_SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGPIPE", "SIGXFSZ", "SIGCHLD")
# Terminals and service managers send these to everything; the hall decides when a child ends.
_IGNORED_SIGNALS = ("SIGHUP", "SIGINT", "SIGTERM")
_PROC = "/proc"


def inherited_environment(environment: Mapping[str, str], extra_names: tuple[str, ...] = ()) -> dict[str, str]:
    """The variables of this environment that a child process gets; `extra_names` adds to the usual ones."""
    return {
        name: value
        for name, value in environment.items()
        if name in _ALLOWED_VARIABLES or name in extra_names or name.startswith("LC_")
    }


def main(control_fd: int, max_memory: int, command: list[str]) -> None:
    """Run the command and end with it, or when the control socket closes; `max_memory` is in bytes, 0 for any."""
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for name in _IGNORED_SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    wake_reader, wake_writer = os.pipe()
    for descriptor in (wake_reader, wake_writer):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore_signal)
    program = _start(command, control)
    _close_standard_streams()
    status = _wait(program, control, wake_reader, max_memory)
    kill_descendants()
    control.close()
    exit_like(status)


def _start(command: list[str], control: socket.socket) -> int:
    """Start the program; its process id. If it cannot be started, tell the hall the errno and end."""
    supervisor = os.getpid()
    error_reader, error_writer = os.pipe()  # closed by a successful exec
    program = os.fork()
    if program == 0:
        try:
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() == supervisor:
                for name in _DEFAULT_SIGNALS:
                    signal.signal(getattr(signal, name), signal.SIG_DFL)
                _limit_resources()
                os.execve(command[0], command, os.environ)  # noqa: S606 - without a shell, on purpose
        except OSError as error:
            os.write(error_writer, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    os.close(error_writer)
    failure = os.read(error_reader, 16)
    os.close(error_reader)
    with contextlib.suppress(OSError):  # the hall is gone, which the wait will notice
        control.sendall(b"failed %s\n" % failure if failure else b"started %d\n" % program)
    return program


def _limit_resources() -> None:
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_NOFILE, MAX_FILES)
    if os.getuid() != 0:  # the kernel never holds root to it
        _lower_limit(resource.RLIMIT_NPROC, count_user_threads() + MAX_PROCESSES)


def _lower_limit(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (allowed, allowed))


def _wait(program: int, control: socket.socket, wake_reader: int, max_memory: int) -> int:
    """Wait for the program's end, and cause it when the hall wants that or is gone; its wait status."""
    watched: list[socket.socket | int] = [control, wake_reader]
    seconds = _MEMORY_CHECK_SECONDS if max_memory else None
    while True:
        while (ended := _reap())[0]:
            if ended[0] == program:
                return ended[1]
        ready, _, _ = select.select(watched, [], [], seconds)
        if wake_reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_reader, 512)
        if control in ready:
            if _received(control) == TERMINATE:
                signal_group(program, signal.SIGTERM)
            else:
                watched.remove(control)
                signal_group(program, signal.SIGKILL)
        if max_memory and (used := resident_memory(os.getpid())) > max_memory:
            with contextlib.suppress(OSError):
                control.sendall(b"memory %d\n" % (used >> 10))
            signal_group(program, signal.SIGKILL)
            max_memory, seconds = 0, None


def _reap() -> tuple[int, int]:
    """One child that has ended, with its wait status; (0, 0) if none has."""
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return (0, 0)


def _received(control: socket.socket) -> bytes:
    try:
        return control.recv(1)
    except OSError:
        return b""


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a process group; nothing if there is none any more."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def kill_descendants() -> None:
    """Kill the children of this process until none is left; the children of a killed one become its own next."""
    while True:
        for pid in child_pids(os.getpid()):
            with contextlib.suppress(PermissionError):  # a program that runs as somebody else
                os.kill(pid, signal.SIGKILL)  # not yet reaped by us, so its id cannot belong to another process
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return


def child_pids(parent: int) -> Iterator[int]:
    """The children of a process without threads; nothing where the system has no /proc."""
    try:
        with open(f"{_PROC}/{parent}/task/{parent}/children", "rb") as listed:  # noqa: PTH123 - pathlib costs start-up
            yield from map(int, listed.read().split())
    except OSError:  # a kernel without this list, or none with /proc
        for pid in _all_pids():
            if _parent_of(pid) == parent:
                yield pid


def count_user_threads() -> int:
    """How many threads this user runs: RLIMIT_NPROC counts all of them, not only those of one program."""
    count, user = 0, os.getuid()
    for pid in _all_pids():
        with contextlib.suppress(OSError):
            if os.stat(f"{_PROC}/{pid}").st_uid == user:  # noqa: PTH116
                count += len(os.listdir(f"{_PROC}/{pid}/task"))  # noqa: PTH208
    return count


def resident_memory(root: int) -> int:
    """The bytes of resident memory of all descendants of a process."""
    parents: dict[int, int] = {}
    for pid in _all_pids():
        if parent := _parent_of(pid):
            parents[pid] = parent
    below = {root}
    while new := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= new
    return sum(_resident(pid) for pid in below - {root})


def _resident(pid: int) -> int:
    try:
        with open(f"{_PROC}/{pid}/statm", "rb") as figures:  # noqa: PTH123
            return int(figures.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _parent_of(pid: int) -> int:
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as stated:  # noqa: PTH123
            return int(stated.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def exit_like(status: int) -> None:
    """End this process with the exit code or by the signal of a wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(os.getpid(), -code)


def _close_standard_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _ignore_signal(*_: object) -> None:
    """Handle SIGCHLD by waking the wait."""


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    finally:
        os._exit(127)
