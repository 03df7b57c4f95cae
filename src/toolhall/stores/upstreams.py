"""Upstreams that are remembered: StoredUpstream, the UpstreamStore protocol and its in-memory implementation.

A row says how an upstream is reached, if it was added and not written in a file, and what was known of it when it was
last reached, so that the next start needs no first look. No secret is in it, only names of secrets. Every save raises
a row's serial, and a writer must present the serial that it has read (optimistic locking).
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.json import JsonObject
from toolhall.model.secret import looks_secret
from toolhall.model.upstream import UpstreamSettings
from toolhall.stores.common import DATABASE_FILE, Stale, Unstorable, check_storable

NEW = 0  # the serial of a row that was never saved
_CREDENTIAL_PARTS = ("headers", "env")
# A lone surrogate has no UTF-8, and PostgreSQL stores no NUL, so no engine accepts either.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]  # seconds since 1970


class StoredUpstream(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream as it is stored."""

    name: _Text
    settings: JsonObject | None = None  # of UpstreamSettings; None: they are in a file, here is only what was seen
    era: Literal["legacy", "modern"] | None = None  # that it spoke last, to be tried first
    revision: _Text | None = None
    server_name: _Text | None = None
    server_version: _Text | None = None
    listing_digest: _Text | None = None  # of what it listed last
    off: bool = False
    by: _Text  # who added it
    added_at: _Timestamp
    changed_at: _Timestamp
    serial: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = NEW


def has_stored_upstreams(folder: Path) -> bool:
    """Return whether upstreams were added to this data folder; also while another process writes to it.

    It asks SQLite itself, so that a start does not load the engine before it needs it.
    """
    path = folder / DATABASE_FILE
    if not path.is_file():
        return False
    import sqlite3  # lazy: only where a database exists

    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return (
                connection.execute("SELECT 1 FROM upstreams WHERE settings IS NOT NULL LIMIT 1").fetchone() is not None
            )
    except sqlite3.Error:  # an older file, or a damaged one: opening it says so
        return False


class UpstreamReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self) -> tuple[StoredUpstream, ...]:
        """Return all upstreams by name."""
        ...

    async def find(self, name: str) -> StoredUpstream | None:
        """Return the upstream with this name."""
        ...


class UpstreamStore(UpstreamReader, Protocol):
    """Of two writers that have read the same row, one gets Stale."""

    async def save(self, upstream: StoredUpstream) -> StoredUpstream:
        """Insert a NEW upstream or replace it; return it with its serial. Raises Stale, and Unstorable."""
        ...

    async def remove(self, name: str) -> bool:
        """Remove it; False if there is none."""
        ...


def check_storable_upstream(upstream: StoredUpstream) -> None:
    """Raise Unstorable unless the row survives every engine, its settings are valid, and no secret is in it."""
    try:
        msgspec.convert(msgspec.structs.asdict(upstream), StoredUpstream)
        check_storable(upstream)
        if upstream.settings is not None:
            msgspec.convert(upstream.settings, UpstreamSettings)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise Unstorable(f"this cannot be stored: {error}") from None
    for part in _CREDENTIAL_PARTS if upstream.settings else ():
        for name, value in (upstream.settings or {}).get(part, {}).items():
            if looks_secret(name) and value and "${secret:" not in value:
                fix = f"put it into the vault and write {part} = {{{name} = '${{secret:NAME}}'}}"
                raise Unstorable(f"this cannot be stored: the value of {name} may be a secret; {fix}")


def check_upstream_serial(upstream: StoredUpstream, serial: int | None) -> None:
    """Raise Stale unless the upstream has the stored serial; None: there is no such row."""
    if upstream.serial != (NEW if serial is None else serial):
        raise Stale([upstream.name])


def sort_upstreams(upstreams: Iterable[StoredUpstream]) -> tuple[StoredUpstream, ...]:
    """Sort as every store lists them, independent of an engine's collation."""
    return tuple(sorted(upstreams, key=lambda each: each.name))


class MemoryUpstreamStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self) -> None:
        self._upstreams: dict[str, StoredUpstream] = {}
        self._serial = 0

    async def all(self) -> tuple[StoredUpstream, ...]:
        """Return all upstreams by name."""
        return sort_upstreams(self._upstreams.values())

    async def find(self, name: str) -> StoredUpstream | None:
        """Return the upstream with this name."""
        return self._upstreams.get(name)

    async def save(self, upstream: StoredUpstream) -> StoredUpstream:
        """Insert a NEW upstream or replace it; return it with its serial. Raises Stale, and Unstorable."""
        check_storable_upstream(upstream)
        known = self._upstreams.get(upstream.name)
        check_upstream_serial(upstream, None if known is None else known.serial)
        self._serial += 1
        copied = msgspec.json.decode(msgspec.json.encode(upstream), type=StoredUpstream)  # a caller cannot change it
        saved = self._upstreams[upstream.name] = msgspec.structs.replace(copied, serial=self._serial)
        return saved

    async def remove(self, name: str) -> bool:
        """Remove it; False if there is none."""
        return self._upstreams.pop(name, None) is not None
