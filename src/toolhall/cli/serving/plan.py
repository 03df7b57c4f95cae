"""What `toolhall serve` was told, and what follows from it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from toolhall.config import Config


@dataclass(frozen=True)
class ServeOptions:
    """What `toolhall serve` takes besides its targets.

    Parameters
    ----------
    host
        Where to listen; this machine only. [default: 127.0.0.1]
    port
        0 picks a free one. [default: 8000, with --join 0]
    data
        Folder of records and keys. [default: one per project, shown at the start]
    config
        Settings file. [default: toolhall.toml, if there is one]
    profile
        Who may call. [default: local]
    stdio
        Serve one dialect on standard input and output.
    dialect
        Which one, with --stdio. [default: mcp]
    reload
        Start again when a file changes.
    workers
        Processes that share the port.
    join
        Run the tools for the hall at this URL, as its tool server, such as --join http://127.0.0.1:8000.
    name
        What this tool server is called, with --join. [default: its first toolkit]
    key_file
        File that holds the key for the hall, with --join. [default: the variable TOOLHALL_KEY]
    socket
        With --join: be called over a socket to the hall, and listen on no port.
    advertise
        With --join: the URL at which the hall reaches this server. [default: http://HOST:PORT]
    json
        Print one JSON line with the url and the pid, and with --join the hall.
    """

    host: str | None = None
    port: int | None = None
    data: Path | None = None
    config: Path | None = None
    profile: Literal["local", "server"] | None = None
    stdio: bool = False
    dialect: Literal["mcp", "machine", "hub"] | None = None
    reload: bool = False
    workers: int = 1
    join: str | None = None
    name: str | None = None
    key_file: Path | None = None
    socket: bool = False
    advertise: str | None = None
    json: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the server, in the form that every way of serving reads, a child process too."""

    targets: tuple[str, ...]
    config: Config
    host: str | None  # as given on the command line
    port: int | None  # as given on the command line
    data: str | None = None  # as given on the command line
    file: str | None = None  # of settings, as given on the command line
    stated: tuple[str, ...]  # settings that the command line names, also for an author's own Toolhall
    unnamed: bool = False  # nobody named the data folder, so it is the project's
    workers: int
    json: bool
    stdio: bool = False
    sibling: bool = False  # another process of the same family has opened the data folder first
    dialect: str = "mcp"  # spoken on standard input and output

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings that the command line names, with their values."""
        return {name: getattr(self.config, name) for name in self.stated}
