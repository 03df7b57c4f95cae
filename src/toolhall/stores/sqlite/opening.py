"""Opens the file with every store that is kept in it."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from toolhall.stores.base import FILE_NAME
from toolhall.stores.bundle import Stores
from toolhall.stores.lock import LOCK_NAME, Lock
from toolhall.stores.macs import Macs
from toolhall.stores.seal import KEY_BYTES, KEY_NAME, kept_key
from toolhall.stores.sql.accounts import SqlAccounts
from toolhall.stores.sql.anchors import SqlAnchors, SqlStates
from toolhall.stores.sql.approvals import SqlApprovals
from toolhall.stores.sql.factors import SqlFactors
from toolhall.stores.sql.grants import SqlGrants
from toolhall.stores.sql.keys import SqlKeys
from toolhall.stores.sql.tools import SqlTools
from toolhall.stores.sql.vault import SqlVault
from toolhall.stores.sqlite.connection import open_to_read, open_to_write
from toolhall.stores.sqlite.database import Database
from toolhall.stores.sqlite.faults import explained


def open_stores(folder: Path) -> Stores:
    """Open the folder's file to read and write, making it if there is none; raises InUse, or StoreFailed.

    It takes some milliseconds, and more when the tables have to be made; where a loop runs, call it in a thread.
    """
    with explained(folder / FILE_NAME):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = Lock(folder / LOCK_NAME)
    try:
        return open_locked(folder, lock)
    except BaseException:
        lock.release()
        raise


def open_locked(folder: Path, lock: Lock, *, several: bool = False) -> Stores:
    """As `open_stores`, by who holds the lock already, perhaps one of several; it is let go with the stores."""
    path = folder / FILE_NAME
    with explained(path):
        macs = Macs(kept_key(folder / KEY_NAME))
        database = Database(path, partial(open_to_write, macs=macs, alone=lock.alone), lock)
        stores = _stores(database, macs)
        return replace(stores, version=database.version) if several else stores


def open_readonly(folder: Path) -> Stores:
    """Open the folder's file to read, whether a process writes to it or not; raises StoreFailed."""
    path = folder / FILE_NAME
    with explained(path):
        return _stores(Database(path, open_to_read), Macs(_key_to_read(folder / KEY_NAME)))


def _stores(database: Database, macs: Macs) -> Stores:
    return Stores(
        tools=SqlTools(database, macs),
        keys=SqlKeys(database, macs),
        grants=SqlGrants(database, macs),
        approvals=SqlApprovals(database, macs),
        factors=SqlFactors(database, macs),
        accounts=SqlAccounts(database, macs),
        vault=SqlVault(database, macs),
        states=SqlStates(database),
        anchors=SqlAnchors(database, macs),
        close=database.close,
    )


def _key_to_read(path: Path) -> bytes:
    """Who only reads makes no key; without the right one, no row is taken for one of our own."""
    return path.read_bytes() if path.exists() else os.urandom(KEY_BYTES)
