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

SignalRestriction: TypeAlias = Literal[
    "scoped", "judged", "listed"
]  # by Landlock, by the supervisor, by a list of processes
_FILTER_MODE, _SPECULATION_ALLOWED, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 2, 1 << 3, 1 << 5
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x06
_OFFSET_SYSCALL, _OFFSET_ARCHITECTURE = 0, 4  # in what the filter is shown
_OFFSET_FIRST_ARGUMENT, _OFFSET_SECOND_ARGUMENT = 16, 24  # the low halves of the first two arguments
_X32 = 0x40000000
_PRIO_USER, _IOPRIO_USER = 2, 3  # all processes of a user
_SET_OWNER = (8, 15)  # F_SETOWN, F_SETOWN_EX: who gets a signal when a file can be read
_SET_OWNER_BY_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_CONTINUE_SINCE = (5, 5)  # the first kernel where a listener can let a call happen
_RECEIVE, _RESPOND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_ALL_PROCESSES = 0xFFFFFFFF  # kill(-1)
_MAX_LISTED = 500  # a filter has at most 4,096 steps
_MAX_LOOKUPS = 20
_NICE = 10  # as a worker
_PROC = Path("/proc")


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
    """Filter this process's system calls for good; how signals are held back, or None where nothing can be filtered.

    `channel` leads to a process that runs `judge_signals`; without one, or on a kernel that cannot ask it, only the
    processes `shielded`, those around them, and their groups are out of reach. Raises OSError where the kernel refuses.
    """
    machine = _ARCHITECTURES.get(platform.machine())
    if machine is None:
        return None
    if scoped:
        return "scoped" if _install(machine, _denied_signal_rules(machine, protected_pids)) >= 0 else None
    if channel is not None and _kernel_version() >= _CONTINUE_SINCE:
        # A signal must not interrupt a call that is being judged; kernels before 5.19 cannot promise that.
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            listener = _install(machine, _supervised_signal_rules(machine), flags)
            if listener < 0:
                continue
            socket.send_fds(channel, [b"1"], [listener])
            os.close(listener)
            return "judged"
    return "listed" if _install(machine, _listed_signal_rules(machine, protected_pids)) >= 0 else None


def _install(machine: _Architecture, rules: Iterable[bytes], flags: int = 0) -> int:
    """What the kernel returned; negative where it was built without, or another listener is there."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    program = b"".join((*_base_rules(machine), *rules, _instruction(_RETURN, _ALLOW)))
    held = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HL", len(program) // 8, ctypes.addressof(held))
    result = int(libc.syscall(machine.seccomp, _FILTER_MODE, _SPECULATION_ALLOWED | flags, described))
    code = ctypes.get_errno()
    if result < 0 and code not in (errno.ENOSYS, errno.EINVAL, errno.EBUSY):
        raise OSError(code, f"seccomp: {os.strerror(code)}")
    return result


def _kernel_version() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def _base_rules(machine: _Architecture) -> Iterator[bytes]:
    """What holds on every kernel; another architecture's calls, which have other numbers, are unknown here."""
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
    """Signals to the worker and its group pass, all others are asked about."""
    yield from _signal_owner_rules(machine)
    yield from _on_syscalls(
        (machine.pidfd_send_signal,), _deny()
    )  # what a descriptor names can change while it is judged
    own = (0, os.getpid(), -os.getpid())
    ask = _instruction(_RETURN, _NOTIFY)
    yield from _on_syscalls(
        (*machine.kill, machine.tkill), _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT), *_allow_only(own, ask)
    )


def _listed_signal_rules(machine: _Architecture, protected_pids: Iterable[int]) -> Iterator[bytes]:
    """Signals to some processes, their groups and everybody at once are denied."""
    yield from _signal_owner_rules(machine)
    yield from _on_syscalls((machine.pidfd_send_signal,), _deny())
    if platform.libc_ver()[0]:  # musl raises every signal by tkill, so only the other C library can do without it
        yield from _on_syscalls((machine.tkill,), _deny())
    processes = [each for one in protected_pids for each in _related_processes(one) if each != os.getpid()]
    yield from _denied_signal_rules(machine, processes[:_MAX_LISTED])


def _denied_signal_rules(machine: _Architecture, processes: Iterable[int]) -> Iterator[bytes]:
    processes = tuple(processes)
    targets = sorted(
        {_ALL_PROCESSES, *processes, *(-each & 0xFFFFFFFF for each in (*processes, *_process_groups(processes)))}
    )
    denied = [step for each in targets for step in (_instruction(_EQUAL, each, 0, 1), _deny())]
    yield from _on_syscalls(
        machine.kill, _instruction(_LOAD, _OFFSET_FIRST_ARGUMENT), *denied, _instruction(_RETURN, _ALLOW)
    )


def _signal_owner_rules(machine: _Architecture) -> Iterator[bytes]:
    """Nobody is made the receiver of a file's signals (SIGIO, or any other with F_SETSIG)."""
    for number, commands in ((machine.fcntl, _SET_OWNER), (machine.ioctl, _SET_OWNER_BY_IOCTL)):
        checks = [step for each in commands for step in (_instruction(_EQUAL, each, 0, 1), _deny())]
        yield from _on_syscalls(
            (number,), _instruction(_LOAD, _OFFSET_SECOND_ARGUMENT), *checks, _instruction(_RETURN, _ALLOW)
        )


def _related_processes(hall_pid: int) -> tuple[int, ...]:
    """The hall, the processes above it, and the other processes of the one that started it, as they are now."""
    line = [hall_pid]
    while (above := _parent_pid(line[-1])) is not None and above > 1:
        line.append(above)
    pids = map(int, filter(str.isdigit, os.listdir(_PROC)))  # noqa: PTH208
    return (*line, *(pid for pid in pids if pid != hall_pid and _parent_pid(pid) in line[:2]))


def _process_groups(processes: Iterable[int]) -> set[int]:
    groups = set()
    for each in processes:
        try:
            groups.add(os.getpgid(each))
        except OSError:  # gone
            continue
    return groups


def _on_syscalls(numbers: tuple[int, ...], *steps: bytes) -> Iterator[bytes]:
    """For these system calls, these steps, which end the program; a jump of its own reaches over any number of them."""
    for place, number in enumerate(numbers):
        yield _instruction(_EQUAL, number, len(numbers) - place, 0)
    yield from (_instruction(_JUMP, len(steps)), *steps)


def _allow_only(allowed: Iterable[int], otherwise: bytes | None = None) -> tuple[bytes, ...]:
    """Allow what was loaded if it is one of these."""
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
    """Take the listener of a worker from the channel, and let those signals pass that go to its descendants.

    It returns at once when the worker hangs up without sending one, and else runs for good, in a thread of its own.
    """
    with channel:
        _, received, _, _ = socket.recv_fds(channel, 1, 1)
    for listener in received:
        os.nice(_NICE)  # of this thread: a tool that asks without end must not slow down the hall
        try:
            while True:
                _answer_next(listener)
        finally:
            os.close(listener)  # whoever asks from now on is denied, and does not wait for ever


def _answer_next(listener: int) -> None:
    notification = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, notification)
    except OSError as error:
        if error.errno in (errno.EINTR, errno.ENOENT):  # who asked is gone
            return
        raise
    _respond(listener, *_decide(notification))


def _decide(notification: bytearray) -> tuple[int, int]:
    """The id of the question, and what the call does to its target: 0, or the error it ends with."""
    unpacked = _NOTIFICATION.unpack(notification)
    target = struct.unpack("=i", struct.pack("=I", unpacked[6] & 0xFFFFFFFF))[0]
    return unpacked[0], _target_error(target)


def _respond(listener: int, question: int, code: int) -> None:
    for response in (_RESPONSE.pack(question, 0, -code, 0 if code else _CONTINUE), _RESPONSE.pack(question, 0, -1, 0)):
        try:
            fcntl.ioctl(listener, _RESPOND, response)
        except OSError as error:
            if error.errno == errno.EINVAL:  # a kernel that cannot continue a call: then it is denied
                continue
        return


def _target_error(target: int) -> int:
    """0 for a process, a thread or a group of processes that all descend from this process, else an error."""
    try:
        return _descent_error(target) if target > 0 else _group_error(-target)
    except OSError:  # no descriptor is left to look with
        return errno.EPERM


def _group_error(group: int) -> int:
    members = [pid for pid in map(int, filter(str.isdigit, os.listdir(_PROC))) if _process_group(pid) == group]  # noqa: PTH208
    found = {_descent_error(each) for each in members}
    return errno.EPERM if group == 1 or errno.EPERM in found else 0 if 0 in found else errno.ESRCH


def _descent_error(target: int) -> int:
    """Whoever loses its parent meanwhile has another one, this process, when it is looked at again."""
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
    """Of a process or a thread; None if there is none of this id."""
    try:
        return int((_PROC / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return None
