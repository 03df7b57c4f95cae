"""SqlToolStore: tables and statements of registered tools, their documents and their history.

Each function is one transaction on a synchronous connection; an asynchronous engine runs the same with `run_sync`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, SERIAL, TIMESTAMP, SqlDatabase, fetch_rows
from toolhall.stores.tools import ToolEvent, ToolRecord, check_saved, check_serials, check_storable_change, sort_records

# One row. Every change raises its number first, so that concurrent writers wait for each other.
changes = Table("changes", METADATA, Column("last", SERIAL, nullable=False), sqlite_strict=True)
# Apart from the tools: a document of a megabyte may define thousands of them.
documents = Table(
    "documents",
    METADATA,
    Column("digest", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    sqlite_strict=True,
)
tools = Table(
    "tools",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("toolkit", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("dialect", Text, nullable=False),
    Column("document", Text, ForeignKey("documents.digest"), nullable=False, index=True),
    Column("number", Integer, nullable=False),
    Column("model", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("deprecated_at", TIMESTAMP),
    Column("sunset", Text),
    Column("successor", Text),
    Column("origin", Text, nullable=False),
    Column("origin_detail", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("registered_at", TIMESTAMP, nullable=False),
    Column("changed_at", TIMESTAMP, nullable=False),
    Column("shown_digest", Text, nullable=False),
    Column("contract_digest", Text, nullable=False),
    Column("serial", SERIAL, nullable=False),
    Column("mac", LargeBinary),
    sqlite_strict=True,
)
# No foreign key: events outlive their tool.
events = Table(
    "events",
    METADATA,
    Column("number", SERIAL, primary_key=True),
    Column("at", TIMESTAMP, nullable=False),
    Column("by", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_events_id_number", "id", "number"),
    sqlite_strict=True,
)
_BATCH_SIZE = 500  # values in one statement; engines allow some ten thousand


class _StoredRow(NamedTuple):
    """The part of a stored row that a change needs."""

    serial: int
    document: str


def select_records(connection: Connection, macs: RowMac) -> tuple[ToolRecord, ...]:
    """Return all records; the tools of one document share its bytes."""
    with connection.begin():
        contents = {row.digest: row.content for row in connection.execute(select(documents))}
        read = fetch_rows(connection, select(tools))
    exact = {digest for digest, content in contents.items() if hashlib.sha256(content).hexdigest() == digest}
    for each in read:
        each["sound"] = each["document"] in exact and macs.verify(tools.name, each)
        each["document"] = contents.get(each["document"])
    return sort_records(msgspec.convert(read, list[ToolRecord]))


def select_history(connection: Connection, tool: str | None, limit: int) -> tuple[ToolEvent, ...]:
    """Return events, newest first: of one tool id, of all versions of a `Toolkit.tool`, or of all tools."""
    query = select(events).order_by(events.c.number.desc()).limit(max(limit, 0))
    with connection.begin():
        read = fetch_rows(connection, query if tool is None else query.where(_is_event_of(tool)))
    for each in read:
        each["detail"] = msgspec.json.decode(each["detail"])
    return tuple(msgspec.convert(read, list[ToolEvent]))


def _is_event_of(tool: str) -> ColumnElement[bool]:
    """Match an id, or any version of a `Toolkit.tool`: the range from `@` up to the next character."""
    return (events.c.id == tool) | ((events.c.id >= f"{tool}@") & (events.c.id < f"{tool}A"))


def save_records(
    connection: Connection, records: Sequence[ToolRecord], new_events: Sequence[ToolEvent], macs: RowMac
) -> tuple[ToolRecord, ...]:
    """Insert NEW records and replace the others, all or none; return them with their serials. Raises Stale."""
    check_storable_change(records, new_events)
    with connection.begin():
        serial = raise_serial(connection)
        stored = _delete_current(connection, records)
        saved = tuple(msgspec.structs.replace(each, serial=serial, sound=True) for each in records)
        _insert_records(connection, saved, macs)
        _delete_unused_documents(connection, stored)
        _insert_events(connection, new_events)
    return saved


def remove_records(connection: Connection, records: Sequence[ToolRecord], new_events: Sequence[ToolEvent]) -> None:
    """Remove all of the records or none; raises Stale."""
    check_saved(records)
    check_storable_change(records, new_events)
    with connection.begin():
        raise_serial(connection)
        _delete_unused_documents(connection, _delete_current(connection, records))
        _insert_events(connection, new_events)


def raise_serial(connection: Connection) -> int:
    """Raise the serial, which takes the write lock; must be the first statement of a transaction."""
    raised = update(changes).values(last=changes.c.last + 1).returning(changes.c.last)
    serial: int = connection.execute(raised).scalar_one()
    return serial


def _delete_current(connection: Connection, records: Sequence[ToolRecord]) -> list[_StoredRow]:
    """Delete the stored rows of these records if their serials match; raises Stale."""
    stored: dict[str, _StoredRow] = {}
    for some in _batches(each.id for each in records):
        query = select(tools.c.id, tools.c.serial, tools.c.document).where(tools.c.id.in_(some))
        stored |= {name: _StoredRow(serial, document) for name, serial, document in connection.execute(query)}
    check_serials(records, {name: each.serial for name, each in stored.items()})
    for some in _batches(stored):
        connection.execute(delete(tools).where(tools.c.id.in_(some)))
    return list(stored.values())


def _insert_records(connection: Connection, saved: Sequence[ToolRecord], macs: RowMac) -> None:
    """Insert these records, and their documents unless stored already."""
    digests = {content: hashlib.sha256(content).hexdigest() for content in {each.document for each in saved}}
    there: set[str] = set()
    for some in _batches(digests.values()):
        there.update(connection.scalars(select(documents.c.digest).where(documents.c.digest.in_(some))))
    new = [{"digest": digest, "content": content} for content, digest in digests.items() if digest not in there]
    rows = [macs.with_mac(tools.name, _row(each, digests[each.document])) for each in saved]
    if new:
        connection.execute(insert(documents), new)
    if rows:
        connection.execute(insert(tools), rows)


def _row(record: ToolRecord, document: str) -> dict[str, Any]:
    row = msgspec.structs.asdict(record) | {"id": record.id, "document": document}
    del row["sound"]
    return row


def _delete_unused_documents(connection: Connection, deleted: Sequence[_StoredRow]) -> None:
    """Delete documents that no tool refers to any more."""
    for some in _batches({each.document for each in deleted}):
        used = select(tools.c.document).where(tools.c.document.in_(some))
        connection.execute(delete(documents).where(documents.c.digest.in_(some), documents.c.digest.not_in(used)))


def _insert_events(connection: Connection, new_events: Sequence[ToolEvent]) -> None:
    rows = [msgspec.structs.asdict(each) | {"detail": msgspec.json.encode(each.detail).decode()} for each in new_events]
    if rows:
        connection.execute(insert(events), rows)


def _batches(values: Iterable[str]) -> Iterator[list[str]]:
    """Split into lists that fit into one statement."""
    rest = iter(values)
    while some := list(islice(rest, _BATCH_SIZE)):
        yield some


class SqlToolStore:
    """Registered tools in SQL."""

    def __init__(self, database: SqlDatabase, macs: RowMac) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[ToolRecord, ...]:
        """Return all records, oldest registration first."""
        return await self._database.run(select_records, self._macs)

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        """Return events, newest first: of one tool id, of all versions of a `Toolkit.tool`, or of all tools."""
        return await self._database.run(select_history, tool, limit)

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        """Insert NEW records and replace the others, all or none; return them with their serials. Raises Stale."""
        return await self._database.run(save_records, tuple(records), tuple(events), self._macs)

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        """Remove all of the records or none; raises Stale."""
        await self._database.run(remove_records, tuple(records), tuple(events))
