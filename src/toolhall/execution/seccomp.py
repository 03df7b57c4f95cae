"""The seccomp filter of a worker process, and the supervisor's listener that judges its signals on older kernels.

The filter denies to trace other processes, to set their limits, priorities, schedulers and CPU masks, and, where
Landlock has no scope for signals (before Linux 6.12), to signal anything that the worker did not start.

A filter does not know which processes the worker has started: it sees numbers only, and the id of any thread of a
process is as good as the process's own. So a system call that sends a signal is handed to the worker's supervisor
(`SECCOMP_RET_USER_NOTIF`), which lets it happen where the target descends from the supervisor. It decides by registers
that the kernel copied; nothing can change them afterwards. Where the kernel has no such listener (before Linux 5.5),
the filter denies a list of process ids and groups, which is less.
"""

import ctypes
import errno
import fcntl
import os
import platform
import re
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

PROC = Path("/proc")
WORKER_NICENESS = 10  # of workers and their supervisors: the hall's own loop comes first
# Who restricts the signals of a worker: Landlock, the supervisor, or a list of process ids in the filter.
SignalRestriction: TypeAlias = Literal["scoped", "judged", "listed"]
_FILTER_MODE, _SPECULATION_ALLOWED, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 2, 1 << 3, 1 << 5
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x06
_OFFSET_SYSCALL, _OFFSET_ARCHITECTURE = 0, 4  # in struct seccomp_data
_OFFSET_FIRST_ARGUMENT, _OFFSET_SECOND_ARGUMENT = 16, 24  # the low halves of the first two arguments
_X32 = 0x40000000
_PRIO_USER, _IOPRIO_USER = 2, 3  # would set the priority of all processes of a user
_SET_OWNER = (8, 15)  # F_SETOWN, F_SETOWN_EX: the process that gets SIGIO for a file
_SET_OWNER_BY_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_CONTINUE_SINCE = (5, 5)  # the first kernel in which a listener can let a system call continue
_RECEIVE, _RESPOND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_ALLPROCESSES = 0xFFFFFFFF  # kill(-1)
_MAX_LISTED = 500  # a filter has at most 4,096 steps
_MAX_LOOKUPS = 20


class _Architecture(NamedTuple):
    """The numbers of system calls on one architecture."""

    audit: int
    seccomp: int
    # ptrace, process_vm_readv, process_vm_writev, kcmp, perf_event_open, bpf, pidfd_getfd, process_madvise
    denied: tuple[int, ...]
    # prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr: the first argument is a process
    self_only: tuple[int, ...]
    setpriority: int
    ioprio_set: int
    fcntl: int
    ioctl: int
    kill: tuple[int, ...]  # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    tkill: int
    pidfd_send_signal: int


_ARCHITECTURES = {
    "x86_64": _Architecture(
        0xC000003E,
        317,
        (101, 310, 311, 312, 298, 321, 438, 440),
        (302, 142, 144, 203, 314),
        setpriority=141,
        ioprio_set=251,
        fcntl=72,
        ioctl=16,
        kill=(62, 234, 129, 297),
        tkill=200,
        pidfd_send_signal=424,
    ),
    "aarch64": _Architecture(
        0xC00000B7,
        277,
        (117, 270, 271, 272, 241, 280, 438, 440),
        (261, 118, 119, 122, 274),
        setpriority=140,
        ioprio_set=30,
        fcntl=25,
        ioctl=29,
        kill=(129, 131, 138, 240),
        tkill=130,
        pidfd_send_signal=424,
    ),
}


# --- in the worker ---------------------------------------------------------------------------------------------------
def install_filter(
    protected_pids: Iterable[int], channel: socket.socket | None, *, scoped: bool
) -> SignalRestriction | None:
    """Filter this process's system calls for good; returns how signals are restricted, or None without seccomp.

    `channel` leads to a process that runs `supervise_signals`. Without a channel, or on a kernel without listeners, the
    filter only denies signals to `protected_pids`, the processes around them, and their process groups. Raises OSError
    where the kernel refuses to install the filter.
    """
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return None
    if scoped:
        return "scoped" if _install(machine, _denied_signal_rules(machine, protected_pids)) >= 0 else None
    if channel is not None and _kernel_version() >= _CONTINUE_SINCE:
        # Signals must not interrupt a system call while the supervisor decides; kernels before 5.19 cannot ensure that.
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            listener = _install(machine, _supervised_signal_rules(machine), flags)
            if listener < 0:
                continue
            socket.send_fds(channel, [b"1"], [listener])
            os.close(listener)
            return "judged"
    return "listed" if _install(machine, _listed_signal_rules(machine, protected_pids)) >= 0 else None


def _install(machine: _Architecture, rules: Iterable[bytes], flags: int = 0) -> int:
    """Install a filter; returns the listener or 0, negative if the kernel lacks the feature or has another listener."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    program = b"".join((*_base_rules(machine), *rules, _instruction(_RETURN, _ALLOW)))
    buffer = ctypes.create_string_buffer(program, len(program))
    descriptor = struct.pack("HL", len(program) // 8, ctypes.addressof(buffer))
    result = int(libc.syscall(machine.seccomp, _FILTER_MODE, _SPECULATION_ALLOWED | flags, descriptor))
    code = ctypes.get_errno()
    if result < 0 and code not in (errno.ENOSYS, errno.EINVAL, errno.EBUSY):
        raise OSError(code, f"seccomp: {os.strerror(code)}")
    return result


def _kernel_version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def _base_rules(machine: _Architecture) -> Iterator[bytes]:
    """Rules for every kernel; system calls of another architecture, whose numbers differ, are denied (ENOSYS)."""
    yield _instruction(_LOAD, _OFFSET_ARCHITECTURE)
    yield _instruction(_EQUAL, machine.audit, 1, 0)
    yield _deny(errno.ENOSYS)
    yield _instruction(_LOAD, _OFFSET_SYSCALL)
    yield _instruction(_AT_LEAST, _X32, 0, 1)
    yield _deny(errno.ENOSYS)
    yield from _on_syscalls(machine.denied, _deny())
    itself = _allow_only((0, os.getpid()))
    yield from _on_syscalls(machine.self_only, _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT), *itself)
    for number, user in ((machine.setpriority, _PRIO_USER), (machine.ioprio_set, _IOPRIO_USER)):
        kind = (_instruction(_LOAD, _OFFSET_FIRST_ARGUMENT), _instruction(_EQUAL, user, 0, 1), _deny())
        yield from _on_syscalls((number,), *kind, _instruction(_LOAD, _OFFSET_SECOND_ARGUMENT), *itself)


def _supervised_signal_rules(machine: _Architecture) -> Iterator[bytes]:
    """Signals to the worker and its process group pass; the supervisor decides about all others."""
    yield from _signal_owner_rules(machine)
    # A descriptor could be replaced by another while the supervisor decides.
    yield from _on_syscalls((machine.pidfd_send_signal,), _deny())
    own = (0, os.getpid(), -os.getpid())
    notify = _instruction(_RETURN, _NOTIFY)
    yield from _on_syscalls(
        (*machine.kill, machine.tkill), _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT), *_allow_only(own, notify)
    )


def _listed_signal_rules(machine: _Architecture, protected_pids: Iterable[int]) -> Iterator[bytes]:
    """Deny signals to some processes, to their process groups, and to all processes at once."""
    yield from _signal_owner_rules(machine)
    yield from _on_syscalls((machine.pidfd_send_signal,), _deny())
    if platform.libc_ver()[0]:  # musl raises every signal with tkill; glibc can do without it
        yield from _on_syscalls((machine.tkill,), _deny())
    processes = [each for one in protected_pids for each in _related_processes(one) if each != os.getpid()]
    yield from _denied_signal_rules(machine, processes[:_MAX_LISTED])


def _denied_signal_rules(machine: _Architecture, processes: Iterable[int]) -> Iterator[bytes]:
    processes = tuple(processes)
    targets = sorted(
        {_ALLPROCESSES, *processes, *(-each & 0xFFFFFFFF for each in (*processes, *_process_groups(processes)))}
    )
    denied = [step for each in targets for step in (_instruction(_EQUAL, each, 0, 1), _deny())]
    yield from _on_syscalls(
        machine.kill, _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT), *denied, _instruction(_RETURN, _ALLOW)
    )


def _signal_owner_rules(machine: _Architecture) -> Iterator[bytes]:
    """Deny setting the process that receives a file's signals (SIGIO, or any other with F_SETSIG)."""
    for number, commands in ((machine.fcntl, _SET_OWNER), (machine.ioctl, _SET_OWNER_BY_IOCTL)):
        checks = [step for each in commands for step in (_instruction(_EQUAL, each, 0, 1), _deny())]
        yield from _on_syscalls(
            (number,), _instruction(_LOAD, _OFFSET_SECOND_ARGUMENT), *checks, _instruction(_RETURN, _ALLOW)
        )


def _related_processes(hall_pid: int) -> tuple[int, ...]:
    """The hall, its ancestors, and its siblings and children, as they are now."""
    ancestry = [hall_pid]
    while (parent := _parent_pid(ancestry[-1])) is not None and parent > 1:
        ancestry.append(parent)
    pids = map(int, filter(str.isdigit, os.listdir(PROC)))  # noqa: PTH208
    return (*ancestry, *(pid for pid in pids if pid != hall_pid and _parent_pid(pid) in ancestry[:2]))


def _process_groups(processes: Iterable[int]) -> set[int]:
    groups = set()
    for each in processes:
        try:
            groups.add(os.getpgid(each))
        except OSError:  # gone
            continue
    return groups


def _on_syscalls(numbers: tuple[int, ...], *steps: bytes) -> Iterator[bytes]:
    """Run these steps, which end the program, for these system calls; a separate jump can skip any number of steps."""
    for index, number in enumerate(numbers):
        yield _instruction(_EQUAL, number, len(numbers) - index, 0)
    yield from (_instruction(_JUMP, len(steps)), *steps)


def _allow_only(allowed: Iterable[int], otherwise: bytes | None = None) -> tuple[bytes, ...]:
    """Allow the system call if the loaded value is one of these; otherwise deny it, or take the other instruction."""
    checks = [
        step
        for each in allowed
        for step in (_instruction(_EQUAL, each & 0xFFFFFFFF, 0, 1), _instruction(_RETURN, _ALLOW))
    ]
    return (*checks, _deny() if otherwise is None else otherwise)


def _deny(code: int = errno.EPERM) -> bytes:
    return _instruction(_RETURN, _ERRNO | code)


def _instruction(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, value)


# --- in the supervisor -----------------------------------------------------------------------------------------------
def supervise_signals(channel: socket.socket) -> None:
    """Receive the listener of a worker's filter from the channel, and let signals to the worker's descendants pass.

    Returns when the worker closes the channel without sending a listener; otherwise it runs for good, in a thread of
    its own.
    """
    with channel:
        _, received, _, _ = socket.recv_fds(channel, 1, 1)
    for listener in received:
        os.nice(WORKER_NICENESS)  # of this thread: a tool that sends signals without end must not slow down the hall
        try:
            while True:
                _answer_next(listener)
        finally:
            os.close(listener)  # from now on the kernel denies such calls, instead of letting them wait for ever


def _answer_next(listener: int) -> None:
    notification = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, notification)
    except OSError as error:
        if error.errno in (errno.EINTR, errno.ENOENT):  # the calling thread is gone
            return
        raise
    _respond(listener, *_decide(notification))


def _decide(notification: bytearray) -> tuple[int, int]:
    """The id of the notification, and the error that the system call gets; 0: it continues."""
    unpacked = _NOTIFICATION.unpack(notification)
    target = struct.unpack("=i", struct.pack("=I", unpacked[6] & 0xFFFFFFFF))[0]
    return unpacked[0], _target_error(target)


def _respond(listener: int, notification_id: int, code: int) -> None:
    decision = _RESPONSE.pack(notification_id, 0, -code, 0 if code else _CONTINUE)
    for response in (decision, _RESPONSE.pack(notification_id, 0, -1, 0)):
        try:
            fcntl.ioctl(listener, _RESPOND, response)
        except OSError as error:
            if error.errno == errno.EINVAL:  # a kernel that cannot continue a system call: deny it
                continue
        return


def _target_error(target: int) -> int:
    """0 for a process, a thread or a process group that descends from this process, otherwise an error number."""
    try:
        return _descent_error(target) if target > 0 else _group_error(-target)
    except OSError:  # out of file descriptors to read /proc with
        return errno.EPERM


def _group_error(group: int) -> int:
    members = [pid for pid in map(int, filter(str.isdigit, os.listdir(PROC))) if _process_group(pid) == group]  # noqa: PTH208
    found = {_descent_error(each) for each in members}
    return errno.EPERM if group == 1 or errno.EPERM in found else 0 if 0 in found else errno.ESRCH


def _descent_error(target: int) -> int:
    """Like `_target_error`, for one process or thread.

    Looks again if an ancestor ended meanwhile: its children now have this process, the subreaper, as their parent.
    """
    for _ in range(_MAX_LOOKUPS):
        each: int | None = target
        while each is not None and each > 1:
            if (each := _parent_pid(each)) == os.getpid():
                return 0
        if each is not None:
            return errno.EPERM
        if _parent_pid(target) is None:
            return errno.ESRCH
    return errno.EPERM


def _process_group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _parent_pid(pid: int) -> int | None:
    """The parent of a process or a thread; None if there is none with this id."""
    try:
        return int((PROC / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return None
