"""Rows with a code over their columns: written with it, and left out where it is wrong."""

import hmac
import logging
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select, update

from toolhall.stores.macs import COLUMN, Macs
from toolhall.stores.sql.approval_tables import approvals
from toolhall.stores.sql.rows import rows_of
from toolhall.stores.sql.tables import audit_anchors, grants, seals, tools

_log = logging.getLogger("toolhall.stores")
_UNSIGNED = "0001"  # the revision before there were codes
_FORBIDS_SEALED = ("0002", "0003")  # those whose seal was not about what permits

_UNANCHORED = (None, "0001", "0002", "0003", "0004", "0005")  # those that knew nothing of the audit
ANCHOR = "audit"  # the id of the one row about it


def read_signed(connection: Connection, table: Table, macs: Macs) -> list[dict[str, Any]]:
    """The rows that one of our own wrote, without their codes; all others are logged and left out."""
    return read_parted(connection, table, macs)[0]


def read_parted(connection: Connection, table: Table, macs: Macs) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows that one of our own wrote, and those that another program changed, which are logged."""
    ours: list[dict[str, Any]] = []
    altered: list[dict[str, Any]] = []
    for row in rows_of(connection, select(table)):
        plain = {name: value for name, value in row.items() if name != COLUMN}
        if macs.hold(table.name, row):
            ours.append(plain)
        else:
            altered.append(plain)
            _log.error(
                "%s %r is left out: another program changed it in the file; restore a backup, or remove it and make it"
                " anew",
                table.name,
                row["id"],
            )
    return ours, altered


def put_signed(connection: Connection, table: Table, row: dict[str, Any], macs: Macs) -> None:
    """Write this row with its code, in place of the one of its id."""
    connection.execute(delete(table).where(table.c.id == row["id"]))
    connection.execute(insert(table), macs.signed(table.name, row))


def sign_all(macs: Macs, connection: Connection, before: str | None) -> None:
    """Take over what is there, while the tables that hold codes are being made.

    What came from outside is not: it is quarantined, or whoever can put the file back to that revision could activate
    anything.
    """
    if before in (None, _UNSIGNED):
        connection.execute(insert(seals), {"name": grants.name, "mac": seal_of(grants.name, [], macs)})
    if before == _UNSIGNED:
        for row in rows_of(connection, select(tools).where(tools.c.origin == "code")):
            connection.execute(update(tools).where(tools.c.id == row["id"]).values(mac=macs.of(tools.name, row)))
    if before in _FORBIDS_SEALED:
        _seal_permits(macs, connection)
    if before in _UNANCHORED:
        put_signed(connection, audit_anchors, {"id": ANCHOR, "public": "", "marks": "[]", "accepted": "[]"}, macs)
        _sign_approvals(macs, connection)


def _sign_approvals(macs: Macs, connection: Connection) -> None:
    """Approvals of older revisions name no code; those that were sound get a code over the new column, too."""
    for row in rows_of(connection, select(approvals)):
        old = {name: value for name, value in row.items() if name != "code_sha256"}
        if macs.hold(approvals.name, old):
            connection.execute(
                update(approvals).where(approvals.c.id == row["id"]).values(mac=macs.of(approvals.name, row))
            )


def _seal_permits(macs: Macs, connection: Connection) -> None:
    """Also what permits is sealed from now on; what was tampered with stays so."""
    there = [row for row in rows_of(connection, select(grants)) if macs.hold(grants.name, row)]
    kept = connection.scalar(select(seals.c.mac).where(seals.c.name == grants.name)) or b""
    if hmac.compare_digest(kept, seal_of(grants.name, [row for row in there if row["effect"] == "forbid"], macs)):
        sealed = seal_of(grants.name, there, macs)
        connection.execute(update(seals).where(seals.c.name == grants.name).values(mac=sealed))


def seal_of(name: str, rows: list[dict[str, Any]], macs: Macs) -> bytes:
    """A code over all of these rows together, which shows that one is missing or older than it should be."""
    return macs.of(seals.name, {"name": str(name), "rows": sorted(macs.of(name, row) for row in rows)})
