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

ToolState: TypeAlias = Literal["registered", "quarantined", "active", "inactive"]
ToolOrigin: TypeAlias = Literal["code", "file", "http", "cli", "tool-server"]
ToolEventKind: TypeAlias = Literal[
    "registered", "activated", "deactivated", "quarantined", "deprecated", "removed", "replaced", "rolled back"
]
# Half a surrogate pair has no UTF-8, and PostgreSQL keeps no NUL; so no engine does.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_Timestamp: TypeAlias = Annotated[
    float, msgspec.Meta(ge=0, lt=1e12)
]  # seconds since 1970; never NaN, which SQL reads as null
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
NEW = 0  # the serial of what no store has kept yet


class ToolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one tool, as it survives a restart."""

    toolkit: _Text
    tool: _Text
    version: _Text
    dialect: _Text
    document: bytes  # JSON as it came; the tools of one document all hold the whole of it, and a store keeps it once
    number: _Count = 0  # which tool of that document
    model: bytes = b""  # the tool as it was read from there: reading it again takes twenty times as long
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
        NEW  # given at each save, never twice: what a writer has seen
    )
    sound: bool = True  # False: read from a row that no hall has written like this

    @property
    def id(self) -> str:
        """`Toolkit.tool@1.2.0`, which is there once."""
        return f"{self.toolkit}.{self.tool}@{self.version}"

    @property
    def key(self) -> str:
        """`Toolkit.tool`, which all versions share."""
        return f"{self.toolkit}.{self.tool}"

    @property
    def digests(self) -> tuple[str, str]:
        """What stands for everything that it shows and promises."""
        return self.shown_digest, self.contract_digest

    @property
    def document_digest(self) -> str:
        """What stands for the raw text that a person saw."""
        return f"sha256-{hashlib.sha256(self.document).hexdigest()}"


class ToolEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a tool's history; it outlives the tool."""

    at: _Timestamp
    by: _Text
    id: _Text
    what: ToolEventKind
    detail: JsonObject = {}


class ToolReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self) -> tuple[ToolRecord, ...]:
        """Everything that is kept, what was registered first first."""
        ...

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        ...


class ToolStore(ToolReader, Protocol):
    """A change is there whole, together with its events, once its call has returned; before that it may be, whole too.

    A change that was begun is finished even if nobody waits for it any more, so shield it from cancellation where
    something must follow it.
    """

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        ...

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        """Remove all or none; raises Stale."""
        ...


def check_storable_change(records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
    """Raise Unstorable unless every engine will bring all of this back exactly; each tool may come once."""
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
    """Raise Stale unless each has the serial that is stored; what is NEW must not be stored at all."""
    stale = [each.id for each in records if serials.get(each.id, NEW) != each.serial]
    if stale:
        raise Stale(stale)


def check_saved(records: Iterable[ToolRecord]) -> None:
    """Raise Stale for what cannot be removed, because it was never kept."""
    new = [each.id for each in records if each.serial == NEW]
    if new:
        raise Stale(new)


def is_event_of(event: ToolEvent, tool: str) -> bool:
    """Whether it happened to this tool id, or to any version of this `Toolkit.tool`."""
    return event.id == tool or event.id.startswith(f"{tool}@")


def sort_records(records: Iterable[ToolRecord]) -> tuple[ToolRecord, ...]:
    """As every store lists them, whatever its engine calls an order."""
    return tuple(sorted(records, key=lambda each: (each.registered_at, each.id)))


class MemoryToolStore:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._records: dict[str, ToolRecord] = {}
        self._events: list[bytes] = []  # encoded, so that nobody can change one
        self._serial = 0

    async def all(self) -> tuple[ToolRecord, ...]:
        """Everything that is kept, what was registered first first."""
        return sort_records(self._records.values())

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        self._begin_change(records, events)
        saved = tuple(msgspec.structs.replace(each, serial=self._serial, sound=True) for each in records)
        self._records |= {each.id: each for each in saved}
        return saved

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        """Remove all or none; raises Stale."""
        check_saved(records)
        self._begin_change(records, events)
        for each in records:
            del self._records[each.id]

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        newest = (msgspec.json.decode(line, type=ToolEvent) for line in reversed(self._events))
        return tuple(each for each in newest if tool is None or is_event_of(each, tool))[: max(limit, 0)]

    def _begin_change(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        check_storable_change(records, events)
        check_serials(records, {each.id: each.serial for each in self._records.values()})
        self._serial += 1
        self._events += [msgspec.json.encode(each) for each in events]
