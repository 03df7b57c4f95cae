"""Accounts in SQL: each method is one transaction, and a row is changed by one statement that names what it was."""

import logging
import time
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from toolhall.stores.accounts.base import NEW, Account, Link, LinkEnd, in_order
from toolhall.stores.approvals.base import Clock
from toolhall.stores.macs import Macs
from toolhall.stores.sql.account_links import Links
from toolhall.stores.sql.account_tables import accounts
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.rows import rows_of
from toolhall.stores.storable import refuse_unstorable_row

_log = logging.getLogger("toolhall.store")
_TABLE = "accounts"


class SqlAccounts:
    """The store of accounts and links; a row that somebody else wrote is not there."""

    def __init__(self, database: Database, macs: Macs, clock: Clock = time.time) -> None:
        self._database = database
        self._rows = Accounts(macs)
        self._links = Links(macs, clock)

    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        """Every account of a user, or of everybody, the oldest first."""
        return await self._database.run(self._rows.all, user)

    async def find(self, user: str, provider: str) -> Account | None:
        """The one that a user has at a provider."""
        return await self._database.run(self._rows.find, user, provider)

    async def get(self, account_id: str) -> Account | None:
        """The one with this id."""
        return await self._database.run(self._rows.get, account_id)

    async def save(self, account: Account, serial: int) -> Account | None:
        """Keep it in place of what had this serial, and return it with its next serial; None if that is stale."""
        kept = msgspec.structs.replace(account, serial=serial + 1)
        refuse_unstorable_row(kept)
        return await self._database.run(self._rows.save, kept)

    async def remove(self, account_id: str) -> bool:
        """Forget it; False if there is none."""
        return await self._database.run(self._rows.remove, account_id)

    async def link_find(self, link_id: str) -> Link | None:
        """As it stands now; what nobody used in time is not there."""
        return await self._database.run(self._links.find, link_id)

    async def link_pending(self, caller: str) -> tuple[Link, ...]:
        """The links of a caller that can still be used, the oldest first."""
        return await self._database.run(self._links.pending, caller)

    async def link_add(self, link: Link) -> None:
        """Keep a new one; raises Stale if its id is taken, NotNow if too many wait already."""
        refuse_unstorable_row(link)
        await self._database.run(self._links.add, link)

    async def link_bind(self, link_id: str, browser: str, sealed: bytes) -> Link | None:
        """Bind what is pending to the browser in which the person agreed; None if it is not pending."""
        return await self._database.run(self._links.bind, link_id, browser, sealed)

    async def link_claim(self, link_id: str, from_browser: str) -> Link | None:
        """Use up what is pending, once; None if it no longer is, or if it was bound to another browser."""
        return await self._database.run(self._links.claim, link_id, from_browser)

    async def link_end(self, link_id: str, state: LinkEnd, reason: str | None = None) -> Link | None:
        """Say how it ended; None if it cannot end like this any more."""
        return await self._database.run(self._links.end, link_id, state, reason)


class Accounts:
    """The statements; an asynchronous engine runs the same by `run_sync`."""

    def __init__(self, macs: Macs) -> None:
        self._macs = macs

    def all(self, connection: Connection, user: str | None) -> tuple[Account, ...]:
        """Every account of a user, or of everybody, as far as it is as we wrote it."""
        with connection.begin():
            return in_order(self._read(connection, *(() if user is None else (accounts.c.user == user,))))

    def find(self, connection: Connection, user: str, provider: str) -> Account | None:
        """The one that a user has at a provider, if it is as we wrote it."""
        with connection.begin():
            found = self._read(connection, accounts.c.user == user, accounts.c.provider == provider)
        return found[0] if found else None

    def get(self, connection: Connection, account_id: str) -> Account | None:
        """The one with this id, if it is as we wrote it."""
        with connection.begin():
            found = self._read(connection, accounts.c.id == account_id)
        return found[0] if found else None

    def save(self, connection: Connection, kept: Account) -> Account | None:
        """Keep it in place of what had the serial before its own."""
        row = self._macs.signed(_TABLE, _row(kept))
        same_place = (accounts.c.user == kept.user) & (accounts.c.provider == kept.provider)
        with connection.begin():
            _wait_for_others(connection)
            there = self._read(connection, (accounts.c.id == kept.id) | same_place)
            seen = kept.serial - 1
            if {each.id: each.serial for each in there} != ({} if seen == NEW else {kept.id: seen}):
                return None
            if seen == NEW:
                # What is in the way all the same was changed outside; it must not keep its place for ever.
                connection.execute(delete(accounts).where((accounts.c.id == kept.id) | same_place))
                connection.execute(insert(accounts).values(**row))
                return kept
            # One statement: of several that have seen the same serial, one finds it still there.
            still = (accounts.c.id == kept.id, accounts.c.serial == seen)
            return kept if connection.execute(update(accounts).where(*still).values(**row)).rowcount else None

    def remove(self, connection: Connection, account_id: str) -> bool:
        """Forget it."""
        with connection.begin():
            return connection.execute(delete(accounts).where(accounts.c.id == account_id)).rowcount > 0

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> list[Account]:
        """The rows that are as we wrote them; with the others nobody is connected."""
        rows = [row for row in rows_of(connection, select(accounts).where(*where)) if self._is_ours(row)]
        return [msgspec.convert(row | {"scopes": msgspec.json.decode(row["scopes"])}, Account) for row in rows]

    def _is_ours(self, row: dict[str, Any]) -> bool:
        ours = self._macs.hold(_TABLE, row)
        if not ours:
            _log.error("the account %r was changed outside Toolhall; it counts for nothing", row["id"])
        return ours


def _row(account: Account) -> dict[str, Any]:
    return msgspec.structs.asdict(account) | {"scopes": msgspec.json.encode(account.scopes).decode()}


def _wait_for_others(connection: Connection) -> None:
    """A statement that could change something waits for every other writer; what is read after it stays so."""
    connection.execute(delete(accounts).where(accounts.c.serial < 0))
