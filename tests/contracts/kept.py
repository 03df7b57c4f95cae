"""Rows and events to keep."""

from typing import Any

import msgspec

from toolhall.stores.base import Event, Kept


def kept(name: str = "pick", **other: Any) -> Kept:
    """One version of one tool of the toolkit `Kit`."""
    plain: dict[str, Any] = {
        "toolkit": "Kit",
        "tool": name,
        "version": "1.0.0",
        "dialect": "mcp",
        "document": b'{"name": "%s"}' % name.encode(),
        "state": "quarantined",
        "origin": "http",
        "by": "local",
        "registered_at": 1.5,
        "changed_at": 1.5,
        "shown_digest": "a" * 64,
        "contract_digest": "b" * 64,
    }
    return Kept(**plain | other)


def changed(row: Kept, **other: Any) -> Kept:
    """The same row with some fields changed; what its writer has seen stays."""
    return msgspec.structs.replace(row, **other)


def event(row: Kept, what: str = "registered", **detail: Any) -> Event:
    """One line of this tool's history."""
    return msgspec.convert({"at": 1.5, "by": "local", "id": row.id, "what": what, "detail": detail}, Event)
