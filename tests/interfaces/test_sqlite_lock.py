"""The lock of the SQLite file: one process writes, any may read, and a dead process releases it."""

import os
import sys
from pathlib import Path

import pytest

from tests.interfaces.child_processes import HOLDING, child, read_line
from tests.interfaces.tool_records import changed, event, kept
from tests.interfaces.tool_stores import open_readonly, open_store
from toolhall.stores.common import DATABASE_FILE, InUse, StoreFailed
from toolhall.stores.crypto import ROOT_KEY_FILE
from toolhall.stores.file_lock import LOCK_NAME
from toolhall.stores.sqlite import open_to_read


def test_sqlite_lock_second_process_is_refused_with_the_fix(tmp_path: Path) -> None:
    with child(HOLDING, tmp_path) as process:
        pid = int(read_line(process))
        with pytest.raises(InUse) as raised:
            open_store(tmp_path)
    assert raised.value.pid == pid == process.pid
    assert str(raised.value) == (
        f"{tmp_path} is in use by process {pid}; stop that one, ask it by --url, or choose another folder with --data"
    )


def test_sqlite_lock_second_store_in_the_same_process_is_refused(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    for _ in range(2):  # being refused does not free it either
        with pytest.raises(InUse, match=rf"in use by this process \({os.getpid()}\)"):
            open_store(tmp_path)
    first.close()
    open_store(tmp_path).close()


def test_sqlite_lock_without_a_process_id_refuses_as_well(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (tmp_path / LOCK_NAME).write_bytes(b"")
    with pytest.raises(InUse, match="in use by another process") as raised:
        open_store(tmp_path)
    assert raised.value.pid is None
    store.close()


async def test_sqlite_lock_of_a_killed_process_is_released(tmp_path: Path) -> None:
    for _ in range(2):
        with child(HOLDING, tmp_path) as process:
            assert int(read_line(process)) == process.pid
            process.kill()
            process.wait()
        store = open_store(tmp_path)
        assert [row.id for row in await store.all()] == ["Kit.pick@1.0.0"]
        store.close()


FORKING = """
import os, sys
from pathlib import Path
from tests.interfaces.tool_stores import open_store

store = open_store(Path(sys.argv[1]))
if os.fork() == 0:
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_sqlite_lock_is_not_kept_by_a_forked_child(tmp_path: Path) -> None:
    """A tool may fork a worker that outlives a killed server for a while."""
    with child(FORKING, tmp_path) as process:
        forked = int(read_line(process))
        process.wait()
        os.kill(forked, 0)  # it lives
        open_store(tmp_path).close()


async def test_sqlite_reader_sees_writes_of_another_process(tmp_path: Path) -> None:
    with child(HOLDING, tmp_path) as process:
        read_line(process)
        reader = open_readonly(tmp_path)
        assert [row.tool for row in await reader.all()] == ["pick"]
        assert [each.what for each in await reader.history()] == ["registered"]
        process.kill()
        process.wait()
        assert [row.tool for row in await reader.all()] == ["pick"]  # what is only in the log file yet
        reader.close()
    reader = open_readonly(tmp_path)
    assert [row.tool for row in await reader.all()] == ["pick"]
    reader.close()


async def test_sqlite_reader_does_not_block_the_writer(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    reader = open_readonly(tmp_path)
    (saved,) = await store.save([kept()], [])
    assert await reader.all() == (saved,)
    (saved,) = await store.save([changed(saved, state="active")], [event(saved, "activated")])
    assert await reader.all() == (saved,)
    store.close()
    assert await reader.all() == (saved,)
    reader.close()


def test_sqlite_reader_cannot_write(tmp_path: Path) -> None:
    open_store(tmp_path).close()
    connection = open_to_read(tmp_path / DATABASE_FILE)
    with pytest.raises(Exception, match="readonly database"), connection.begin():
        connection.exec_driver_sql("UPDATE changes SET last = 7")
    connection.close()


def test_sqlite_reader_without_a_database_fails_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=rf"{DATABASE_FILE}: there is no database yet; start `toolhall serve` once"):
        open_readonly(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
async def test_sqlite_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = open_store(tmp_path / "new" / "data")
        await store.save([kept()], [])
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (tmp_path / "new" / "data").iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(
        [DATABASE_FILE, f"{DATABASE_FILE}-wal", f"{DATABASE_FILE}-shm", LOCK_NAME, ROOT_KEY_FILE], "0o600"
    )
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="this system follows links")
@pytest.mark.parametrize("name", [DATABASE_FILE, LOCK_NAME])
def test_sqlite_files_that_are_symlinks_are_refused(tmp_path: Path, name: str) -> None:
    """Nobody who may write into the folder can have a file of somebody else truncated."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(StoreFailed):
        open_store(tmp_path)
    assert victim.read_text() == "precious"
