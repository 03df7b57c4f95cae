"""What another process of the family changed is noticed, and what cannot be read changes nothing."""

import asyncio
import logging
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.patience import patience
from toolhall.registration.access import AccessControl, NewGrant, NewKey
from toolhall.stores.access import Grant
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.common import DATABASE_FILE, POLL_SECONDS, StorePoller, WriteLock
from toolhall.stores.open import open_stores

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there, processes cannot share a socket")
FORBID = NewGrant(callers="*", tools="Kit.wipe", effect="forbid")


class Process:
    """One worker process with its keys and grants."""

    def __init__(self, stores: Stores) -> None:
        self.told: list[tuple[Grant, ...]] = []
        self.heard = asyncio.Event()
        self.access = AccessControl(b"k" * 32, WriteLock(), time.time, self._tell)
        self.stores = stores
        self.following = StorePoller(self._take)

    async def open(self) -> None:
        await self.following.set_baseline(self.stores.version)
        await self.access.open(self.stores)

    def _tell(self, grants: tuple[Grant, ...]) -> None:
        self.told.append(grants)
        self.heard.set()

    async def _take(self) -> None:
        await self.access.keys.reload()
        await self.access.grants.reload()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[tuple[Process, Process]]:
    one = Process(open_stores(tmp_path, allow_readonly=False, role="first"))
    other = Process(open_stores(tmp_path, allow_readonly=False, role="sibling"))
    yield one, other
    for each in (one, other):
        each.access.close()
        each.stores.close()


async def test_store_sync_applies_key_and_grant_changes_of_another_process(processes: tuple[Process, Process]) -> None:
    one, other = processes
    await one.open()
    await other.open()
    made, text = await one.access.keys.create(NewKey(name="ci"), "me")
    forbid = await one.access.grants.add(FORBID, "me")
    assert other.access.ring.find(text, time.time()) is None
    await other.following.poll()
    caller = other.access.ring.find(text, time.time())
    assert (caller is not None, other.access.grants.all) == (True, (forbid,))
    await one.stores.keys.record_uses({made.id: time.time() + 5.0})
    await other.following.poll()
    assert other.access.ring.find(text, time.time()) is caller, "a use elsewhere changes nobody's rights"
    assert other.told == [(), (forbid,)], "and what is the same is not told again"
    heard: list[bool] = []
    other.access.keys.on_change.append(lambda: heard.append(other.access.ring.find(text, time.time()) is not None))
    await one.access.keys.revoke(made.id)
    await other.following.poll()
    assert other.access.ring.find(text, time.time()) is None
    assert heard == [False], "tool servers that joined with it are gone at once"


@pytest.mark.threat("J7")
async def test_J7_store_sync_keeps_a_grant_deleted_by_sql_and_still_applies_revocations(  # noqa: N802 - named after its row
    processes: tuple[Process, Process], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A running worker keeps a grant that was taken out of the file, says so once, and still hears of revoked keys."""
    one, other = processes
    await one.open()
    await other.open()
    made, text = await one.access.keys.create(NewKey(name="ci"), "me")
    forbid = await one.access.grants.add(FORBID, "me")
    await other.following.poll()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as file, file:
        (row,) = file.execute("SELECT * FROM grants").fetchall()
        file.execute("DELETE FROM grants")
    await one.access.keys.revoke(made.id)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            await other.following.poll()
    assert ["removed or restored by another program" in each.getMessage() for each in caplog.records] == [True]
    assert (other.access.grants.all, other.access.ring.find(text, time.time())) == ((forbid,), None)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as file, file:
        file.execute(f"INSERT INTO grants VALUES ({','.join('?' * len(row))})", row)
    added = await one.access.grants.add(NewGrant(callers="ci", tools="*"), "me")
    await other.following.poll()
    assert other.access.grants.all == (forbid, added)


async def test_store_sync_polls_at_least_once_a_second_and_only_for_a_shared_store(
    processes: tuple[Process, Process],
) -> None:
    assert POLL_SECONDS <= 1.0
    one, other = processes
    await one.open()
    await other.open()
    other.access.watch()
    for _ in range(2):  # it goes on looking
        other.heard.clear()
        added = await one.access.grants.add(FORBID, "me")
        await asyncio.wait_for(other.heard.wait(), patience())
        assert added in other.access.grants.all
    other.access.close()
    alone = Process(in_memory())
    await alone.open()
    before = asyncio.all_tasks()
    alone.access.watch()
    await alone.following.poll()
    assert asyncio.all_tasks() == before
