"""Accounts and links to keep, and every engine that keeps them by a clock that is turned by hand."""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from tests.interfaces.approval_rows import ROOT_KEY, START, database
from toolhall.stores.accounts import Account, AccountLink, AccountStore, MemoryAccountStore
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.accounts import SqlAccountStore

MINUTES = 60.0


def account(**other: Any) -> Account:
    """What alice has at the provider `mail`, not kept yet."""
    plain: dict[str, Any] = {
        "id": "acc1",
        "user": "alice",
        "provider": "mail",
        "issuer": "https://mail.example",
        "scopes": ("read", "send"),
        "sealed": b"\x00\xff sealed",
        "expires_at": START + 3600,
        "created_at": START,
    }
    return Account(**plain | other)


def link(**other: Any) -> AccountLink:
    """A link that `ci` asked for, for alice; nobody has agreed yet."""
    plain: dict[str, Any] = {
        "id": "l1",
        "caller": "ci",
        "user": "alice",
        "provider": "mail",
        "issuer": "https://mail.example",
        "scopes": ("read",),
        "tool": "Mail.read@1.0.0",
        "sealed": b"\x00\xff verifier",
        "created": START,
        "expires": START + 10 * MINUTES,
    }
    return AccountLink(**plain | other)


@contextmanager
def memory_engine(_: Path, clock: Callable[[], float]) -> Generator[AccountStore]:
    yield MemoryAccountStore(clock)


@contextmanager
def sqlite_engine(folder: Path, clock: Callable[[], float]) -> Generator[AccountStore]:
    with database(folder) as opened:
        yield SqlAccountStore(opened, RowMac(ROOT_KEY), clock)


@contextmanager
def store_handles(folder: Path, clock: Callable[[], float], count: int) -> Generator[list[AccountStore]]:
    """Several handles of one file, each with a connection and a thread of its own."""
    with ExitStack() as stack:
        opened = [stack.enter_context(database(folder)) for _ in range(count)]
        yield [SqlAccountStore(each, RowMac(ROOT_KEY), clock) for each in opened]


def execute_sql(folder: Path, statement: str) -> None:
    """Change the database file behind the store's back."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection, connection:
        assert connection.execute(statement).rowcount, "it changes something"


ENGINES = {"memory": memory_engine, "sqlite": sqlite_engine}
