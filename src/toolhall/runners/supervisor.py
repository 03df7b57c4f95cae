"""The supervisor of a worker process: its parent, which ends everything that the worker has started when that ends.

A process that made itself a session of its own is in no process group that could be killed. The supervisor is a
subreaper: whatever below it loses its parent becomes its child, wherever it has moved, and is killed when the worker is
gone. The supervisor then ends as the worker did, so that the hall reads the worker's exit code from it. It runs nothing
of the tool; a tool cannot signal it, and the worker is killed with it if something else does.
"""

import ctypes
import os
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from toolhall.runners.seccomp import judge_signals
from toolhall.runners.wire import END_SIGNAL

_ORPHANED = signal.SIGUSR2  # from the kernel: a thread of the hall has ended, or the hall itself
_HEARD = {signal.SIGCHLD, END_SIGNAL, _ORPHANED}
_UNHEARD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}  # to a whole service; the hall decides when a worker ends
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_PROCESSES = Path("/proc")


def supervise(hall: int, line: int) -> socket.socket:
    """Fork, and return in the worker only; the parent waits for it, and holds neither `line` nor an output open.

    By the socket that is returned the worker may send a listener for its signals, which the parent then judges.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD | _UNHEARD)
    supervisor = os.getpid()
    channel, judging = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        judging.close()
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        signal.signal(signal.SIGTERM, _ignore)  # not SIG_IGN, which the programs that it starts would inherit
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD | _UNHEARD)
        return channel
    try:
        prctl(_PR_SET_PDEATHSIG, _ORPHANED)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        channel.close()
        _let_go(line)
        threading.Thread(target=judge_signals, args=(judging,), daemon=True).start()
        status = _watch(worker, hall)
        _end_descendants()
        _end_as(status)
    finally:
        os._exit(1)


def _watch(worker: int, hall: int) -> int:
    """Wait for the worker's end, and bring it about when the hall says so or is gone; its wait status."""
    told = os.getppid() != hall
    while True:
        if told:
            os.kill(worker, signal.SIGKILL)
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == worker:
                return status
            if pid == 0:
                break
        number = signal.sigwait(_HEARD)
        told = told or number == END_SIGNAL or os.getppid() != hall


def _end_descendants() -> None:
    """Kill what has become a child of this process until nothing is left; children of the killed come next."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)  # it is ours to wait for, so that nobody else can have its id
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    own = os.getpid()
    try:
        yield from map(int, (_PROCESSES / f"{own}/task/{own}/children").read_text().split())
    except FileNotFoundError:  # a kernel without this list
        for each in _PROCESSES.glob("[0-9]*/stat"):
            try:
                parent = each.read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == own:
                yield int(each.parent.name)


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(os.getpid(), -code)


def _let_go(line: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    os.close(line)


def _ignore(*_: object) -> None:
    """Do nothing, and wake up who waits."""
