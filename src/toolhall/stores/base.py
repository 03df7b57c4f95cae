"""What must be remembered of registered tools, and the one small protocol that every engine keeps."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.json import JsonObject

State: TypeAlias = Literal["registered", "quarantined", "active", "inactive"]
Origin: TypeAlias = Literal["code", "file", "http", "cli", "tool-server"]
What: TypeAlias = Literal[
    "registered", "activated", "deactivated", "quarantined", "deprecated", "removed", "replaced", "rolled back"
]
# Half a surrogate pair has no UTF-8, and PostgreSQL keeps no NUL; so no engine does.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_Moment: TypeAlias = Annotated[
    float, msgspec.Meta(ge=0, lt=1e12)
]  # seconds since 1970; never NaN, which SQL reads as null
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]

FILE_NAME = "toolhall.db"
NEW = 0  # the serial of what no store has kept yet


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one tool, as it survives a restart."""

    toolkit: _Text
    tool: _Text
    version: _Text
    dialect: _Text
    document: bytes  # JSON as it came; the tools of one document all hold the whole of it, and a store keeps it once
    number: _Count = 0  # which tool of that document
    model: bytes = b""  # the tool as it was read from there: reading it again takes twenty times as long
    state: State
    deprecated_at: _Moment | None = None
    sunset: _Text | None = None  # an ISO date
    successor: _Text | None = None
    origin: Origin
    origin_detail: _Text = ""
    by: _Text
    registered_at: _Moment
    changed_at: _Moment
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


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a tool's history; it outlives the tool."""

    at: _Moment
    by: _Text
    id: _Text
    what: What
    detail: JsonObject = {}


class ToolReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        ...

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        ...


class ToolStore(ToolReader, Protocol):
    """A change is there whole, together with its events, once its call has returned; before that it may be, whole too.

    A change that was begun is finished even if nobody waits for it any more, so shield it from cancellation where
    something must follow it.
    """

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        ...

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        """Remove all or none; raises Stale."""
        ...


class StoreFailed(Exception):
    """The store cannot do it, and nothing was changed; the message is one line that says what to do."""


class InUse(StoreFailed):
    """Another process writes to it; `pid` is None if that process did not say which it is."""

    def __init__(self, message: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(message)


class Stale(Exception):
    """Somebody else changed these tools since they were read; nothing was changed."""

    def __init__(self, ids: Collection[str]) -> None:
        self.ids = tuple(sorted(ids))
        super().__init__(f"{', '.join(self.ids)}: changed meanwhile; read it again, then repeat the change")


class Unstorable(ValueError):
    """A value that no engine keeps as it is; the message has its path."""


def refuse_unstorable(kept: Sequence[Kept], events: Sequence[Event]) -> None:
    """Raise Unstorable unless every engine will bring all of this back exactly; each tool may come once."""
    try:
        msgspec.convert([msgspec.structs.asdict(each) for each in kept], list[Kept])
        msgspec.convert([msgspec.structs.asdict(each) for each in events], list[Event])
        encoded = [msgspec.json.encode(each) for each in events]
        unequal = [msgspec.json.decode(line, type=Event) != each for line, each in zip(encoded, events, strict=True)]
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, ValueError, RecursionError) as error:
        raise Unstorable(f"this cannot be stored: {error}") from None
    if any(unequal):
        raise Unstorable("this cannot be stored: an event's detail is more than plain JSON")
    if len({each.id for each in kept}) != len(kept):
        raise Unstorable("this cannot be stored: a tool comes twice in one change")


def refuse_stale(kept: Iterable[Kept], serials: Mapping[str, int]) -> None:
    """Raise Stale unless each has the serial that is stored; what is NEW must not be stored at all."""
    stale = [each.id for each in kept if serials.get(each.id, NEW) != each.serial]
    if stale:
        raise Stale(stale)


def refuse_new(kept: Iterable[Kept]) -> None:
    """Raise Stale for what cannot be removed, because it was never kept."""
    new = [each.id for each in kept if each.serial == NEW]
    if new:
        raise Stale(new)


def is_of(event: Event, tool: str) -> bool:
    """Whether it happened to this tool id, or to any version of this `Toolkit.tool`."""
    return event.id == tool or event.id.startswith(f"{tool}@")


def in_order(kept: Iterable[Kept]) -> tuple[Kept, ...]:
    """As every store lists them, whatever its engine calls an order."""
    return tuple(sorted(kept, key=lambda each: (each.registered_at, each.id)))
