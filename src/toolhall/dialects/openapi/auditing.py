"""The operations on the audit, for callers who may manage the hall."""

from toolhall.dialects.openapi.parts import MOMENT, TEXT, list_of, operation, query
from toolhall.model.json import JsonObject

_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_LEVEL: JsonObject = {"type": "integer", "minimum": 0, "maximum": 10}
_WHEN: JsonObject = {
    "type": "string",
    "pattern": r"^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])(T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ)?$",
    "example": "2027-01-28T08:30:00Z",
}
_REQUIRED = ("log", "number", "at", "call", "caller", "dialect", "tool", "outcome")
_SAID = {
    "log": {**TEXT, "description": "Which process wrote it: each has a log of its own."},
    "number": {**_COUNT, "description": "Of the line in that log."},
    "at": MOMENT,
    "call": TEXT,
    "caller": TEXT,
    "person": {**TEXT, "description": "Who answers for the caller, if that is another name."},
    "actingFor": TEXT,
    "dialect": {**TEXT, "description": "It ends with `/management` for a change of the hall itself."},
    "tool": {**TEXT, "description": "Its id; of a tool that was not found, what it was called."},
    "definitionSha256": _SHA256,
    "argumentsSha256": _SHA256,
    "level": _LEVEL,
    "verdict": {"enum": ["allow", "deny", "verify"]},
    "grant": {**TEXT, "description": "What the verdict rests on."},
    "reason": TEXT,
    "approval": TEXT,
    "outcome": {**TEXT, "description": "`ok`, `tool_error`, `asked`, `intent`, or the name of the error."},
    "phase": {"const": "intent", "description": "Before a side effect; left out once the call has ended."},
    "durationUs": _COUNT,
    "bytesIn": _COUNT,
    "bytesOut": _COUNT,
    "redactions": _COUNT,
}
SCHEMAS: JsonObject = {"Record": {"type": "object", "properties": _SAID, "required": list(_REQUIRED)}}


def paths() -> JsonObject:
    """Look at records, and accept an audit that the store knows more of."""
    accepted: JsonObject = {
        "type": "object",
        "properties": {"accepted": list_of({**TEXT, "description": "What was wrong with the audit."})},
        "required": ["accepted"],
    }
    found: JsonObject = {
        "type": "object",
        "properties": {"records": list_of({"$ref": "#/components/schemas/Record"})},
        "required": ["records"],
    }
    return {
        "/api/audit": {
            "get": operation(
                "audit",
                "The newest records that fit, the newest first.",
                found,
                query("caller", {"type": "string"}),
                query("tool", {"type": "string"}, "An id, or `Toolkit.tool` for all versions."),
                query("outcome", {"type": "string"}),
                query("level", _LEVEL, "At least this level."),
                query("since", _WHEN, "A day or a time; without a zone it is UTC."),
                query("until", _WHEN, "Not then any more."),
                query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
            )
        },
        "/api/audit/accept": {
            "post": operation(
                "accept_audit",
                "Take an audit that was cut off or replaced as it is, so that calls of level 4 and up run again.",
                accepted,
            )
        },
    }
