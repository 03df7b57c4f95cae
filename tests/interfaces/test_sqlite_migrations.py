"""Tables are brought up to date whole or not at all, and only by who may write."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, create_engine, insert

from tests.interfaces.approval_rows import wanted
from tests.interfaces.tool_records import kept
from tests.interfaces.tool_stores import open_readonly, open_store
from toolhall.stores import migrations
from toolhall.stores.approvals import Approval
from toolhall.stores.audit.anchors import Anchor
from toolhall.stores.common import DATABASE_FILE, StoreFailed
from toolhall.stores.crypto import ROOT_KEY_FILE, RowMac, load_or_create_key
from toolhall.stores.sql.access import grants
from toolhall.stores.sql.base import METADATA, REVISIONS, put_signed, seals, table_mac
from toolhall.stores.sql.tools import documents, tools
from toolhall.stores.sqlite import open_sqlite, open_to_write
from toolhall.stores.tools import ToolRecord

MACS = RowMac(bytes(32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a tool in it, closed."""
    store = open_store(tmp_path)
    asyncio.run(store.save([kept()], []))
    store.close()
    return tmp_path / DATABASE_FILE


def execute_sql(path: Path, statement: str) -> None:
    """Change the database file behind the store's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def refusal(folder: Path) -> str:
    """The one line with which opening it is refused."""
    with pytest.raises(StoreFailed) as raised:
        open_store(folder)
    return str(raised.value)


def test_migrations_create_the_tables_of_the_metadata(tmp_path: Path) -> None:
    connection = open_to_write(tmp_path / DATABASE_FILE, MACS)
    assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    connection.close()
    (folder,) = migrations.__path__
    steps = ScriptDirectory(folder).walk_revisions()
    assert tuple(step.revision for step in steps)[::-1] == REVISIONS


def test_migration_that_fails_leaves_the_file_unchanged(tmp_path: Path) -> None:
    execute_sql(tmp_path / DATABASE_FILE, "CREATE TABLE events (something)")  # in the way of the last step
    assert "SQLite refused: table events already exists" in refusal(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert tables == [("events",)]


async def test_migration_from_the_first_revision_signs_code_tools_once(tmp_path: Path) -> None:
    """Rows had no codes then: the operator's own get them with the tables, once; all others must be looked at again."""
    path = tmp_path / DATABASE_FILE
    _at_first_revision(path, kept("own", state="active", origin="code"), kept("other", state="active"))
    stores = open_sqlite(tmp_path)
    assert {row.tool: row.sound for row in await stores.tools.all()} == {"own": True, "other": False}
    assert (await stores.grants.all(), await stores.keys.all()) == ((), ())
    stores.close()
    execute_sql(path, "UPDATE tools SET mac = NULL")
    with closing(open_store(tmp_path)) as again:
        assert [row.sound for row in await again.all()] == [False, False]


def _at_first_revision(path: Path, *rows: ToolRecord) -> None:
    with _at_revision(path, "0001") as connection:
        for row in rows:
            digest = hashlib.sha256(row.document).hexdigest()
            connection.execute(insert(documents), {"digest": digest, "content": row.document})
            values = msgspec.structs.asdict(row) | {"id": row.id, "document": digest, "serial": 1}
            del values["sound"]
            connection.execute(insert(tools), values)


@contextmanager
def _at_revision(path: Path, revision: str) -> Generator[Connection]:
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", migrations.__path__[0])
        config.set_main_option("path_separator", "os")
        with connection.begin():
            command.upgrade(config, revision)
            yield connection
    engine.dispose()


@pytest.mark.parametrize(("taken_out", "opens"), [("nothing", True), ("forbid", False)])
async def test_migration_of_grants_renews_the_table_mac_only_if_the_old_one_is_valid(
    tmp_path: Path, taken_out: str, opens: bool
) -> None:
    """The seal of the third revision was about what forbids; where that is broken, no new one is made."""
    macs = RowMac(load_or_create_key(tmp_path / ROOT_KEY_FILE))
    plain = {"callers": "ci", "tools": "*", "conditions": "[]", "created_at": 1.0, "by": "local"}
    rows = [plain | {"id": effect, "effect": effect} for effect in ("permit", "forbid")]
    with _at_revision(tmp_path / DATABASE_FILE, "0003") as connection:
        connection.execute(insert(seals), {"name": "grants", "mac": table_mac("grants", rows[1:], macs)})
        for row in rows:
            if row["id"] != taken_out:
                put_signed(connection, grants, row, macs)
    with closing(open_sqlite(tmp_path)) as stores:
        if opens:
            assert [each.id for each in await stores.grants.all()] == ["forbid", "permit"]
        else:
            with pytest.raises(StoreFailed, match="removed or restored"):
                await stores.grants.all()


@pytest.mark.parametrize("sound", [True, False])
@pytest.mark.parametrize(("revision", "added"), [("0005", ("code_sha256", "reason")), ("0006", ("reason",))])
async def test_migration_of_approvals_signs_only_rows_with_a_valid_mac(
    tmp_path: Path, sound: bool, revision: str, added: tuple[str, ...]
) -> None:
    """Those that were sound are signed anew with the new columns; those that were not stay away."""
    macs = RowMac(load_or_create_key(tmp_path / ROOT_KEY_FILE))
    asked = Approval(**msgspec.structs.asdict(wanted()), id="a1", created=1.0, expires=2.0)
    row = {name: value for name, value in msgspec.structs.asdict(asked).items() if name not in added}
    old = Table("approvals", MetaData(), *(Column(name) for name in (*row, "mac")))
    with _at_revision(tmp_path / DATABASE_FILE, revision) as connection:
        connection.execute(insert(old), macs.with_mac("approvals", row) if sound else {**row, "mac": b"forged"})
    with closing(open_sqlite(tmp_path)) as stores:
        found = await stores.approvals.find("a1")
        assert (found is not None) is sound
        assert revision != "0005" or stores.anchors.read() == Anchor()


def test_migration_of_a_file_of_a_newer_version_is_refused(path: Path) -> None:
    execute_sql(path, "UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    assert "written by a newer Toolhall (its tables have revision 9999" in refusal(path.parent)
    with pytest.raises(StoreFailed, match="newer Toolhall"):
        open_readonly(path.parent)
    assert path.read_bytes() == before


def test_migration_by_a_reader_is_refused_with_the_fix(path: Path) -> None:
    execute_sql(path, "DELETE FROM alembic_version")
    with pytest.raises(StoreFailed, match="written by an older Toolhall; start `toolhall serve` on it once"):
        open_readonly(path.parent)
