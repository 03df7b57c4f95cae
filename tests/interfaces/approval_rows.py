"""Approvals and factors to keep, a clock to turn, and every engine that keeps them by that clock."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from toolhall.stores.approvals import ApprovalRequest, ApprovalStore, MemoryApprovalStore
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.crypto import RowMac
from toolhall.stores.factors import Factor, FactorStore, MemoryFactorStore
from toolhall.stores.sql.approvals import SqlApprovalStore
from toolhall.stores.sql.factors import SqlFactorStore
from toolhall.stores.sqlite import SqliteDatabase, open_to_write

ROOT_KEY = b"k" * 32
START = 1_000_000.0


class Clock:
    """The store's own clock, turned by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def wanted(**other: Any) -> ApprovalRequest:
    """A call of level 9 by the caller `ci` of the person `alice`."""
    plain: dict[str, Any] = {
        "how": "approval",
        "caller": "ci",
        "person": "alice",
        "tool": "House.burn@1.0.0",
        "definition_sha256": "d" * 64,
        "arguments_sha256": "a" * 64,
        "shown": b'{\n  "room": "attic"\n}',
        "level": 9,
        "effect": "destroys",
        "dialect": "mcp@2026-07-28",
    }
    return ApprovalRequest(**plain | other)


def factor(**other: Any) -> Factor:
    """A code generator of alice's."""
    plain: dict[str, Any] = {
        "id": "f1",
        "person": "alice",
        "kind": "totp",
        "secret": "sealed",
        "by": "local",
        "created_at": START,
    }
    return Factor(**plain | other)


@contextmanager
def database(folder: Path) -> Generator[SqliteDatabase]:
    """The file of a folder, whoever else has it open."""
    opened = SqliteDatabase(folder / DATABASE_FILE, partial(open_to_write, macs=RowMac(ROOT_KEY)))
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def memory_engine(_: Path, clock: Callable[[], float]) -> Generator[tuple[ApprovalStore, FactorStore]]:
    yield MemoryApprovalStore(clock), MemoryFactorStore(clock)


@contextmanager
def sqlite_engine(folder: Path, clock: Callable[[], float]) -> Generator[tuple[ApprovalStore, FactorStore]]:
    with database(folder) as opened:
        macs = RowMac(ROOT_KEY)
        yield SqlApprovalStore(opened, macs, clock), SqlFactorStore(opened, macs, clock)


ENGINES = {"memory": memory_engine, "sqlite": sqlite_engine}
