"""The data folder whose audit is read; nothing is made or changed there, so that a hall may be running in it."""

import importlib
from pathlib import Path

from toolhall.cli.failure import CommandFailed
from toolhall.cli.settings import read_settings
from toolhall.stores.audit.anchors import Anchor
from toolhall.stores.audit.segments import FOLDER
from toolhall.stores.base import FILE_NAME, StoreFailed


def anchored(data: Path) -> Anchor:
    """What the store in a data folder knows of the audit beside it; nothing where there is no store."""
    if not (data / FILE_NAME).exists():
        return Anchor()
    try:
        stores = importlib.import_module("toolhall.stores.sqlite.opening").open_readonly(data)
    except StoreFailed as failed:
        raise CommandFailed(f"the audit cannot be compared with the store: {failed}") from None
    try:
        found: Anchor = stores.anchors.read()
    except StoreFailed as failed:
        raise CommandFailed(f"the audit cannot be compared with the store: {failed}") from None
    finally:
        stores.close()
    return found


def audited(folder: Path | None) -> Path:
    """The data folder that was named, or the usual one; CommandFailed where nothing was ever recorded."""
    data = Path(read_settings(data=str(folder) if folder else None).data or "")
    if not (data / FOLDER).is_dir() and not anchored(data).marks:
        raise CommandFailed(f"nothing is recorded in {data}; name another folder with --data")
    return data
