"""Which store a hall gets, and what several processes may do with one folder."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.interfaces.tool_records import event, kept
from toolhall.stores.access import Grant
from toolhall.stores.common import InUse, StoreFailed
from toolhall.stores.open import open_stores
from toolhall.stores.tools import MemoryToolStore

FILE = "toolhall.db"


def test_open_stores_without_data_folder_is_in_memory() -> None:
    assert isinstance(open_stores(None, allow_readonly=False).tools, MemoryToolStore)


async def test_open_stores_creates_the_database_with_the_first_change(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, allow_readonly=False)
    assert (await stores.tools.all(), await stores.tools.history(), (tmp_path / FILE).exists()) == ((), (), False)
    row = kept()
    await stores.tools.save([row], [event(row)])
    assert (tmp_path / FILE).exists()
    stores.close()
    again = open_stores(tmp_path, allow_readonly=False)
    assert [each.id for each in await again.tools.all()] == [row.id]
    again.close()


@pytest.mark.parametrize("changed", [False, True], ids=["before", "after"])
async def test_open_stores_in_use_refuses_a_second_writer_and_allows_a_reader(tmp_path: Path, changed: bool) -> None:
    stores = open_stores(tmp_path, allow_readonly=False)
    if changed:
        row = kept()
        await stores.tools.save([row], [event(row)])
    with pytest.raises(InUse, match=r"is in use by .*; stop that one, ask it by --url"):
        open_stores(tmp_path, allow_readonly=False)
    reader = open_stores(tmp_path, allow_readonly=True)
    assert len(await reader.tools.all()) == len(await reader.tools.history()) == int(changed)
    with pytest.raises(StoreFailed, match="another process writes"):
        await reader.tools.save([kept("other")], [])
    with pytest.raises(StoreFailed, match="another process writes"):
        await reader.tools.remove([kept("other")], [])
    reader.close()
    stores.close()
    open_stores(tmp_path, allow_readonly=False).close()


async def test_open_stores_damaged_database_fails_and_releases_the_lock(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    for _ in range(2):
        with pytest.raises(StoreFailed, match="damaged"):
            open_stores(tmp_path, allow_readonly=False)


def test_open_stores_data_path_that_is_a_file_raises_store_failed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreFailed, match="choose another folder with --data"):
        open_stores(tmp_path / "file", allow_readonly=False)


async def test_open_stores_first_change_cancelled_does_not_affect_a_concurrent_change(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, allow_readonly=False)
    first = asyncio.create_task(stores.tools.save([kept("first")], []))
    second = asyncio.create_task(stores.tools.save([kept("second")], []))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first, second])
    assert [each.tool for each in await stores.tools.all()] == ["second"]
    stores.close()


async def test_open_stores_closed_during_the_first_change_releases_the_lock(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, allow_readonly=False)
    saving = asyncio.create_task(stores.tools.save([kept("first")], []))
    await asyncio.sleep(0)
    stores.close()
    with contextlib.suppress(StoreFailed):  # it may be closed before it is written to
        await saving
    open_stores(tmp_path, allow_readonly=False).close()


async def test_open_stores_reader_refuses_changes_in_every_store(tmp_path: Path) -> None:
    writer = open_stores(tmp_path, allow_readonly=False)
    await writer.grants.add(Grant(id="g", effect="permit", callers="*", tools="*", created_at=1.0, by="me"))
    reader = open_stores(tmp_path, allow_readonly=True)
    assert (reader.readonly, writer.readonly) == (True, False)
    assert (await reader.grants.all(), await reader.keys.all()) == (await writer.grants.all(), ())
    for change in (reader.grants.remove("g"), reader.keys.revoke("k", 1.0), reader.keys.record_uses({})):
        with pytest.raises(StoreFailed, match="another process writes"):
            await change
    reader.close()
    writer.close()
