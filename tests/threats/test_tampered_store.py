# ruff: noqa: N802 - tests carry the names of their rows
"""Whoever writes to the file of a hall, but has not its key, cannot change what a row says; see test_put_back.py."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.http.api.management_client import PICK, activated, definition, manage, place, registered
from toolhall import Config, Toolhall
from toolhall.app.data_dir import OpenOptions
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.common import DATABASE_FILE, StoreFailed
from toolhall.stores.crypto import ROOT_KEY_FILE

NOW = 1.0
COPIED = """
INSERT INTO grants SELECT 'g_bob', effect, 'bob', tools, conditions, created_at, by, mac FROM grants
WHERE callers = 'alice'
"""


def hall_in(folder: Path) -> Toolhall:
    return Toolhall(config=Config(data=str(folder)))


def alter_database(folder: Path, statement: str, *values: object) -> None:
    """An insider with a SQL shell."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection, connection:
        assert connection.execute(statement, values).rowcount == 1


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A hall that stopped: Alice may call everything, one tool is forbidden to all, and one waits for a person."""
    with hall_in(tmp_path) as hall:
        await hall.open()
        await hall.access.grants.add(NewGrant("alice", "*"), "local")
        await hall.access.grants.add(NewGrant("*", "Kit.wipe", "forbid"), "local")
        await registered(hall, definition())
    return tmp_path


@pytest.mark.threat("J7")
async def test_J7_grant_copied_to_another_caller_by_sql_is_ignored_and_logged(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Alice's grant, copied to Bob by SQL, is left out, and the log says so."""
    alter_database(folder, COPIED)
    with caplog.at_level(logging.ERROR), hall_in(folder) as hall:
        await hall.open()
        permits = {grant.callers for grant in hall.access.grants.all if grant.effect == "permit"}
    assert permits == {"alice"}
    assert "is left out: another program changed it" in caplog.text


@pytest.mark.threat("J7")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE grants SET callers = 'bob' WHERE callers = 'alice'",
        "UPDATE grants SET callers = '*', created_at = created_at + 1 WHERE callers = 'alice'",
        "DELETE FROM grants WHERE callers = 'alice'",
        "UPDATE grants SET tools = 'Nothing' WHERE effect = 'forbid'",
        "UPDATE grants SET effect = 'permit' WHERE effect = 'forbid'",
        "DELETE FROM grants WHERE effect = 'forbid'",
        "DELETE FROM seals",
    ],
)
async def test_J7_grant_changed_or_deleted_by_sql_keeps_the_hall_from_opening(folder: Path, statement: str) -> None:
    """A grant that was changed or deleted by SQL keeps the hall from opening, and the message says what to do."""
    alter_database(folder, statement)
    with hall_in(folder) as hall, pytest.raises(StoreFailed, match="changed, removed or restored") as raised:
        await hall.open()
    assert "restore a backup" in str(raised.value)
    assert hall.access.grants.all == ()


@pytest.mark.threat("J7")
@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE api_keys SET scopes = '["admin"]'""",
        "UPDATE api_keys SET name = 'alice'",
        "UPDATE api_keys SET expires_at = NULL",
        "UPDATE api_keys SET owner = 'ada'",
        "UPDATE api_keys SET revoked_at = 1.0",
        "UPDATE api_keys SET digest = zeroblob(32)",
        "UPDATE api_keys SET mac = zeroblob(32)",
        "UPDATE api_keys SET id = 'aaaaaaaaaaaa'",
    ],
)
async def test_J7_api_key_changed_by_sql_is_ignored(folder: Path, statement: str) -> None:
    """Whatever is changed in the row of a key by SQL, the key is left out."""
    with hall_in(folder) as hall:
        await hall.open()
        _, secret = await hall.access.keys.create(NewKey("bob"), "local")
        assert hall.access.ring.find(secret, NOW) is not None
    alter_database(folder, statement)
    with hall_in(folder) as hall:
        await hall.open()
        assert (hall.access.keys.all, hall.access.ring.find(secret, NOW)) == ((), None)


@pytest.mark.threat("J7")
async def test_J7_api_key_whose_revocation_was_erased_by_sql_is_refused(folder: Path) -> None:
    """A key whose row says by SQL that it was never revoked opens nothing."""
    with hall_in(folder) as hall:
        await hall.open()
        key, secret = await hall.access.keys.create(NewKey("bob"), "local")
        await hall.access.keys.revoke(key.id)
    alter_database(folder, "UPDATE api_keys SET revoked_at = NULL")
    with hall_in(folder) as hall:
        await hall.open()
        assert hall.access.ring.find(secret, NOW) is None


@pytest.mark.threat("J7")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tools SET state = 'active'",
        "UPDATE tools SET state = 'active', mac = NULL",
        "UPDATE tools SET state = 'inactive'",
        "UPDATE documents SET content = CAST('{}' AS BLOB)",
    ],
)
async def test_J7_tool_activated_by_sql_is_quarantined_with_the_reason_in_its_history(
    folder: Path, statement: str
) -> None:
    """A tool that nobody has looked at is not served, whatever state its row was given; its history says why."""
    alter_database(folder, statement)
    for _ in range(2):  # also after it was seen once
        with hall_in(folder) as hall:
            await hall.open()
            found = (await manage(hall, "GET", place(PICK))).body
            assert (found["state"], found["served"]) == ("quarantined", False)
            events = (await manage(hall, "GET", place(PICK, "history"))).body["events"]
            assert (events[0]["what"], events[0]["detail"]) == (
                "quarantined",
                {"reason": "it was changed in the store"},
            )
    with hall_in(folder) as hall:
        await hall.open()
        await activated(hall, PICK)


@pytest.mark.threat("J7")
async def test_J7_read_only_process_quarantines_a_tool_activated_by_sql(folder: Path) -> None:
    """A process that shares the folder read-only quarantines the same, though it cannot write that down."""
    with hall_in(folder) as writer, hall_in(folder) as reader:
        await writer.open()
        alter_database(folder, "UPDATE tools SET state = 'active'")
        await reader.open(OpenOptions(allow_readonly=True))
        assert reader.registration.find(PICK).state == "quarantined"
        assert not reader.registration.is_served(reader.registration.find(PICK))


@pytest.mark.threat("J7")
async def test_J7_database_with_another_root_key_is_not_opened(folder: Path) -> None:
    """A file that was brought from elsewhere, or whose key is gone, opens nothing and says so."""
    (folder / ROOT_KEY_FILE).unlink()
    with hall_in(folder) as hall, pytest.raises(StoreFailed, match=r"state\.key was replaced"):
        await hall.open()
