"""The workers of one server write to one SQLite file: nothing is lost or counts twice, and others are refused."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.interfaces.approval_rows import factor, wanted
from tests.interfaces.child_processes import child, read_line
from toolhall.stores import sqlite
from toolhall.stores.access import ApiKey, Grant
from toolhall.stores.approvals import Decision
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE, InUse, StoreFailed
from toolhall.stores.open import open_stores

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there, processes cannot share a socket")
MANY = 8


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Stores, Stores]]:
    first = open_stores(tmp_path, allow_readonly=False, role="first")
    second = open_stores(tmp_path, allow_readonly=False, role="sibling")
    yield first, second
    second.close()
    first.close()


def forbid_grant(name: str) -> Grant:
    return Grant(id=name, effect="forbid", callers="*", tools=name, created_at=1.0, by="me")


def key(name: str) -> ApiKey:
    return ApiKey(id=name, name=name, digest=b"d" * 32, created_at=1.0, by="me")


async def test_shared_sqlite_approval_is_consumed_once_by_either_process(workers: tuple[Stores, Stores]) -> None:
    one, other = workers
    for turn in range(MANY):
        asked = await one.approvals.claim(wanted(), f"asked{turn}")
        assert asked.state == "pending"
        decision = Decision("approved", "alice", "totp")
        assert await other.approvals.decide(asked.id, decision) is not None
        claims = [each.approvals.claim(wanted(), f"new{turn}{number}") for number, each in enumerate(workers)]
        first, second = sorted(await asyncio.gather(*claims), key=lambda each: each.state)
        assert (first.state, first.id, second.state) == ("consumed", asked.id, "pending")
        assert await one.approvals.decide(second.id, decision) is not None
        assert (await other.approvals.claim(wanted(), "none")).id == second.id


async def test_shared_sqlite_factor_code_is_accepted_once_by_either_process(workers: tuple[Stores, Stores]) -> None:
    assert await workers[0].factors.add(factor())
    for counter in range(1, MANY):
        taken = await asyncio.gather(*(each.factors.advance("f1", counter) for each in workers))
        assert sorted(taken) == [False, True]


async def test_shared_sqlite_grant_table_mac_holds_with_several_writers(
    workers: tuple[Stores, Stores], tmp_path: Path
) -> None:
    added = [each.grants.add(forbid_grant(f"{place}.{n}")) for n in range(MANY) for place, each in enumerate(workers)]
    await asyncio.gather(*added)
    removed = [each.grants.remove(f"{1 - place}.{n}") for n in range(0, MANY, 2) for place, each in enumerate(workers)]
    assert None not in await asyncio.gather(*removed)
    left = {f"{place}.{n}" for n in range(1, MANY, 2) for place in (0, 1)}
    for each in workers:
        assert {grant.id for grant in await each.grants.all()} == left
    for each in reversed(workers):
        each.close()
    again = open_stores(tmp_path, allow_readonly=False)
    assert {grant.id for grant in await again.grants.all()} == left
    again.close()


async def test_shared_sqlite_key_use_does_not_undo_a_revocation_by_another_process(
    workers: tuple[Stores, Stores],
) -> None:
    one, other = workers
    names = [f"k{number}" for number in range(MANY)]
    for name in names:
        await one.keys.add(key(name))
    uses = [one.keys.record_uses(dict.fromkeys(names, float(moment))) for moment in range(MANY)]
    await asyncio.gather(*uses, *(other.keys.revoke(name, 5.0) for name in names))
    for each in workers:
        assert [(found.revoked_at, found.last_used_at) for found in await each.keys.all()] == [(5.0, MANY - 1.0)] * MANY


async def test_shared_sqlite_version_changes_only_by_writes_of_another_process(
    workers: tuple[Stores, Stores],
) -> None:
    one, other = workers
    assert one.version is not None
    assert other.version is not None
    before = await one.version(), await other.version()
    await one.keys.add(key("k"))
    assert await one.version() == before[0]
    assert await other.version() != before[1]


async def test_shared_sqlite_other_processes_are_refused_while_a_worker_holds_it(tmp_path: Path) -> None:
    first = open_stores(tmp_path, allow_readonly=False, role="first")
    second = open_stores(tmp_path, allow_readonly=False, role="sibling")
    supervisor = rf"in use by process {os.getppid()};"
    first.close()
    for stranger in (None, "first"):
        with pytest.raises(InUse, match=supervisor):
            open_stores(tmp_path, allow_readonly=False, role="first" if stranger else None)
    third = open_stores(tmp_path, allow_readonly=False, role="sibling")  # in place of the first
    await third.keys.add(key("k"))
    assert [each.id for each in await second.keys.all()] == ["k"]
    second.close()
    third.close()
    alone = open_stores(tmp_path, allow_readonly=False)
    with pytest.raises(InUse):
        open_stores(tmp_path, allow_readonly=False, role="sibling")
    assert alone.version is None, "nobody else writes, so nobody looks"
    alone.close()


KILLED = """
import asyncio, os, sys
from pathlib import Path
from toolhall.stores.open import open_stores
from tests.interfaces.test_shared_sqlite import forbid_grant

async def add():
    stores = open_stores(Path(sys.argv[1]), allow_readonly=False, role="sibling")
    for number in range(1000):
        await stores.grants.add(forbid_grant(f"killed{number}"))
        print(number, flush=True)

asyncio.run(add())
"""


async def test_shared_sqlite_worker_killed_while_writing_does_not_block_the_others(tmp_path: Path) -> None:
    first = open_stores(tmp_path, allow_readonly=False, role="first")
    with child(KILLED, tmp_path) as process:
        read_line(process)
        await first.grants.add(forbid_grant("mine"))
        process.kill()
    await first.grants.add(forbid_grant("after"))
    assert {"mine", "killed0", "after"} <= {grant.id for grant in await first.grants.all()}
    first.close()


async def test_shared_sqlite_write_that_waits_too_long_fails_and_can_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.0)
    stores = open_stores(tmp_path, allow_readonly=False, role="first")
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="another program is writing to it"):
            await stores.keys.add(key("k"))
        other.execute("ROLLBACK")
        await stores.keys.add(key("k"))
    assert [each.id for each in await stores.keys.all()] == ["k"]
    stores.close()
