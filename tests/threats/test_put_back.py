# ruff: noqa: N802 - tests carry the names of their rows
"""A row that the hall wrote itself, copied and put back later, is old: whoever saw it change does not believe it."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.web.browser_client import ApprovalHall, Browser
from toolhall import Config, Toolhall
from toolhall.model.errors import NeedsVerification
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.approvals import Decision
from toolhall.stores.common import DATABASE_FILE, StoreFailed

YES = Decision("approved", "local", "totp")
NOW = 1.0


class TableBackup:
    """All rows of a table as they were, to be put back."""

    def __init__(self, folder: Path, table: str) -> None:
        self._file, self._table = folder / DATABASE_FILE, table
        self._rows: list[tuple[Any, ...]] = []

    async def take(self) -> None:
        await asyncio.to_thread(self._take)

    async def restore(self) -> None:
        await asyncio.to_thread(self._restore)

    def _take(self) -> None:
        with closing(sqlite3.connect(self._file)) as connection:
            self._rows = connection.execute(f"SELECT * FROM {self._table}").fetchall()
        assert self._rows

    def _restore(self) -> None:
        marks = ",".join("?" * len(self._rows[0]))
        with closing(sqlite3.connect(self._file)) as connection, connection:
            connection.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES ({marks})", self._rows)


@pytest.mark.threat("J7")
async def test_J7_consumed_approval_row_restored_by_sql_runs_no_second_call(tmp_path: Path) -> None:
    """The row of an approval, copied before the call and put back after it, lets no second call run."""
    house, backup = ApprovalHall(Config(data=str(tmp_path))), TableBackup(tmp_path, "approvals")
    with house.hall:
        await house.hall.open()
        path = await house.ask("burn")
        assert await house.hall.approval_components.approvals.store.decide(path.rpartition("/")[2], YES)
        await backup.take()
        assert await house.call("burn") == b'"burn attic"'
        await backup.restore()
        assert isinstance(await house.call("burn"), NeedsVerification)
        assert (await Browser(house.hall).get(path)).status == 404
        assert house.ran == [("burn", "attic")]


@pytest.mark.threat("C8")
@pytest.mark.threat("J7")
async def test_C8_J7_authenticator_row_restored_by_sql_does_not_accept_a_used_code(tmp_path: Path) -> None:
    """The row of an authenticator from before its code was used does not make the code good again."""
    house, backup = ApprovalHall(Config(data=str(tmp_path))), TableBackup(tmp_path, "factors")
    with house.hall:
        await house.hall.open()
        code = (await house.generator("local")).code()
        first, second = await house.ask("burn", room="1"), await house.ask("burn", room="2")
        browser = Browser(house.hall)
        await backup.take()
        assert "Approved" in (await browser.act(first, "approve", code=code)).text
        await backup.restore()
        place = f"/api/approvals/{second.rpartition('/')[2]}/approve"
        assert (await browser.api("POST", place, {"code": code}))[0] == 403
        assert (await house.approval(second)).state == "pending"


@pytest.mark.threat("J7")
async def test_J7_removed_authenticator_or_used_invitation_restored_by_sql_is_refused(tmp_path: Path) -> None:
    """The row of one that was removed, put back, proves nobody; nor does an invitation invite twice."""
    house, backup = ApprovalHall(Config(data=str(tmp_path))), TableBackup(tmp_path, "factors")
    with house.hall:
        await house.hall.open()
        await house.generator("local")
        factors = house.hall.approval_components.factors
        word, _ = await factors.invite("ann", "local")
        await backup.take()
        for each in await factors.factors_of("local"):
            assert await factors.store.remove(each.id)
        invitation = await factors.invitation(word)
        assert invitation is not None
        assert await factors.add_passkey(invitation, b"key", 0)
        await backup.restore()
        assert (await factors.factors_of("local"), await factors.invitation(word)) == ((), None)
        assert await factors.add_passkey(invitation, b"key", 0) is None


@pytest.mark.threat("J7")
async def test_J7_revoked_api_key_restored_by_sql_stays_revoked_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that saw a key revoked never takes it again, whatever it reads later; the log says so."""
    backup = TableBackup(tmp_path, "api_keys")
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        key, secret = await hall.access.keys.create(NewKey("bob"), "local")
        await backup.take()
        await hall.access.keys.revoke(key.id)
        await backup.restore()
        with caplog.at_level(logging.ERROR):
            await hall.access.keys.reload()
        assert hall.access.ring.find(secret, NOW) is None
    assert f"the key {key.id} was revoked" in caplog.text


@pytest.mark.threat("J7")
async def test_J7_removed_grant_restored_by_sql_keeps_the_hall_from_opening(tmp_path: Path) -> None:
    """A permit that somebody puts back by SQL keeps the hall from opening, and the message says what to do."""
    backup = TableBackup(tmp_path, "grants")
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        await hall.open()
        permit = await hall.access.grants.add(NewGrant("bob", "*"), "local")
        await backup.take()
        await hall.access.grants.remove(permit.id)
        await backup.restore()
    with Toolhall(config=Config(data=str(tmp_path))) as hall:
        with pytest.raises(StoreFailed, match="removed or restored") as raised:
            await hall.open()
        assert hall.access.grants.all == ()
    assert "restore a backup" in str(raised.value)
