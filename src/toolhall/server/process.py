"""Sets up a process that serves: ServeConfig, `protect_process`, `clear_secret_env`, `new_event_loop`.

`protect_process` disables core dumps and ptrace and wipes secret environment variables from the process's memory;
`clear_secret_env` removes them from `os.environ` once they were read.
"""

import asyncio
import os
import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from toolhall.config import Config, SettingOrigin

if TYPE_CHECKING:
    import ctypes
if sys.platform != "win32":
    import resource

_SECRET_VARIABLES = (
    "TOOLHALL_KEY",
    "TOOLHALL_OXP_SECRET",
    "TOOLHALL_PROVIDERS",
    "TOOLHALL_UPSTREAMS",
    "TOOLHALL_VAULT_KEY",
)
_PR_SET_DUMPABLE = 4


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One start of `toolhall serve`: targets, settings and mode; a supervisor sends it to its workers as JSON."""

    targets: tuple[str, ...]
    config: Config
    host: str | None  # as given on the command line
    port: int | None  # as given on the command line
    data: str | None = None  # as given on the command line
    file: str | None = None  # the settings file, as given on the command line
    examples: bool = False  # whether the example toolkit is served, because there is nothing else
    stated: tuple[str, ...]  # names of the settings that override those of an author's own Toolhall
    origins: dict[str, SettingOrigin] = {}  # of the settings in `config` that are stated anywhere
    unnamed: bool = False  # the data folder was not named, so it is the project's default
    workers: int
    json: bool
    stdio: bool = False
    sibling: bool = False  # the first worker has opened the data folder already
    dialect: str = "mcp"  # of standard input and output

    @property
    def overrides(self) -> dict[str, Any]:
        """The stated settings with their values."""
        return {name: getattr(self.config, name) for name in self.stated}


def protect_process() -> None:
    """Keep other processes from reading this one's secrets; call it first in every process that serves.

    Disables core dumps. On Linux the secret variables are also wiped from the memory that `/proc/PID/environ`
    shows (`os.environ` keeps its own copy until `clear_secret_env`), and the process is no longer dumpable: another
    process of the same user can neither trace it nor open its `/proc/PID/mem`, `environ`, `fd` and `root`.
    """
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        import ctypes  # lazy: only a process that serves

        libc = ctypes.CDLL(None)
        _wipe_env_memory(libc, _SECRET_VARIABLES)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def secret_env_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this environment that hold the hall's own secrets."""
    return {name: environment[name] for name in _SECRET_VARIABLES if name in environment}


def clear_secret_env() -> None:
    """Remove the hall's secrets from `os.environ` once they were read: tools and their child processes can read it."""
    for name in secret_env_in(os.environ):
        del os.environ[name]


def _wipe_env_memory(libc: "ctypes.CDLL", names: Collection[str]) -> None:
    """Overwrite the values where the kernel put them at exec; `unsetenv` alone drops the pointer, not the bytes."""
    import ctypes  # lazy: as above

    if ctypes.c_void_p.in_dll(libc, "environ").value is None:
        return
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
    prefixes = tuple(f"{name}=".encode() for name in names)
    index = 0
    while address := entries[index]:
        entry = ctypes.string_at(address)
        if entry.startswith(prefixes):
            start = entry.index(b"=") + 1
            ctypes.memset(address + start, 0, len(entry) - start)
        index += 1
    for name in names:
        libc.unsetenv(name.encode())


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A uvloop event loop where uvloop is installed (not on Windows), else one of asyncio."""
    try:
        import uvloop  # lazy: not installed everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
