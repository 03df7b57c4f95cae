"""Registered tools: ToolRecord, ToolEvent, the ToolStore protocol and its in-memory implementation.

Every save raises a record's serial, and a writer must present the serial that it has read (optimistic locking).
MemoryToolStore is the oracle that the contract tests compare every SQL engine with.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.json import JsonObject
from toolhall.stores.common import Stale, Unstorable

# `withheld`: reviewed and active, but its upstream offers it no longer; served again once it does.
ToolState: TypeAlias = Literal["registered", "quarantined", "active", "inactive", "withheld"]
ToolOrigin: TypeAlias = Literal["code", "file", "http", "cli", "tool-server", "upstream"]
ToolEventKind: TypeAlias = Literal[
    "registered", "activated", "deactivated", "quarantined", "deprecated", "removed", "replaced", "rolled back",
    "withheld", "server changed",
]  # fmt: skip
# A lone surrogate has no UTF-8, and PostgreSQL stores no NUL, so no engine accepts either.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_Timestamp: TypeAlias = Annotated[
    float, msgspec.Meta(ge=0, lt=1e12)
]  # seconds since 1970; never NaN, which SQL reads as null
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
NEW = 0  # the serial of a record that was never saved


class ToolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One registered version of one tool, as it is stored."""

    toolkit: _Text
    tool: _Text
    version: _Text
    dialect: _Text
    document: bytes  # JSON as received; the tools of one document all hold the whole of it, and a store keeps it once
    number: _Count = 0  # which tool of that document
    model: bytes = b""  # the decoded tool, encoded again: reading the document takes twenty times as long
    state: ToolState
    deprecated_at: _Timestamp | None = None
    sunset: _Text | None = None  # an ISO date
    successor: _Text | None = None
    origin: ToolOrigin
    origin_detail: _Text = ""
    by: _Text
    registered_at: _Timestamp
    changed_at: _Timestamp
    shown_digest: _Text
    contract_digest: _Text
    serial: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = (
        NEW  # given at each save, never reused: identifies what a writer has read
    )
    sound: bool = True  # False: the row's MAC or its document's digest is wrong

    @property
    def id(self) -> str:
        """The unique id, `Toolkit.tool@1.2.0`."""
        return f"{self.toolkit}.{self.tool}@{self.version}"

    @property
    def key(self) -> str:
        """The name that all versions share, `Toolkit.tool`."""
        return f"{self.toolkit}.{self.tool}"

    @property
    def digests(self) -> tuple[str, str]:
        """The digests of what the tool shows and of its contract."""
        return self.shown_digest, self.contract_digest

    @property
    def document_digest(self) -> str:
        """The digest of the raw document, which is what a person reviewed."""
        return f"sha256-{hashlib.sha256(self.document).hexdigest()}"


class ToolEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event in a tool's history; events outlive the tool."""

    at: _Timestamp
    by: _Text
    id: _Text
    what: ToolEventKind
    detail: JsonObject = {}


class ToolReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self) -> tuple[ToolRecord, ...]:
        """Return all records, oldest registration first."""
        ...

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        """Return events, newest first: of one tool id, of all versions of a `Toolkit.tool`, or of all tools."""
        ...


class ToolStore(ToolReader, Protocol):
    """A change is atomic together with its events, and durable once its call has returned.

    A change that has begun is finished even if its caller is cancelled, so shield the call where something must follow.
    """

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        """Insert NEW records and replace the others, all or none; return them with their serials. Raises Stale."""
        ...

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        """Remove all of the records or none; raises Stale."""
        ...


def check_storable_change(records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
    """Raise Unstorable unless the change survives a round trip through every engine and names each tool once."""
    try:
        msgspec.convert([msgspec.structs.asdict(each) for each in records], list[ToolRecord])
        msgspec.convert([msgspec.structs.asdict(each) for each in events], list[ToolEvent])
        encoded = [msgspec.json.encode(each) for each in events]
        unequal = [
            msgspec.json.decode(line, type=ToolEvent) != each for line, each in zip(encoded, events, strict=True)
        ]
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, ValueError, RecursionError) as error:
        raise Unstorable(f"this cannot be stored: {error}") from None
    if any(unequal):
        raise Unstorable("this cannot be stored: an event's detail is more than plain JSON")
    if len({each.id for each in records}) != len(records):
        raise Unstorable("this cannot be stored: a tool comes twice in one change")


def check_serials(records: Iterable[ToolRecord], serials: Mapping[str, int]) -> None:
    """Raise Stale unless each record has the stored serial; a record that is NEW must not be stored yet."""
    stale = [each.id for each in records if serials.get(each.id, NEW) != each.serial]
    if stale:
        raise Stale(stale)


def check_saved(records: Iterable[ToolRecord]) -> None:
    """Raise Stale for records that were never saved and so cannot be removed."""
    new = [each.id for each in records if each.serial == NEW]
    if new:
        raise Stale(new)


def is_event_of(event: ToolEvent, tool: str) -> bool:
    """True if the event is about this tool id, or about any version of this `Toolkit.tool`."""
    return event.id == tool or event.id.startswith(f"{tool}@")


def sort_records(records: Iterable[ToolRecord]) -> tuple[ToolRecord, ...]:
    """Sort records as every store lists them, independent of an engine's collation."""
    return tuple(sorted(records, key=lambda each: (each.registered_at, each.id)))


class MemoryToolStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self) -> None:
        self._records: dict[str, ToolRecord] = {}
        self._events: list[bytes] = []  # encoded, so that a caller cannot change them
        self._serial = 0

    async def all(self) -> tuple[ToolRecord, ...]:
        """Return all records, oldest registration first."""
        return sort_records(self._records.values())

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        """Insert NEW records and replace the others, all or none; return them with their serials. Raises Stale."""
        self._begin_change(records, events)
        saved = tuple(msgspec.structs.replace(each, serial=self._serial, sound=True) for each in records)
        self._records |= {each.id: each for each in saved}
        return saved

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        """Remove all of the records or none; raises Stale."""
        check_saved(records)
        self._begin_change(records, events)
        for each in records:
            del self._records[each.id]

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        """Return events, newest first: of one tool id, of all versions of a `Toolkit.tool`, or of all tools."""
        newest = (msgspec.json.decode(line, type=ToolEvent) for line in reversed(self._events))
        return tuple(each for each in newest if tool is None or is_event_of(each, tool))[: max(limit, 0)]

    def _begin_change(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        check_storable_change(records, events)
        check_serials(records, {each.id: each.serial for each in self._records.values()})
        self._serial += 1
        self._events += [msgspec.json.encode(each) for each in events]
