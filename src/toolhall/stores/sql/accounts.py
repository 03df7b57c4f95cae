"""SqlAccountStore: tables and statements of linked accounts and of the links that connect them.

Each method is one transaction. A row is changed by one UPDATE that names its previous serial or MAC, so that of several
concurrent writers exactly one succeeds.
"""

import logging
import time
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Index,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from toolhall.stores.accounts import (
    MAX_STORED_LINKS,
    NEW,
    RETENTION_SECONDS,
    Account,
    AccountLink,
    LinkOutcome,
    as_claimed,
    as_ended,
    bound_to_browser,
    check_link_limits,
    is_retained,
    sort_accounts,
    sort_links,
)
from toolhall.stores.common import Clock, MonotonicClock, Stale, check_storable
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, SERIAL, TIMESTAMP, SqlDatabase, fetch_rows

accounts = Table(
    "accounts",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("expires_at", TIMESTAMP),
    Column("state", Text, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("refreshed_at", TIMESTAMP),
    Column("serial", SERIAL, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Index("ix_accounts_user_provider", "user", "provider", unique=True),
    sqlite_strict=True,
)
account_links = Table(
    "account_links",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("caller", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("issuer", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("tool", Text),
    Column("sealed", LargeBinary, nullable=False),
    Column("browser", Text, nullable=False),
    Column("how", Text, nullable=False),
    Column("created", TIMESTAMP, nullable=False),
    Column("expires", TIMESTAMP, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("mac", LargeBinary, nullable=False),
    Index("ix_account_links_caller_state", "caller", "state"),
    Index("ix_account_links_state_expires", "state", "expires"),
    sqlite_strict=True,
)
_log = logging.getLogger("toolhall.store")
_LINKS_TABLE = "account_links"
_LINK_COLUMNS = account_links.c
_ACCOUNTS_TABLE = "accounts"


class LinkStatements:
    """The transactions, each on a synchronous connection; an asynchronous engine would run them by `run_sync`."""

    def __init__(self, macs: RowMac, clock: Clock) -> None:
        self._macs = macs
        self._clock = MonotonicClock(clock)
        self._finished: dict[str, float] = {}  # links that this process claimed or ended, until they expire

    def find(self, connection: Connection, link_id: str) -> AccountLink | None:
        """Return the link, if it is authentic and retained."""
        with connection.begin():
            found = self._read(connection, _LINK_COLUMNS.id == link_id)
        return found[0] if found and is_retained(found[0], self._clock()) else None

    def pending(self, connection: Connection, caller: str) -> tuple[AccountLink, ...]:
        """Return a caller's links that can still be used."""
        with connection.begin():
            return sort_links(self._read(connection, _LINK_COLUMNS.caller == caller, _is_pending(self._clock())))

    def add(self, connection: Connection, link: AccountLink) -> None:
        """Insert a link if the limits allow it."""
        now = self._clock()
        with connection.begin():
            _prune_links(connection, now)  # also takes the write lock
            if connection.scalar(select(_LINK_COLUMNS.id).where(_LINK_COLUMNS.id == link.id)) is not None:
                raise Stale([link.id])
            waiting, of_caller = _is_pending(now), _LINK_COLUMNS.caller == link.caller
            same = self._read(connection, waiting, of_caller, _LINK_COLUMNS.user == link.user)
            check_link_limits(
                same, _count_links(connection, waiting, of_caller), _count_links(connection, waiting), now
            )
            connection.execute(insert(account_links).values(**self._row(link)))

    def bind(self, connection: Connection, link_id: str, browser: str, sealed: bytes) -> AccountLink | None:
        """Bind a pending link to a browser."""
        now = self._clock()
        with connection.begin():
            found = self._read_for_update(connection, link_id)
            return (
                None
                if found is None
                else self._update(connection, found, bound_to_browser(found, browser, sealed, now))
            )

    def claim(self, connection: Connection, link_id: str, from_browser: str) -> AccountLink | None:
        """Claim a pending link."""
        now = self._clock()
        with connection.begin():
            found = self._read_for_update(connection, link_id)
            return None if found is None else self._update(connection, found, as_claimed(found, from_browser, now))

    def end(self, connection: Connection, link_id: str, state: LinkOutcome, reason: str | None) -> AccountLink | None:
        """End a link."""
        now = self._clock()
        with connection.begin():
            found = self._read_for_update(connection, link_id)
            return None if found is None else self._update(connection, found, as_ended(found, state, reason, now))

    def _read_for_update(self, connection: Connection, link_id: str) -> AccountLink | None:
        """Take the write lock by a statement that matches no row, then return the link."""
        connection.execute(delete(account_links).where(_LINK_COLUMNS.expires < 0))
        found = self._read(connection, _LINK_COLUMNS.id == link_id)
        return found[0] if found else None

    def _update(self, connection: Connection, old: AccountLink, new: AccountLink | None) -> AccountLink | None:
        """Update by one statement that names the old MAC, so that of concurrent updates exactly one succeeds."""
        if new is None:
            return None
        check_storable(new)
        still = (_LINK_COLUMNS.id == old.id, _LINK_COLUMNS.mac == self._row(old)["mac"])
        if not connection.execute(update(account_links).where(*still).values(**self._row(new))).rowcount:
            return None
        if new.state != "pending":
            now = self._clock()
            self._finished = {name: expires for name, expires in self._finished.items() if expires > now}
            self._finished[new.id] = new.expires
        return new

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> list[AccountLink]:
        """Return the links of authentic rows; the others are ignored."""
        rows = [row for row in fetch_rows(connection, select(account_links).where(*where)) if self._is_authentic(row)]
        return [msgspec.convert(row | {"scopes": msgspec.json.decode(row["scopes"])}, AccountLink) for row in rows]

    def _is_authentic(self, row: dict[str, Any]) -> bool:
        restored = (
            row["id"] in self._finished and row["state"] == "pending"
        )  # a restored older copy has a right MAC, too
        ours = self._macs.verify(_LINKS_TABLE, row) and not restored
        if not ours:
            _log.error("the link %r was changed outside Toolhall; it counts for nothing", row["id"])
        return ours

    def _row(self, link: AccountLink) -> dict[str, Any]:
        scopes = msgspec.json.encode(link.scopes).decode()
        return self._macs.with_mac(_LINKS_TABLE, msgspec.structs.asdict(link) | {"scopes": scopes})


def _is_pending(now: float) -> ColumnElement[bool]:
    return (_LINK_COLUMNS.state == "pending") & (_LINK_COLUMNS.expires > now)


def _count_links(connection: Connection, *where: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).select_from(account_links).where(*where)).scalar_one()


def _prune_links(connection: Connection, now: float) -> None:
    """Delete links past their retention, and above the limit those that ended first."""
    unused = (_LINK_COLUMNS.state == "pending") & (_LINK_COLUMNS.expires <= now)
    connection.execute(delete(account_links).where(unused | (_LINK_COLUMNS.expires <= now - RETENTION_SECONDS)))
    surplus = _count_links(connection) + 1 - MAX_STORED_LINKS
    if surplus > 0:
        over = select(_LINK_COLUMNS.id).where(_LINK_COLUMNS.state.in_(("completed", "failed")))
        first = over.order_by(_LINK_COLUMNS.expires, _LINK_COLUMNS.id).limit(surplus)
        connection.execute(delete(account_links).where(_LINK_COLUMNS.id.in_(first)))


class SqlAccountStore:
    """Linked accounts and links in SQL; a row that another program wrote is ignored."""

    def __init__(self, database: SqlDatabase, macs: RowMac, clock: Clock = time.time) -> None:
        self._database = database
        self._accounts = AccountStatements(macs)
        self._links = LinkStatements(macs, clock)

    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        """Return the accounts of a user, or all accounts, oldest first."""
        return await self._database.run(self._accounts.all, user)

    async def find(self, user: str, provider: str) -> Account | None:
        """Return the user's account at a provider."""
        return await self._database.run(self._accounts.find, user, provider)

    async def get(self, account_id: str) -> Account | None:
        """Return the account with this id."""
        return await self._database.run(self._accounts.get, account_id)

    async def save(self, account: Account, serial: int) -> Account | None:
        """Replace the account with this serial and return it with the next serial; None if the serial is stale."""
        saved = msgspec.structs.replace(account, serial=serial + 1)
        check_storable(saved)
        return await self._database.run(self._accounts.save, saved)

    async def remove(self, account_id: str) -> bool:
        """Remove it; False if there is none."""
        return await self._database.run(self._accounts.remove, account_id)

    async def find_link(self, link_id: str) -> AccountLink | None:
        """Return the link; None if it expired unused."""
        return await self._database.run(self._links.find, link_id)

    async def pending_links(self, caller: str) -> tuple[AccountLink, ...]:
        """Return a caller's links that can still be used, oldest first."""
        return await self._database.run(self._links.pending, caller)

    async def add_link(self, link: AccountLink) -> None:
        """Insert a link; raises Stale if its id is taken, CoolingDown if too many are pending."""
        check_storable(link)
        await self._database.run(self._links.add, link)

    async def bind_link(self, link_id: str, browser: str, sealed: bytes) -> AccountLink | None:
        """Bind a pending link to the browser in which the user agreed; None if it is not pending."""
        return await self._database.run(self._links.bind, link_id, browser, sealed)

    async def claim_link(self, link_id: str, from_browser: str) -> AccountLink | None:
        """Claim a pending link, once; None if it is not pending or is bound to another browser."""
        return await self._database.run(self._links.claim, link_id, from_browser)

    async def end_link(self, link_id: str, state: LinkOutcome, reason: str | None = None) -> AccountLink | None:
        """End a link; None if it cannot end like this any more."""
        return await self._database.run(self._links.end, link_id, state, reason)


class AccountStatements:
    """The transactions, each on a synchronous connection; an asynchronous engine would run them by `run_sync`."""

    def __init__(self, macs: RowMac) -> None:
        self._macs = macs

    def all(self, connection: Connection, user: str | None) -> tuple[Account, ...]:
        """Return the authentic accounts of a user, or all of them."""
        with connection.begin():
            return sort_accounts(self._read(connection, *(() if user is None else (accounts.c.user == user,))))

    def find(self, connection: Connection, user: str, provider: str) -> Account | None:
        """Return the user's account at a provider, if it is authentic."""
        with connection.begin():
            found = self._read(connection, accounts.c.user == user, accounts.c.provider == provider)
        return found[0] if found else None

    def get(self, connection: Connection, account_id: str) -> Account | None:
        """Return the row with this id, if it is authentic."""
        with connection.begin():
            found = self._read(connection, accounts.c.id == account_id)
        return found[0] if found else None

    def save(self, connection: Connection, account: Account) -> Account | None:
        """Replace the account with the previous serial, or insert a new one."""
        row = self._macs.with_mac(_ACCOUNTS_TABLE, _account_row(account))
        same_place = (accounts.c.user == account.user) & (accounts.c.provider == account.provider)
        with connection.begin():
            _lock_for_write(connection)
            there = self._read(connection, (accounts.c.id == account.id) | same_place)
            seen = account.serial - 1
            if {each.id: each.serial for each in there} != ({} if seen == NEW else {account.id: seen}):
                return None
            if seen == NEW:
                # A remaining row has a wrong MAC: another program changed it, and it must not block the user for ever.
                connection.execute(delete(accounts).where((accounts.c.id == account.id) | same_place))
                connection.execute(insert(accounts).values(**row))
                return account
            # One conditional statement: of concurrent writers with the same serial, exactly one succeeds.
            still = (accounts.c.id == account.id, accounts.c.serial == seen)
            return account if connection.execute(update(accounts).where(*still).values(**row)).rowcount else None

    def remove(self, connection: Connection, account_id: str) -> bool:
        """Remove it."""
        with connection.begin():
            return connection.execute(delete(accounts).where(accounts.c.id == account_id)).rowcount > 0

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> list[Account]:
        """Return the accounts of authentic rows; the others are ignored."""
        rows = [row for row in fetch_rows(connection, select(accounts).where(*where)) if self._is_authentic(row)]
        return [msgspec.convert(row | {"scopes": msgspec.json.decode(row["scopes"])}, Account) for row in rows]

    def _is_authentic(self, row: dict[str, Any]) -> bool:
        ours = self._macs.verify(_ACCOUNTS_TABLE, row)
        if not ours:
            _log.error("the account %r was changed outside Toolhall; it counts for nothing", row["id"])
        return ours


def _account_row(account: Account) -> dict[str, Any]:
    return msgspec.structs.asdict(account) | {"scopes": msgspec.json.encode(account.scopes).decode()}


def _lock_for_write(connection: Connection) -> None:
    """Take the write lock by a statement that matches no row; rows read after it cannot change meanwhile."""
    connection.execute(delete(accounts).where(accounts.c.serial < 0))
