"""What a hall keeps in its data folder; without one, nothing outlives it."""

import asyncio
import logging
import secrets
from pathlib import Path

from toolhall.config import BadConfig, Config
from toolhall.model.recording import FILE_NAME as RECORDINGS
from toolhall.stores.bundle import Stores
from toolhall.stores.journal import journal_in
from toolhall.stores.recordings import FileRecordings
from toolhall.stores.seal import KEY_BYTES, KEY_NAME, exposed_paths, kept_key

_log = logging.getLogger("toolhall.store")


class Folder:
    """The audit, the recordings, and the key that all others are made from."""

    def __init__(self, config: Config) -> None:
        self.path = _made(config.data)
        self.recordings = _recordings(config, self.path)
        self.journal = journal_in(self.path, config.audit_days)
        self.root = kept_key(self.path / KEY_NAME) if self.path else secrets.token_bytes(KEY_BYTES)
        for each in exposed_paths(self.path) if self.path else ():
            _log.warning("%s", each)

    async def anchor(self, stores: Stores) -> None:
        """Compare the audit with what the store knows of it, and keep the store up to date; raises StoreFailed."""
        if self.journal.anchoring is not None:
            await asyncio.to_thread(self.journal.anchoring.open, stores.anchors, writes=not stores.readonly)

    async def compare(self) -> None:
        """Another process may have accepted the audit as it is; raises StoreFailed."""
        if self.journal.anchoring is not None and self.journal.behind:
            await asyncio.to_thread(self.journal.anchoring.compare)

    def close(self) -> None:
        """Write what is left."""
        self.journal.close()
        if self.recordings is not None:
            self.recordings.close()


def _made(data: str | None) -> Path | None:
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
