"""The seccomp filter of a worker process, and the listener that decides about its signals on older kernels.

The filter denies to trace other processes, to set their limits, priorities, schedulers and CPU masks, and, where
Landlock has no scope for signals (before Linux 6.12), to signal anything that the worker did not start.

Which processes the worker has started is not known to a filter: it sees numbers only, and the id of any thread of a
process is as good as the process's own. So a system call that sends a signal is handed to the worker's supervisor
(`SECCOMP_RET_USER_NOTIF`), which lets it happen where the target descends from the supervisor. The numbers it judges by
are registers that the kernel copied; nothing can change them afterwards. Where the kernel has no such listener (before
Linux 5.5), the filter denies a list of process ids and groups, which is less.
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

Signals: TypeAlias = Literal["scoped", "judged", "listed"]  # by Landlock, by the supervisor, by a list of processes

_FILTER_MODE, _SPECULATION_ALLOWED, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 2, 1 << 3, 1 << 5
_ALLOW, _ERRNO, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _JUMP, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_MACHINE = 0, 4  # in what the filter is shown
_AT_FIRST, _AT_SECOND = 16, 24  # the low halves of the first two arguments
_X32 = 0x40000000
_PRIO_USER, _IOPRIO_USER = 2, 3  # all processes of a user
_SET_OWNER = (8, 15)  # F_SETOWN, F_SETOWN_EX: who gets a signal when a file can be read
_SET_OWNER_BY_IOCTL = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP

_CONTINUE_SINCE = (5, 5)  # the first kernel where a listener can let a call happen
_RECEIVE, _RESPOND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_EVERYTHING = 0xFFFFFFFF  # kill(-1)
_MOST_LISTED = 500  # a filter has at most 4,096 steps
_LOOKS = 20
_NICE = 10  # as a worker
_PROCESSES = Path("/proc")


class _Machine(NamedTuple):
    """The numbers of system calls on one architecture."""

    audit: int
    seccomp: int
    # ptrace, process_vm_readv, process_vm_writev, kcmp, perf_event_open, bpf, pidfd_getfd, process_madvise
    never: tuple[int, ...]
    # prlimit64, sched_setparam, sched_setscheduler, sched_setaffinity, sched_setattr: the first argument is a process
    own_only: tuple[int, ...]
    setpriority: int
    ioprio_set: int
    fcntl: int
    ioctl: int
    kill: tuple[int, ...]  # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    tkill: int
    pidfd_send_signal: int


_MACHINES = {
    "x86_64": _Machine(
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
    "aarch64": _Machine(
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


def install_filter(shielded: Iterable[int], channel: socket.socket | None, *, scoped: bool) -> Signals | None:
    """Filter this process's system calls for good; how signals are held back, or None where nothing can be filtered.

    `channel` leads to a process that runs `judge_signals`; without one, or on a kernel that cannot ask it, only the
    processes `shielded`, those around them, and their groups are out of reach. Raises OSError where the kernel refuses.
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return None
    if scoped:
        return "scoped" if _installed(machine, _unsignalled(machine, shielded)) >= 0 else None
    if channel is not None and _kernel() >= _CONTINUE_SINCE:
        # A signal must not interrupt a call that is being judged; kernels before 5.19 cannot promise that.
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            listener = _installed(machine, _judged(machine), flags)
            if listener < 0:
                continue
            socket.send_fds(channel, [b"1"], [listener])
            os.close(listener)
            return "judged"
    return "listed" if _installed(machine, _listed(machine, shielded)) >= 0 else None


def _installed(machine: _Machine, rules: Iterable[bytes], flags: int = 0) -> int:
    """What the kernel returned; negative where it was built without, or another listener is there."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    program = b"".join((*_begun(machine), *rules, _step(_RETURN, _ALLOW)))
    held = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("HL", len(program) // 8, ctypes.addressof(held))
    result = int(libc.syscall(machine.seccomp, _FILTER_MODE, _SPECULATION_ALLOWED | flags, described))
    code = ctypes.get_errno()
    if result < 0 and code not in (errno.ENOSYS, errno.EINVAL, errno.EBUSY):
        raise OSError(code, f"seccomp: {os.strerror(code)}")
    return result


def _kernel() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def _begun(machine: _Machine) -> Iterator[bytes]:
    """What holds on every kernel; another architecture's calls, which have other numbers, are unknown here."""
    yield _step(_LOAD, _AT_MACHINE)
    yield _step(_EQUAL, machine.audit, 1, 0)
    yield _denied(errno.ENOSYS)
    yield _step(_LOAD, _AT_NUMBER)
    yield _step(_AT_LEAST, _X32, 0, 1)
    yield _denied(errno.ENOSYS)
    yield from _for(machine.never, _denied())
    itself = _only((0, os.getpid()))
    yield from _for(machine.own_only, _step(_LOAD, _AT_FIRST), *itself)
    for number, user in ((machine.setpriority, _PRIO_USER), (machine.ioprio_set, _IOPRIO_USER)):
        kind = (_step(_LOAD, _AT_FIRST), _step(_EQUAL, user, 0, 1), _denied())
        yield from _for((number,), *kind, _step(_LOAD, _AT_SECOND), *itself)


def _judged(machine: _Machine) -> Iterator[bytes]:
    """Signals to the worker and its group pass, all others are asked about."""
    yield from _owners(machine)
    yield from _for((machine.pidfd_send_signal,), _denied())  # what a descriptor names can change while it is judged
    own = (0, os.getpid(), -os.getpid())
    ask = _step(_RETURN, _NOTIFY)
    yield from _for((*machine.kill, machine.tkill), _step(_LOAD, _AT_FIRST), *_only(own, ask))


def _listed(machine: _Machine, shielded: Iterable[int]) -> Iterator[bytes]:
    """Signals to some processes, their groups and everybody at once are denied."""
    yield from _owners(machine)
    yield from _for((machine.pidfd_send_signal,), _denied())
    if platform.libc_ver()[0]:  # musl raises every signal by tkill, so only the other C library can do without it
        yield from _for((machine.tkill,), _denied())
    processes = [each for one in shielded for each in _family(one) if each != os.getpid()]
    yield from _unsignalled(machine, processes[:_MOST_LISTED])


def _unsignalled(machine: _Machine, processes: Iterable[int]) -> Iterator[bytes]:
    processes = tuple(processes)
    targets = sorted({_EVERYTHING, *processes, *(-each & 0xFFFFFFFF for each in (*processes, *_groups(processes)))})
    denied = [step for each in targets for step in (_step(_EQUAL, each, 0, 1), _denied())]
    yield from _for(machine.kill, _step(_LOAD, _AT_FIRST), *denied, _step(_RETURN, _ALLOW))


def _owners(machine: _Machine) -> Iterator[bytes]:
    """Nobody is made the receiver of a file's signals (SIGIO, or any other with F_SETSIG)."""
    for number, commands in ((machine.fcntl, _SET_OWNER), (machine.ioctl, _SET_OWNER_BY_IOCTL)):
        checks = [step for each in commands for step in (_step(_EQUAL, each, 0, 1), _denied())]
        yield from _for((number,), _step(_LOAD, _AT_SECOND), *checks, _step(_RETURN, _ALLOW))


def _family(hall: int) -> tuple[int, ...]:
    """The hall, the processes above it, and the other processes of the one that started it, as they are now."""
    line = [hall]
    while (above := _parent(line[-1])) is not None and above > 1:
        line.append(above)
    pids = map(int, filter(str.isdigit, os.listdir(_PROCESSES)))  # noqa: PTH208
    return (*line, *(pid for pid in pids if pid != hall and _parent(pid) in line[:2]))


def _groups(processes: Iterable[int]) -> set[int]:
    groups = set()
    for each in processes:
        try:
            groups.add(os.getpgid(each))
        except OSError:  # gone
            continue
    return groups


def _for(numbers: tuple[int, ...], *steps: bytes) -> Iterator[bytes]:
    """For these system calls, these steps, which end the program; a jump of its own reaches over any number of them."""
    for place, number in enumerate(numbers):
        yield _step(_EQUAL, number, len(numbers) - place, 0)
    yield from (_step(_JUMP, len(steps)), *steps)


def _only(allowed: Iterable[int], otherwise: bytes | None = None) -> tuple[bytes, ...]:
    """Allow what was loaded if it is one of these."""
    checks = [step for each in allowed for step in (_step(_EQUAL, each & 0xFFFFFFFF, 0, 1), _step(_RETURN, _ALLOW))]
    return (*checks, _denied() if otherwise is None else otherwise)


def _denied(code: int = errno.EPERM) -> bytes:
    return _step(_RETURN, _ERRNO | code)


def _step(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, when, otherwise, value)


# --- in the supervisor -----------------------------------------------------------------------------------------------


def judge_signals(channel: socket.socket) -> None:
    """Take the listener of a worker from the channel, and let those signals pass that go to its descendants.

    It returns at once when the worker hangs up without sending one, and else runs for good, in a thread of its own.
    """
    with channel:
        _, received, _, _ = socket.recv_fds(channel, 1, 1)
    for listener in received:
        os.nice(_NICE)  # of this thread: a tool that asks without end must not slow down the hall
        try:
            while True:
                _judge_next(listener)
        finally:
            os.close(listener)  # whoever asks from now on is denied, and does not wait for ever


def _judge_next(listener: int) -> None:
    notification = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, notification)
    except OSError as error:
        if error.errno in (errno.EINTR, errno.ENOENT):  # who asked is gone
            return
        raise
    _respond(listener, *_asked(notification))


def _asked(notification: bytearray) -> tuple[int, int]:
    """The id of the question, and what the call does to its target: 0, or the error it ends with."""
    unpacked = _NOTIFICATION.unpack(notification)
    target = struct.unpack("=i", struct.pack("=I", unpacked[6] & 0xFFFFFFFF))[0]
    return unpacked[0], _verdict(target)


def _respond(listener: int, question: int, code: int) -> None:
    for response in (_RESPONSE.pack(question, 0, -code, 0 if code else _CONTINUE), _RESPONSE.pack(question, 0, -1, 0)):
        try:
            fcntl.ioctl(listener, _RESPOND, response)
        except OSError as error:
            if error.errno == errno.EINVAL:  # a kernel that cannot continue a call: then it is denied
                continue
        return


def _verdict(target: int) -> int:
    """0 for a process, a thread or a group of processes that all descend from this process, else an error."""
    try:
        return _descends(target) if target > 0 else _group_descends(-target)
    except OSError:  # no descriptor is left to look with
        return errno.EPERM


def _group_descends(group: int) -> int:
    members = [pid for pid in map(int, filter(str.isdigit, os.listdir(_PROCESSES))) if _group(pid) == group]  # noqa: PTH208
    found = {_descends(each) for each in members}
    return errno.EPERM if group == 1 or errno.EPERM in found else 0 if 0 in found else errno.ESRCH


def _descends(target: int) -> int:
    """Whoever loses its parent meanwhile has another one, this process, when it is looked at again."""
    for _ in range(_LOOKS):
        each: int | None = target
        while each is not None and each > 1:
            if (each := _parent(each)) == os.getpid():
                return 0
        if each is not None:
            return errno.EPERM
        if _parent(target) is None:
            return errno.ESRCH
    return errno.EPERM


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _parent(pid: int) -> int | None:
    """Of a process or a thread; None if there is none of this id."""
    try:
        return int((_PROCESSES / f"{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except OSError:
        return None
