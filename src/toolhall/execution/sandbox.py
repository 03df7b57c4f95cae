"""Sandbox of a worker process: resource limits, a Landlock domain and the seccomp filter.

Landlock knows allow-lists only. To hide the data folder, the worker walks from `/` down to it and grants every
neighbour on the way, never a folder that leads to it: what is hidden is reachable by no rule. The rules name what is
there when the worker starts; an entry that is made later directly in one of the folders on the way is out of reach.
Any Landlock domain also denies to trace, or to read the memory and environment of, processes outside of it.

The seccomp filter (`seccomp`) denies tracing as well, and limits and priorities of other processes; where Landlock has
no scope for signals (before Linux 6.12) it is the only thing that holds them back.

All of it is inherited by everything that the worker starts, and cannot be undone.
"""

import contextlib
import ctypes
import errno
import math
import os
import resource
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolhall.execution.seccomp import WORKER_NICENESS, install_filter
from toolhall.execution.worker_protocol import WorkerLimits
from toolhall.process_supervisor import count_user_threads

NO_LANDLOCK = "it may trace this user's other programs and read the hall's data folder (Landlock needs Linux 5.19)"
NO_THREAD_SIGNAL_FILTER = (
    "it may signal this user's programs, and the hall by the id of one of its threads (this needs Linux 5.5)"
)
NO_SIGNAL_FILTER = "it may signal this user's programs and the hall (Landlock scopes need Linux 6.12)"
NO_SECCOMP = "it may change the limits and priorities of this user's programs (no seccomp filter on this machine)"
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
# With these, root could get around the rest: DAC_READ_SEARCH (files by handle), SYS_MODULE, SYS_RAWIO, SYS_PTRACE,
# SYS_ADMIN, SYS_BOOT, SYS_RESOURCE (its own limits), MKNOD, PERFMON (other programs' memory), BPF.
_DROPPED_CAPABILITIES = (2, 16, 17, 19, 21, 22, 24, 27, 38, 39)
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_GET_VERSION, _PATH_BENEATH = 1, 1
_SCOPE_SIGNAL = 1 << 1
_ABI_REFER, _ABI_TRUNCATE, _ABI_SCOPE = 2, 3, 6
_WRITE_FILE, _READ_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 2, 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_DEVICE_RIGHTS = _MAKE_CHAR | _MAKE_BLOCK  # handled, so that they are denied, and never granted
_FOLDER_RIGHTS = _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER
_FILE_RIGHTS = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ_ONLY_PATHS = ("/sys",)  # `cgroup.freeze` and `cgroup.kill` are files there


def enter_sandbox(
    hidden_paths: Iterable[str],
    protected_pids: Iterable[int],
    abi: int | None = None,
    channel: socket.socket | None = None,
) -> tuple[str, ...]:
    """Restrict this process for good, before it has threads; returns the missing restrictions, one sentence each.

    Nothing in this process, or started by it, can open `hidden_paths` or signal `protected_pids`. Over `channel` the
    supervisor gets to decide about signals where Landlock does not. A restriction is missing if the kernel does not
    have it; raises OSError if the kernel has it and refuses to apply it.
    """
    abi = landlock_abi() if abi is None else abi
    missing: list[str] = []
    libc = _libc()
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if abi >= _ABI_REFER:  # before, a domain denies moving files from one folder to another
        _enter_landlock(libc, frozenset(map(os.path.realpath, hidden_paths)), abi)
    else:
        missing.append(NO_LANDLOCK)
    _drop_capabilities(libc)
    scoped = abi >= _ABI_SCOPE
    signals = install_filter(protected_pids, channel, scoped=scoped)
    if signals is None:
        missing.append(NO_SECCOMP)
    if not scoped and signals != "judged":
        missing.append(NO_THREAD_SIGNAL_FILTER if signals == "listed" else NO_SIGNAL_FILTER)
    return tuple(missing)


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers; 0 where it has none, or it is switched off."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, _GET_VERSION)))


def is_hidden(hidden_paths: Iterable[str], path: str) -> bool:
    """Whether this path is, or is below, one of the hidden paths."""
    real = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        return any(real.is_relative_to(os.path.realpath(each)) for each in hidden_paths)
    return False


def apply_resource_limits(limits: WorkerLimits) -> None:
    """Set every resource limit of this process; its children inherit them."""
    os.nice(WORKER_NICENESS)
    for kind, limit in _resource_limits(limits):
        _, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))


def allow_cpu_seconds(seconds: int) -> None:
    """Allow so many more seconds of CPU time; then the kernel kills the process (SIGXCPU)."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limit = math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def kill_process_group() -> None:
    """Kill this process, and every process that it started and that stayed in its process group."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _resource_limits(limits: WorkerLimits) -> Iterator[tuple[int, int]]:
    yield resource.RLIMIT_CORE, 0
    yield resource.RLIMIT_AS, limits.memory
    yield resource.RLIMIT_NOFILE, limits.files
    yield resource.RLIMIT_FSIZE, limits.file_bytes
    if os.getuid() != 0:  # the kernel never holds root to it
        yield resource.RLIMIT_NPROC, count_user_threads() + limits.processes


def _enter_landlock(libc: ctypes.CDLL, hidden_paths: frozenset[str], abi: int) -> None:
    handled = _FOLDER_RIGHTS | _FILE_RIGHTS | _DEVICE_RIGHTS
    if abi < _ABI_TRUNCATE:
        handled &= ~_TRUNCATE
    scoped = _SCOPE_SIGNAL if abi >= _ABI_SCOPE else 0
    attributes = struct.pack("=QQQ", handled, 0, scoped)
    ruleset = _check(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset")
    try:
        for path, denied in _grantable_paths("/", hidden_paths):
            _grant(libc, ruleset, path, handled & ~_DEVICE_RIGHTS & ~denied)
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _grantable_paths(folder: str, hidden_paths: frozenset[str]) -> Iterator[tuple[str, int]]:
    """The topmost paths that lead to no hidden path, each with the rights that it does not get."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as strings, which are compared
    except OSError:
        return  # a folder that cannot be listed is not granted
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        if path in hidden_paths:
            continue
        if any(each.startswith(f"{path}/") for each in hidden_paths):
            yield from _grantable_paths(path, hidden_paths)
        else:
            yield path, ~_READ_FILE if path in _READ_ONLY_PATHS else 0


def _grant(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Add a rule for a path; a symbolic link is skipped, because its target has, or lacks, a rule of its own."""
    try:
        opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # removed since it was listed, or not readable for this user
    try:
        mode = os.fstat(opened).st_mode
        if not stat.S_ISLNK(mode):
            rule = struct.pack("=Qi", rights if stat.S_ISDIR(mode) else rights & _FILE_RIGHTS, opened)
            if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) and ctypes.get_errno() != errno.EBADFD:
                _check(-1, "landlock_add_rule")
    finally:
        os.close(opened)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drop capabilities of root for good, also for programs that are started; other users have none of them."""
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _check(libc.capget(header, sets), "capget")
    for capability in _DROPPED_CAPABILITIES:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        first = 3 * (capability // 32)  # effective, permitted, inheritable
        for each in range(first, first + 3):
            sets[each] &= ~(1 << capability % 32)
    _check(libc.capset(header, sets), "capset")


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
