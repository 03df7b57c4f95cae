"""Kernel restrictions that a worker process puts on itself: a Landlock domain and a seccomp filter.

Landlock knows allow-lists only. To hide the data folder, the worker walks from `/` down to it and grants every
neighbour on the way, never a folder that leads to it: what is hidden is reachable by no rule. The rules name what is
there when the worker starts; an entry that is made later directly in one of the folders on the way is out of reach.
Any Landlock domain also denies to trace, or to read the memory and environment of, processes outside of it.

The seccomp filter denies tracing as well, and limits and priorities of other processes; where Landlock has no scope for
signals (before Linux 6.12) it is the only thing that holds them back.

All of it is inherited by everything that the worker starts, and can be taken back by nothing.
"""

import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolhall.runners.seccomp import install_filter

NO_DOMAIN = "it may trace this user's other programs and read the hall's data folder (Landlock needs Linux 5.19)"
NO_SCOPE = "it may signal this user's programs, and the hall by the id of one of its threads (this needs Linux 5.5)"
NO_SHIELD = "it may signal this user's programs and the hall (Landlock scopes need Linux 6.12)"
NO_FILTER = "it may change the limits and priorities of this user's programs (no seccomp filter on this machine)"

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
# What would let root around the rest: DAC_READ_SEARCH (files by handle), SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN,
# SYS_BOOT, SYS_RESOURCE (its own limits), MKNOD, PERFMON (other programs' memory), BPF.
_DROPPED = (2, 16, 17, 19, 21, 22, 24, 27, 38, 39)
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture that is known here
_VERSION, _PATH_BENEATH = 1, 1
_SCOPE_SIGNAL = 1 << 1
_ABI_REFER, _ABI_TRUNCATE, _ABI_SCOPE = 2, 3, 6

_WRITE_FILE, _READ_FILE, _REMOVE_DIR, _REMOVE_FILE = 1 << 1, 1 << 2, 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_DEVICES = _MAKE_CHAR | _MAKE_BLOCK  # never granted
_OF_FOLDERS = _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ_ONLY = ("/sys",)  # `cgroup.freeze` and `cgroup.kill` are files there


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers; 0 where it has none, or it is switched off."""
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, _VERSION)))


def enter_sandbox(
    hidden: Iterable[str], shielded: Iterable[int], abi: int | None = None, channel: socket.socket | None = None
) -> tuple[str, ...]:
    """Restrict this process for good, before it has threads; returns what the kernel could not do, one sentence each.

    `hidden` are paths that nothing here may open, `shielded` processes that nothing here may signal. By `channel` the
    supervisor gets to judge signals where Landlock does not. Raises OSError where the kernel has a restriction and
    refuses to apply it.
    """
    abi = landlock_abi() if abi is None else abi
    missing: list[str] = []
    libc = _libc()
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if abi >= _ABI_REFER:  # before, a domain denies to move files from one folder to another
        _enter_domain(libc, frozenset(os.path.realpath(each) for each in hidden), abi)
    else:
        missing.append(NO_DOMAIN)
    _drop_capabilities(libc)
    scoped = abi >= _ABI_SCOPE
    signals = install_filter(shielded, channel, scoped=scoped)
    if signals is None:
        missing.append(NO_FILTER)
    if not scoped and signals != "judged":
        missing.append(NO_SCOPE if signals == "listed" else NO_SHIELD)
    return tuple(missing)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """For good, also for programs that are started; who has none of them, as anybody but root, keeps none."""
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _checked(libc.capget(header, sets), "capget")
    for capability in _DROPPED:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        first = 3 * (capability // 32)  # effective, permitted, inheritable
        for each in range(first, first + 3):
            sets[each] &= ~(1 << capability % 32)
    _checked(libc.capset(header, sets), "capset")


def _enter_domain(libc: ctypes.CDLL, hidden: frozenset[str], abi: int) -> None:
    handled = _OF_FOLDERS | _OF_FILES | _DEVICES
    if abi < _ABI_TRUNCATE:
        handled &= ~_TRUNCATE
    scoped = _SCOPE_SIGNAL if abi >= _ABI_SCOPE else 0
    attributes = struct.pack("=QQQ", handled, 0, scoped)
    ruleset = _checked(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0), "landlock_create_ruleset")
    try:
        for path, denied in _neighbours("/", hidden):
            _grant(libc, ruleset, path, handled & ~_DEVICES & ~denied)
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _neighbours(folder: str, hidden: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Every path that leads to nothing hidden, as high up as can be, with the rights that it does not get."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - as strings, which are compared
    except OSError:
        return  # what cannot be listed is not granted
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        if path in hidden:
            continue
        if any(each.startswith(f"{path}/") for each in hidden):
            yield from _neighbours(path, hidden)
        else:
            yield path, ~_READ_FILE if path in _READ_ONLY else 0


def _grant(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """A link is not followed: what it leads to has, or lacks, a rule of its own."""
    try:
        opened = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone since it was listed, or not for this user
    try:
        mode = os.fstat(opened).st_mode
        if not stat.S_ISLNK(mode):
            rule = struct.pack("=Qi", rights if stat.S_ISDIR(mode) else rights & _OF_FILES, opened)
            if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0) and ctypes.get_errno() != errno.EBADFD:
                _checked(-1, "landlock_add_rule")
    finally:
        os.close(opened)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def hides(hidden: Iterable[str], path: str) -> bool:
    """Whether this path is one of the hidden ones, or below one."""
    real = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        return any(real.is_relative_to(os.path.realpath(each)) for each in hidden)
    return False
