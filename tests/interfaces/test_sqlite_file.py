"""The SQLite file: it persists, loses nothing on a full disk, and what is wrong with it is said in one line."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.interfaces.child_processes import child, read_line
from tests.interfaces.tool_records import changed, event, kept
from tests.interfaces.tool_stores import open_readonly, open_store
from toolhall.stores.common import DATABASE_FILE, StoreFailed
from toolhall.stores.crypto import ROOT_KEY_FILE, RowMac, load_or_create_key
from toolhall.stores.sql import tools
from toolhall.stores.sqlite import open_to_write, translate_errors

MACS = RowMac(bytes(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a hundred tools in it, closed."""
    rows = [kept(f"t{number}", document=b"{}" + b" " * 3_000 + b"%d" % number) for number in range(100)]
    store = open_store(tmp_path)
    asyncio.run(store.save(rows, [event(row) for row in rows]))
    store.close()
    return tmp_path / DATABASE_FILE


def execute_sql(path: Path, *statements: str) -> None:
    """Change the database file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def read_all(folder: Path) -> None:
    with closing(open_store(folder)) as opened:
        asyncio.run(opened.all())
        asyncio.run(opened.history())


def refusal(folder: Path) -> str:
    """The one line with which opening or reading it is refused."""
    with pytest.raises(StoreFailed) as raised:
        read_all(folder)
    said = str(raised.value)
    assert "\n" not in said
    assert said.startswith(f"{folder / DATABASE_FILE}: ")
    return said


async def test_sqlite_file_reopened_has_the_same_contents(tmp_path: Path) -> None:
    big = kept("big", document=bytes(range(256)) * 4096, by="\U0001f6e0 e\u0301 \u202e")
    store = open_store(tmp_path)
    saved = await store.save([big, kept()], [event(big, detail="\x00\uffff")])
    store.close()
    for opening in (open_readonly, open_store):
        again = opening(tmp_path)
        assert await again.all() == saved
        assert await again.history() == (event(big, detail="\x00\uffff"),)
        again.close()


async def test_sqlite_file_reopened_continues_its_serials(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (first,) = await store.save([kept()], [])
    await store.remove([first], [])
    store.close()
    store = open_store(tmp_path)
    (second,) = await store.save([kept()], [])
    store.close()
    assert second.serial > first.serial


def test_sqlite_file_closed_read_fails_with_the_fix(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreFailed, match="it is closed; open it again"):
        asyncio.run(store.all())


async def test_sqlite_file_close_waits_for_running_writes(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    writer = asyncio.create_task(store.save([kept()], []))
    await asyncio.sleep(0)
    store.close()
    saved = await writer
    store = open_store(tmp_path)
    assert await store.all() == saved
    store.close()


def test_sqlite_file_uses_wal_with_full_synchronous(tmp_path: Path) -> None:
    """SQLite in its log mode forgets acknowledged changes in a power cut unless it syncs each one."""
    connection = open_to_write(tmp_path / DATABASE_FILE, MACS)
    found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")}
    found["foreign_keys"] = connection.exec_driver_sql("PRAGMA foreign_keys").scalar()
    connection.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


async def test_sqlite_file_shared_document_is_stored_once_and_removed_with_its_last_tool(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    document = b"[" + b" " * 1_000_000 + b"]"
    first, *others = await store.save([kept(f"t{number}", document=document) for number in range(50)], [])
    (first,) = await store.save([changed(first, state="active")], [])
    store.close()
    assert (tmp_path / DATABASE_FILE).stat().st_size < 2_000_000
    store = open_store(tmp_path)
    await store.remove(others, [])
    reader = open_readonly(tmp_path)
    assert (await reader.all())[0].document == document
    reader.close()
    await store.remove([first], [])
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)


def test_sqlite_file_opening_does_not_import_alembic_or_the_orm(path: Path) -> None:
    """SQLAlchemy is loaded with the store, Alembic only when tables must be made."""
    code = (
        "import sys, pathlib, toolhall, toolhall.cli.app, toolhall.stores.common, toolhall.stores.tools\n"
        "assert 'sqlalchemy' not in sys.modules\n"
        "from toolhall.stores.sqlite import open_sqlite\n"
        "open_sqlite(pathlib.Path(sys.argv[1])).close()\n"
        "assert not {'alembic', 'sqlalchemy.orm', 'greenlet'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path.parent)], check=True, timeout=patience())


# --- damage


def damaged(whole: bytes) -> Iterator[bytes]:
    """The file after different accidents."""
    page = 4096
    yield b"not a database, but quite long for a text " * 200
    yield whole[:page] + bytes(len(whole) - page)
    yield whole[: len(whole) // 2]
    yield whole[:100] + bytes(page - 100) + whole[page:]
    yield b"\xff" * 100 + whole[100:]


@pytest.mark.parametrize("accident", range(5))
def test_sqlite_file_damaged_is_refused_and_unchanged(path: Path, accident: int) -> None:
    broken = list(damaged(path.read_bytes()))[accident]
    path.write_bytes(broken)
    assert "it is damaged; restore a backup, or move it away" in refusal(path.parent)
    assert path.read_bytes() == broken


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tools SET state = 'whatever' WHERE tool = 't50'",
        "UPDATE tools SET document = 'gone' WHERE tool = 't50'",
        "UPDATE tools SET registered_at = -1.0 WHERE tool = 't50'",
        "UPDATE tools SET by = CAST(x'ff' AS TEXT) WHERE tool = 't50'",
        "UPDATE events SET detail = '[' WHERE number = 50",
        "UPDATE events SET detail = '[]' WHERE number = 50",
        "UPDATE events SET what = 'whatever' WHERE number = 50",
    ],
)
def test_sqlite_file_with_an_invalid_row_is_refused_as_damaged(path: Path, statement: str) -> None:
    execute_sql(path, statement)
    assert "damaged" in refusal(path.parent)


async def test_sqlite_file_without_its_change_counter_is_refused_as_damaged(path: Path) -> None:
    execute_sql(path, "DELETE FROM changes")
    store = open_store(path.parent)
    with pytest.raises(StoreFailed, match="damaged"):
        await store.save([kept()], [])
    store.close()


# --- no room, no right


async def test_sqlite_file_full_disk_loses_nothing_and_recovers(path: Path) -> None:
    macs = RowMac(load_or_create_key(path.parent / ROOT_KEY_FILE))
    connection = open_to_write(path, macs)
    before = tools.select_records(connection, macs)
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 10}")
    connection.rollback()
    with pytest.raises(StoreFailed, match="the disk is full; make room, then try again"), translate_errors(path):
        tools.save_records(
            connection, [kept("small"), kept("big", document=bytes(10**6))], [event(kept("small"))], macs
        )
    assert tools.select_records(connection, macs) == before
    saved = tools.save_records(connection, [kept("small")], [], macs)
    connection.close()
    store = open_store(path.parent)
    assert {row.id for row in await store.all()} == {row.id for row in (*before, *saved)}
    assert len(await store.history(limit=1_000)) == 100
    store.close()


FILLING = """
import asyncio, resource, sys
from pathlib import Path
from tests.interfaces.tool_records import event, kept
from toolhall.stores.common import StoreFailed
from tests.interfaces.tool_stores import open_store

async def main():
    store, saved = open_store(Path(sys.argv[1])), 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    try:
        for saved in range(1_000):
            row = kept(f"t{saved}", document=bytes(20_000))
            await store.save([row, kept(f"u{saved}", document=b"%d" % saved * 5_000)], [event(row)])
    except StoreFailed as failed:
        print(saved, failed, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.save([kept("after")], [])
    print("after", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
async def test_sqlite_file_at_the_file_size_limit_loses_nothing_and_recovers(tmp_path: Path) -> None:
    """The log cannot grow; what was acknowledged stays, half a change does not, and the process lives on."""
    with child(FILLING, tmp_path) as process:
        count, said = read_line(process).split(" ", 1)
        assert read_line(process) == "after"
    saved = int(count)
    assert saved > 3
    assert said.startswith(f"{tmp_path / DATABASE_FILE}: the disk ")
    store = open_store(tmp_path)
    assert len(await store.all()) == 2 * saved + 1
    assert len(await store.history(limit=1_000)) == saved
    store.close()


async def test_sqlite_file_locked_by_another_program_fails_and_can_be_retried(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolhall.stores.sqlite._BUSY_SECONDS", 0.0)
    store = open_store(path.parent)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="another program is writing to it; close that one"):
            await store.save([kept()], [])
    await store.save([kept()], [])
    store.close()


def test_sqlite_file_without_write_permission_fails_with_the_fix(path: Path) -> None:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    with closing(connection), pytest.raises(StoreFailed, match="give this user the right"), translate_errors(path):
        connection.execute("DELETE FROM tools")


@pytest.mark.parametrize("folder", ["file", "file/below", "taken"])
def test_sqlite_file_in_an_unusable_folder_fails_with_the_fix(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / DATABASE_FILE).mkdir(parents=True)
    assert "choose another folder with --data" in refusal(tmp_path / folder)


def test_sqlite_file_in_a_folder_with_url_characters_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "a?mode=ro&x=#%41 ü"
    open_store(folder).close()
    assert (folder / DATABASE_FILE).stat().st_size > 0
    open_readonly(folder).close()
