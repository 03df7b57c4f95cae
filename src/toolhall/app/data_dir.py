"""DataDir and OpenOptions: a hall's data directory, and how a process shares it with other processes.

DataDir holds the audit journal, the recordings and the root key. OpenOptions says whether the process needs the
directory for itself, may read only, or leaves the tools to another process.
"""

import asyncio
import logging
import secrets
from pathlib import Path

import msgspec

from toolhall.config import BadConfig, Config
from toolhall.model.call_records import RECORDINGS_FILE as RECORDINGS
from toolhall.stores.audit.journal import open_journal
from toolhall.stores.batch_writer import FileRecordings
from toolhall.stores.bundle import Stores
from toolhall.stores.crypto import KEY_BYTES, ROOT_KEY_FILE, exposed_paths, load_or_create_key
from toolhall.stores.file_lock import WorkerRole


class OpenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """By default a hall has its folder to itself, and what it serves keeps its promises."""

    allow_readonly: bool = False  # where another process has the folder alone, reading is enough
    role: WorkerRole | None = None  # of several processes that serve from the folder, which all may write
    tools_optional: bool = False  # where another process changes the folder's tools, this one leaves them as they are
    short_lived: bool = False  # others may wait until it lets go
    release_tools: bool = False  # once the hall is open, another process may change the tools
    enforce_versions: bool = True
    read_only_reason: str | None = None  # why tools may not be changed while it runs
    locked_message: str = (
        "another process writes to this hall's data folder; make the change there, or stop that one first"
    )


EXCLUSIVE = OpenOptions()


def stdio_open_options(dialect: str, *, enforce_versions: bool = True) -> OpenOptions:
    """Every client starts a process of its own, so these share the folder with whoever serves from it.

    MCP has no way to register tools; the other dialects have, so there the process keeps that right while it runs.
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
    """A command on a folder: it works beside processes over stdio, and what it changes they take over.

    Where a server runs, that one is asked. `alone` is for what no other process may be surprised by.
    """
    if exclusive:
        return OpenOptions(enforce_versions=False, short_lived=True)
    return OpenOptions(
        allow_readonly=not writes, role="peer", tools_optional=not writes, enforce_versions=False, short_lived=True
    )


_log = logging.getLogger("toolhall.store")


class DataDir:
    """The audit, the recordings, and the key that all others are made from."""

    def __init__(self, config: Config) -> None:
        self.path = _create(config.data)
        self.recordings = _recordings(config, self.path)
        self.journal = open_journal(self.path, config.audit_days)
        self.root_key = load_or_create_key(self.path / ROOT_KEY_FILE) if self.path else secrets.token_bytes(KEY_BYTES)
        for each in exposed_paths(self.path) if self.path else ():
            _log.warning("%s", each)

    async def open_anchors(self, stores: Stores) -> None:
        """Compare the audit with what the store knows of it, and keep the store up to date; raises StoreFailed."""
        if self.journal.anchor_sync is not None:
            await asyncio.to_thread(self.journal.anchor_sync.open, stores.anchors, writes=not stores.readonly)

    async def recheck_anchors(self) -> None:
        """Another process may have accepted the audit as it is; raises StoreFailed."""
        if self.journal.anchor_sync is not None and self.journal.behind:
            await asyncio.to_thread(self.journal.anchor_sync.compare)

    def close(self) -> None:
        """Write what is left."""
        self.journal.close()
        if self.recordings is not None:
            self.recordings.close()


def _create(data: str | None) -> Path | None:
    if data is None:
        return None
    folder = Path(data)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _recordings(config: Config, folder: Path | None) -> FileRecordings | None:
    if not config.record:
        return None
    if folder is None:
        raise BadConfig("'record' needs a folder to record into; set 'data' (TOOLHALL_DATA), or leave out 'record'")
    return FileRecordings(folder / RECORDINGS)
