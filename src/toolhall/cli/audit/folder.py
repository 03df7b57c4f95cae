"""The data folder whose audit is read; nothing is made or changed there, so that a hall may be running in it."""

from pathlib import Path

from toolhall.cli.failure import CommandFailed
from toolhall.cli.settings import read_settings
from toolhall.stores.audit.segments import FOLDER


def audited(folder: Path | None) -> Path:
    """The data folder that was named, or the usual one; CommandFailed where nothing was ever recorded."""
    data = Path(read_settings(data=str(folder) if folder else None).data or "")
    if not (data / FOLDER).is_dir():
        raise CommandFailed(f"nothing is recorded in {data}; name another folder with --data")
    return data
