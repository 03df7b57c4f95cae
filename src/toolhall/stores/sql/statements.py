"""What is read and written, each in one transaction; an asynchronous engine runs the same by `run_sync`."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from toolhall.stores.base import Event, Kept, in_order, refuse_new, refuse_stale, refuse_unstorable
from toolhall.stores.macs import Macs
from toolhall.stores.sql.rows import rows_of
from toolhall.stores.sql.tables import changes, documents, events, tools

_MANY = 500  # values in one statement; engines allow some ten thousand


class _Stored(NamedTuple):
    """What a change must know of a row that is there."""

    serial: int
    document: str


def read_all(connection: Connection, macs: Macs) -> tuple[Kept, ...]:
    """Everything that is kept; the tools of one document share its bytes."""
    with connection.begin():
        contents = {row.digest: row.content for row in connection.execute(select(documents))}
        read = rows_of(connection, select(tools))
    exact = {digest for digest, content in contents.items() if hashlib.sha256(content).hexdigest() == digest}
    for each in read:
        each["sound"] = each["document"] in exact and macs.hold(tools.name, each)
        each["document"] = contents.get(each["document"])
    return in_order(msgspec.convert(read, list[Kept]))


def read_history(connection: Connection, tool: str | None, limit: int) -> tuple[Event, ...]:
    """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
    query = select(events).order_by(events.c.number.desc()).limit(max(limit, 0))
    with connection.begin():
        read = rows_of(connection, query if tool is None else query.where(_is_of(tool)))
    for each in read:
        each["detail"] = msgspec.json.decode(each["detail"])
    return tuple(msgspec.convert(read, list[Event]))


def _is_of(tool: str) -> ColumnElement[bool]:
    """An id, or any version of a `Toolkit.tool`: what comes from `@` up to the next letter."""
    return (events.c.id == tool) | ((events.c.id >= f"{tool}@") & (events.c.id < f"{tool}A"))


def save(connection: Connection, kept: Sequence[Kept], told: Sequence[Event], macs: Macs) -> tuple[Kept, ...]:
    """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
    refuse_unstorable(kept, told)
    with connection.begin():
        serial = _next_serial(connection)
        stored = _take_out(connection, kept)
        saved = tuple(msgspec.structs.replace(each, serial=serial, sound=True) for each in kept)
        _put_in(connection, saved, macs)
        _tidy(connection, stored)
        _tell(connection, told)
    return saved


def remove(connection: Connection, kept: Sequence[Kept], told: Sequence[Event]) -> None:
    """Remove all or none; raises Stale."""
    refuse_new(kept)
    refuse_unstorable(kept, told)
    with connection.begin():
        _next_serial(connection)
        _tidy(connection, _take_out(connection, kept))
        _tell(connection, told)


def _next_serial(connection: Connection) -> int:
    """Waits for every other writer; must come first."""
    raised = update(changes).values(last=changes.c.last + 1).returning(changes.c.last)
    serial: int = connection.execute(raised).scalar_one()
    return serial


def _take_out(connection: Connection, kept: Sequence[Kept]) -> list[_Stored]:
    """Delete what is stored of these, if all are as their writer saw them; raises Stale."""
    stored: dict[str, _Stored] = {}
    for some in _batches(each.id for each in kept):
        query = select(tools.c.id, tools.c.serial, tools.c.document).where(tools.c.id.in_(some))
        stored |= {name: _Stored(serial, document) for name, serial, document in connection.execute(query)}
    refuse_stale(kept, {name: each.serial for name, each in stored.items()})
    for some in _batches(stored):
        connection.execute(delete(tools).where(tools.c.id.in_(some)))
    return list(stored.values())


def _put_in(connection: Connection, saved: Sequence[Kept], macs: Macs) -> None:
    """Insert these, and those of their documents that are not there yet."""
    digests = {content: hashlib.sha256(content).hexdigest() for content in {each.document for each in saved}}
    there: set[str] = set()
    for some in _batches(digests.values()):
        there.update(connection.scalars(select(documents.c.digest).where(documents.c.digest.in_(some))))
    new = [{"digest": digest, "content": content} for content, digest in digests.items() if digest not in there]
    rows = [macs.signed(tools.name, _row(each, digests[each.document])) for each in saved]
    if new:
        connection.execute(insert(documents), new)
    if rows:
        connection.execute(insert(tools), rows)


def _row(kept: Kept, document: str) -> dict[str, Any]:
    row = msgspec.structs.asdict(kept) | {"id": kept.id, "document": document}
    del row["sound"]
    return row


def _tidy(connection: Connection, taken_out: Sequence[_Stored]) -> None:
    """Delete the documents that no tool came with any more."""
    for some in _batches({each.document for each in taken_out}):
        used = select(tools.c.document).where(tools.c.document.in_(some))
        connection.execute(delete(documents).where(documents.c.digest.in_(some), documents.c.digest.not_in(used)))


def _tell(connection: Connection, told: Sequence[Event]) -> None:
    rows = [msgspec.structs.asdict(each) | {"detail": msgspec.json.encode(each.detail).decode()} for each in told]
    if rows:
        connection.execute(insert(events), rows)


def _batches(values: Iterable[str]) -> Iterator[list[str]]:
    """Few enough for one statement at a time."""
    rest = iter(values)
    while some := list(islice(rest, _MANY)):
        yield some
