"""What can go wrong with the file, as one line that says what to do."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from toolhall.stores.base import InUse, StoreFailed

_DAMAGED = "it is damaged; restore a backup, or move it away to begin without registered tools"
_DENIED = "it cannot be opened or written; give this user the right to do so, in its folder too"
_BUSY = "another program is writing to it; close that one, then try again"
_FIXES = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CANTOPEN: _DENIED,
    sqlite3.SQLITE_PERM: _DENIED,
    sqlite3.SQLITE_READONLY: _DENIED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_FULL: "the disk is full; make room, then try again",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written; look at its state and its free space, then try again",
}


@contextmanager
def explained(path: Path) -> Generator[None]:
    """Raise StoreFailed, with this path and a fix, for whatever the file or its engine raises."""
    try:
        yield
    except InUse:
        raise
    except StoreFailed as error:
        raise StoreFailed(f"{path}: {error}") from None
    except DBAPIError as error:  # its own text repeats the statement
        raise StoreFailed(f"{path}: {_fix(error.orig)}") from error.orig
    except sqlite3.Error as error:
        raise StoreFailed(f"{path}: {_fix(error)}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, SQLAlchemyError) as error:  # rows that nobody saved like this
        raise StoreFailed(f"{path}: {_DAMAGED}") from error
    except OSError as error:
        raise StoreFailed(f"{path}: {error.strerror}; choose another folder with --data, or put this right") from error


def refuse_damaged(connection: sqlite3.Connection) -> None:
    """Raise StoreFailed for pages that do not fit together."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreFailed(_DAMAGED)


def _fix(error: BaseException | None) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own: a text that is none
        return _DAMAGED
    return _FIXES.get(code & 0xFF, f"SQLite refused: {error}")  # the low byte is the kind, the rest says where
