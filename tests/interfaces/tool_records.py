"""Rows and events to keep."""

from typing import Any

import msgspec

from toolhall.stores.tools import ToolEvent, ToolRecord


def kept(name: str = "pick", **other: Any) -> ToolRecord:
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
    return ToolRecord(**plain | other)


def changed(row: ToolRecord, **other: Any) -> ToolRecord:
    """The same row with some fields changed; what its writer has seen stays."""
    return msgspec.structs.replace(row, **other)


def event(row: ToolRecord, what: str = "registered", **detail: Any) -> ToolEvent:
    """One line of this tool's history."""
    return msgspec.convert({"at": 1.5, "by": "local", "id": row.id, "what": what, "detail": detail}, ToolEvent)
