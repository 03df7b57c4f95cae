"""DataDir and OpenOptions: a hall's data directory, and how a process shares it with other processes.

DataDir holds the audit journal, the recordings and the root key. OpenOptions says whether the process needs the
directory for itself, may read only, or leaves the tools to another process.
"""

import asyncio
import logging
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolhall.config import BadConfig, Config
from toolhall.model.call_records import RECORDINGS_FILE as RECORDINGS
from toolhall.stores.audit.journal import open_journal
from toolhall.stores.crypto import KEY_BYTES, ROOT_KEY_FILE, exposed_paths, load_or_create_key
from toolhall.stores.file_lock import WorkerRole

if TYPE_CHECKING:
    from toolhall.stores.batch_writer import FileRecordings
    from toolhall.stores.bundle import Stores

_log = logging.getLogger("toolhall.store")


class OpenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a process shares the data directory; by default it has it exclusively and enforces versions."""

    allow_readonly: bool = False  # open read-only if another process has the directory exclusively
    role: WorkerRole | None = None  # of several processes that share the directory and may all write
    tools_optional: bool = False  # do not change tools if another process may
    short_lived: bool = False  # other processes wait for the lock of this one
    release_tools: bool = False  # give up the right to change tools once the hall is open
    enforce_versions: bool = True
    runs_tasks: bool = True  # go on with long calls that an earlier process left
    read_only_reason: str | None = None  # refuses changes of tools with this message
    locked_message: str = (
        "another process writes to this hall's data folder; make the change there, or stop that one first"
    )


EXCLUSIVE = OpenOptions()


def stdio_open_options(dialect: str, *, enforce_versions: bool = True) -> OpenOptions:
    """Options for serving on stdio: each client starts its own process, so these share the data directory.

    MCP cannot register tools, so such a process leaves that right to others; the other dialects can, and keep it.
    """
    mcp = dialect == "mcp"
    return OpenOptions(
        allow_readonly=True,
        role="peer",
        tools_optional=True,
        short_lived=mcp,
        release_tools=mcp,
        enforce_versions=enforce_versions,
    )


def command_open_options(*, writes: bool, exclusive: bool = False) -> OpenOptions:
    """Options for a command that opens the data directory itself, beside processes that serve on stdio.

    If a server runs, commands ask that one instead. `exclusive` is for changes that no running process may miss.
    """
    if exclusive:
        return OpenOptions(enforce_versions=False, short_lived=True, runs_tasks=False)
    return OpenOptions(
        allow_readonly=not writes,
        role="peer",
        tools_optional=not writes,
        enforce_versions=False,
        short_lived=True,
        runs_tasks=False,
    )


class DataDir:
    """The data directory: the audit journal, the recordings, and the root key of all derived keys."""

    def __init__(self, config: Config) -> None:
        self.path = _create(config.data)
        self.recordings = _recordings(config, self.path)
        self.journal = open_journal(self.path, config.audit_days)
        self.root_key = load_or_create_key(self.path / ROOT_KEY_FILE) if self.path else secrets.token_bytes(KEY_BYTES)
        for each in exposed_paths(self.path) if self.path else ():
            _log.warning("%s", each)

    async def open_anchors(self, stores: "Stores") -> None:
        """Compare the audit with its anchors in the store, and keep these up to date; raises StoreFailed."""
        if self.journal.anchor_sync is not None:
            await asyncio.to_thread(self.journal.anchor_sync.open, stores.anchors, writes=not stores.readonly)

    async def recheck_anchors(self) -> None:
        """Compare again, because another process may have accepted the audit as it is; raises StoreFailed."""
        if self.journal.anchor_sync is not None and self.journal.behind:
            await asyncio.to_thread(self.journal.anchor_sync.compare)

    def close(self) -> None:
        """Write what is buffered and close the files."""
        self.journal.close()
        if self.recordings is not None:
            self.recordings.close()


def _create(data: str | None) -> Path | None:
    if data is None:
        return None
    folder = Path(data)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _recordings(config: Config, folder: Path | None) -> "FileRecordings | None":
    if not config.record:
        return None
    if folder is None:
        raise BadConfig("'record' needs a folder to record into; set 'data' (TOOLHALL_DATA), or leave out 'record'")
    from toolhall.stores.batch_writer import FileRecordings  # lazy: few halls record

    return FileRecordings(folder / RECORDINGS)
