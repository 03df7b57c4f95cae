"""Links in SQL: each method is one transaction, and a link is used up by one statement, its new code with it."""

import logging
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from toolhall.stores.accounts.base import (
    KEPT_SECONDS,
    MOST_KEPT,
    Link,
    LinkEnd,
    bound,
    claimed,
    ended,
    is_there,
    links_in_order,
    refuse_crowd,
)
from toolhall.stores.approvals.base import Clock
from toolhall.stores.approvals.onward import Onward
from toolhall.stores.base import Stale
from toolhall.stores.macs import Macs
from toolhall.stores.sql.account_tables import links
from toolhall.stores.sql.rows import rows_of
from toolhall.stores.storable import refuse_unstorable_row

_log = logging.getLogger("toolhall.store")
_TABLE = "account_links"
_COLUMNS = links.c


class Links:
    """The statements; an asynchronous engine runs the same by `run_sync`."""

    def __init__(self, macs: Macs, clock: Clock) -> None:
        self._macs = macs
        self._clock = Onward(clock)
        self._used: dict[str, float] = {}  # what is not pending any more, until it would have expired

    def find(self, connection: Connection, link_id: str) -> Link | None:
        """As it stands now, if it is as we wrote it."""
        with connection.begin():
            found = self._read(connection, _COLUMNS.id == link_id)
        return found[0] if found and is_there(found[0], self._clock()) else None

    def pending(self, connection: Connection, caller: str) -> tuple[Link, ...]:
        """The links of a caller that can still be used."""
        with connection.begin():
            return links_in_order(self._read(connection, _COLUMNS.caller == caller, _waiting(self._clock())))

    def add(self, connection: Connection, link: Link) -> None:
        """Keep a new one, if there is room."""
        now = self._clock()
        with connection.begin():
            _forget(connection, now)  # waits for every other writer
            if connection.scalar(select(_COLUMNS.id).where(_COLUMNS.id == link.id)) is not None:
                raise Stale([link.id])
            waiting, of_caller = _waiting(now), _COLUMNS.caller == link.caller
            same = self._read(connection, waiting, of_caller, _COLUMNS.user == link.user)
            refuse_crowd(same, _count(connection, waiting, of_caller), _count(connection, waiting), now)
            connection.execute(insert(links).values(**self._row(link)))

    def bind(self, connection: Connection, link_id: str, browser: str, sealed: bytes) -> Link | None:
        """Bind what is pending to a browser."""
        now = self._clock()
        with connection.begin():
            found = self._taken(connection, link_id)
            return None if found is None else self._changed(connection, found, bound(found, browser, sealed, now))

    def claim(self, connection: Connection, link_id: str, from_browser: str) -> Link | None:
        """Use up what is pending."""
        now = self._clock()
        with connection.begin():
            found = self._taken(connection, link_id)
            return None if found is None else self._changed(connection, found, claimed(found, from_browser, now))

    def end(self, connection: Connection, link_id: str, state: LinkEnd, reason: str | None) -> Link | None:
        """Say how it ended."""
        now = self._clock()
        with connection.begin():
            found = self._taken(connection, link_id)
            return None if found is None else self._changed(connection, found, ended(found, state, reason, now))

    def _taken(self, connection: Connection, link_id: str) -> Link | None:
        """What is about to change; a statement that could change something waits for every other writer."""
        connection.execute(delete(links).where(_COLUMNS.expires < 0))
        found = self._read(connection, _COLUMNS.id == link_id)
        return found[0] if found else None

    def _changed(self, connection: Connection, old: Link, new: Link | None) -> Link | None:
        """One statement: of several that change the same row at the same moment, one finds it as it was."""
        if new is None:
            return None
        refuse_unstorable_row(new)
        still = (_COLUMNS.id == old.id, _COLUMNS.mac == self._row(old)["mac"])
        if not connection.execute(update(links).where(*still).values(**self._row(new))).rowcount:
            return None
        if new.state != "pending":
            now = self._clock()
            self._used = {name: expires for name, expires in self._used.items() if expires > now}
            self._used[new.id] = new.expires
        return new

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> list[Link]:
        """The rows that are as we wrote them; the others connect nobody."""
        rows = [row for row in rows_of(connection, select(links).where(*where)) if self._is_ours(row)]
        return [msgspec.convert(row | {"scopes": msgspec.json.decode(row["scopes"])}, Link) for row in rows]

    def _is_ours(self, row: dict[str, Any]) -> bool:
        put_back = row["id"] in self._used and row["state"] == "pending"  # a copy from before is genuine, but old
        ours = self._macs.hold(_TABLE, row) and not put_back
        if not ours:
            _log.error("the link %r was changed outside Toolhall; it counts for nothing", row["id"])
        return ours

    def _row(self, link: Link) -> dict[str, Any]:
        scopes = msgspec.json.encode(link.scopes).decode()
        return self._macs.signed(_TABLE, msgspec.structs.asdict(link) | {"scopes": scopes})


def _waiting(now: float) -> ColumnElement[bool]:
    return (_COLUMNS.state == "pending") & (_COLUMNS.expires > now)


def _count(connection: Connection, *where: ColumnElement[bool]) -> int:
    return connection.execute(select(func.count()).select_from(links).where(*where)).scalar_one()


def _forget(connection: Connection, now: float) -> None:
    """What is gone goes, and of too many those that ended first."""
    unused = (_COLUMNS.state == "pending") & (_COLUMNS.expires <= now)
    connection.execute(delete(links).where(unused | (_COLUMNS.expires <= now - KEPT_SECONDS)))
    surplus = _count(connection) + 1 - MOST_KEPT
    if surplus > 0:
        over = select(_COLUMNS.id).where(_COLUMNS.state.in_(("completed", "failed")))
        first = over.order_by(_COLUMNS.expires, _COLUMNS.id).limit(surplus)
        connection.execute(delete(links).where(_COLUMNS.id.in_(first)))
