"""Keeps the secrets that a serving process was started with out of core dumps, /proc and the environment of tools."""

import ctypes
import os
import sys
from collections.abc import Collection, Mapping

if sys.platform != "win32":
    import resource

_SECRET_VARIABLES = ("TOOLHALL_KEY", "TOOLHALL_OXP_SECRET", "TOOLHALL_PROVIDERS", "TOOLHALL_VAULT_KEY")
_PR_SET_DUMPABLE = 4


def protect_process() -> None:
    """Close what other processes could read this one's secrets from; call it first in every process that serves.

    No core dump is written. On Linux the secret variables are also wiped from the memory that `/proc/PID/environ`
    shows (`os.environ` keeps its own copy until `forget_secrets`), and the process is no longer dumpable: another
    process of the same user can neither trace it nor open its `/proc/PID/mem`, `environ`, `fd` and `root`.
    """
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        _wipe_variables(libc, _SECRET_VARIABLES)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def secrets_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which a hall is told its own secrets."""
    return {name: environment[name] for name in _SECRET_VARIABLES if name in environment}


def forget_secrets() -> None:
    """Once they were read: the environment is for every tool to read, and for every program that a tool starts."""
    for name in secrets_in(os.environ):
        del os.environ[name]


def _wipe_variables(libc: ctypes.CDLL, names: Collection[str]) -> None:
    """Overwrite the values where the kernel put them at exec; `unsetenv` alone drops the pointer, not the bytes."""
    if ctypes.c_void_p.in_dll(libc, "environ").value is None:
        return
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
    wanted = tuple(f"{name}=".encode() for name in names)
    place = 0
    while address := entries[place]:
        entry = ctypes.string_at(address)
        if entry.startswith(wanted):
            start = entry.index(b"=") + 1
            ctypes.memset(address + start, 0, len(entry) - start)
        place += 1
    for name in names:
        libc.unsetenv(name.encode())
