"""The operations of management, for callers who may manage the hall."""

from collections.abc import Sequence

from toolhall.dialects.openapi import access, auditing, people, supplies
from toolhall.dialects.openapi.parts import (
    MANAGEMENT,
    MOMENT,
    TEXT,
    body_of,
    errors,
    list_of,
    object_of,
    operation,
    or_null,
    query,
    replied,
)
from toolhall.model.json import JsonObject

TAG: JsonObject = {"name": MANAGEMENT, "description": "What is registered, in which state, and every change of that."}
BEHAVIOURS = ("breaking", "feature")
STATES = ("registered", "quarantined", "active", "inactive")
ORIGINS = ("code", "file", "http", "cli", "tool-server")
HAPPENED = (
    "registered",
    "activated",
    "deactivated",
    "quarantined",
    "deprecated",
    "removed",
    "replaced",
    "rolled back",
)
_DIGEST: JsonObject = {"type": "string", "pattern": "^sha256-[0-9a-f]{64}$"}
_DAY: JsonObject = {"type": "string", "format": "date", "description": "The first day without the tool, in UTC."}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_SUMMARY: JsonObject = {"$ref": "#/components/schemas/RegisteredTool"}
_FINDING: JsonObject = {"$ref": "#/components/schemas/Finding"}


_TOOL = {
    "id": TEXT,
    "toolkit": TEXT,
    "tool": TEXT,
    "version": TEXT,
    "name": {**TEXT, "description": "What it is published as."},
    "title": or_null(TEXT),
    "state": {"enum": list(STATES)},
    "origin": {"enum": list(ORIGINS)},
    "originDetail": TEXT,
    "by": {**TEXT, "description": "Who registered it."},
    "registeredAt": MOMENT,
    "changedAt": MOMENT,
    "deprecatedAt": or_null(MOMENT),
    "sunset": or_null(_DAY),
    "successor": or_null(TEXT),
    "dialect": {**TEXT, "description": "What its document is written in; `toolhall` for tools that are code."},
    "digests": object_of(shown=TEXT, contract=TEXT, document=_DIGEST),
    "served": {"type": "boolean", "description": "Whether it can be called now."},
    "effectiveLevel": {"type": "integer", "minimum": 0, "maximum": 10, "description": "The level that counts."},
}
SCHEMAS: JsonObject = {
    "RegisteredTool": object_of(**_TOOL),
    "Json": {
        "description": "Any JSON, without U+0000 and within 15 digits.",
        "anyOf": [
            {"type": ["string", "boolean", "null"], "pattern": r"^[^\u0000]*$"},
            {"type": "number", "minimum": -(10**15), "maximum": 10**15},
            {"type": "array", "items": {"$ref": "#/components/schemas/Json"}},
            {
                "type": "object",
                "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
                "additionalProperties": {"$ref": "#/components/schemas/Json"},
            },
        ],
    },
    **access.SCHEMAS,
    **auditing.SCHEMAS,
    **people.SCHEMAS,
    **supplies.SCHEMAS,
    "Finding": object_of(path=TEXT, rule=TEXT, fix=TEXT, severity={"enum": ["error", "warning"]}),
}
_WHOLE = object_of(
    **_TOOL,
    document={"description": "As it came."},
    findings=list_of(_FINDING),
    versions=list_of(object_of(id=TEXT, state={"enum": list(STATES)})),
)
_EVENTS = object_of(
    events=list_of(object_of(at=MOMENT, by=TEXT, id=TEXT, what={"enum": list(HAPPENED)}, detail={"type": "object"}))
)
_CALLERS = object_of(
    callers=list_of(object_of(caller=TEXT, calls=_COUNT, last=MOMENT, versions=list_of(TEXT), dialects=list_of(TEXT))),
    others={**_COUNT, "description": "Calls of callers that are not named, because there are too many."},
)
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "tools": list_of(_SUMMARY),
        "nextCursor": {**TEXT, "description": "Send it as `cursor` to get the next page."},
    },
    "required": ["tools"],
}
_ID: JsonObject = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "`Toolkit.tool@1.2.0`, or `Toolkit.tool`, which means its newest version.",
    "schema": {**TEXT, "minLength": 1},
}
_LIMIT: JsonObject = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
_SEEN: JsonObject = {
    "type": "object",
    "properties": {
        "seen": {"anyOf": [_DIGEST, {"type": "null"}], "description": "The document digest of what you saw."}
    },
    "additionalProperties": False,
}
_ENDING: JsonObject = {
    "type": "object",
    "properties": {
        "sunset": or_null(_DAY),
        "successor": {**or_null({**TEXT, "minLength": 1, "maxLength": 256}), "description": "What to call instead."},
    },
    "additionalProperties": False,
}
_NOTHING: JsonObject = {"type": "object", "additionalProperties": False}
_DEFINITION: JsonObject = {
    "type": "object",
    "description": "A definition of that dialect.",
    "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
    "additionalProperties": {"$ref": "#/components/schemas/Json"},
}
_EXAMPLE: JsonObject = {
    "name": "get_tide",
    "description": "Say when the tide is high at a harbour today.",
    "inputSchema": {
        "type": "object",
        "properties": {"harbour": {"type": "string", "description": "Its name, such as Bergen."}},
        "required": ["harbour"],
    },
}
# What can be done next with what was registered.
_LINKS: JsonObject = {
    name: {"operationId": f"management.{name}", "parameters": {"id": "$response.body#/tools/0/id"}}
    for name in ("show", "activate", "deactivate", "deprecate", "rollback", "history", "callers", "remove")
}


def paths(readable: Sequence[str]) -> JsonObject:
    """Every operation; definitions are read in these dialects."""
    return {
        "/api/tools": {"get": _listing(), "post": _registering(readable)},
        "/api/tools/{id}": {
            "get": operation("show", "One tool, with its document and all that lint says of it.", _WHOLE, _ID),
            "delete": operation("remove", "Forget a tool; its history stays.", object_of(removed=TEXT), _ID),
        },
        "/api/tools/{id}/activate": {
            "post": _change("activate", "Serve it; what was quarantined only with the digest of its document.", _SEEN)
        },
        "/api/tools/{id}/deactivate": {"post": _change("deactivate", "Serve it no longer.", _NOTHING)},
        "/api/tools/{id}/deprecate": {"post": _change("deprecate", "Say that it will go.", _ENDING)},
        "/api/tools/{id}/rollback": {
            "post": _change("rollback", "Serve the version before again.", _NOTHING, object_of(tools=list_of(_SUMMARY)))
        },
        "/api/tools/{id}/history": {
            "get": operation("history", "What happened to it, the newest first.", _EVENTS, _ID, query("limit", _LIMIT))
        },
        "/api/tools/{id}/callers": {
            "get": operation("callers", "Who called it; without a version, any of them.", _CALLERS, _ID)
        },
        "/api/history": {"get": operation("events", "What happened to all tools.", _EVENTS, query("limit", _LIMIT))},
        **access.paths(),
        **auditing.paths(),
        **people.paths(),
        **supplies.paths(),
    }


def _listing() -> JsonObject:
    parameters = (
        query("state", {"enum": list(STATES)}),
        query("toolkit", {"type": "string"}),
        query("cursor", {"type": "string"}),
    )
    return operation("list", "Everything that is registered, in pages.", _PAGE, *parameters)


def _registering(readable: Sequence[str]) -> JsonObject:
    dialect = query("dialect", {"enum": list(readable)}, "What the definition is written in; else as it looks.")
    says = "What its author says of how it behaves, beyond what the definition can show; the version must say so too."
    behaviour = query("behaviour", {"enum": list(BEHAVIOURS)}, says)
    told = operation(
        "register", "Register a definition; it is quarantined until somebody activates it.", {}, dialect, behaviour
    )
    told["requestBody"] = body_of(_DEFINITION, required=True)
    told["requestBody"]["content"]["application/json"]["example"] = _EXAMPLE
    created = replied("It is registered.", object_of(tools=list_of(_SUMMARY), findings=list_of(_FINDING)))
    told["responses"] = {"201": {**created, "links": _LINKS}, **errors(body=True)}
    return told


def _change(name: str, says: str, body: JsonObject, answer: JsonObject = _SUMMARY) -> JsonObject:
    told = operation(name, says, answer, _ID)
    told["requestBody"] = body_of(body, required=False)
    told["responses"] |= errors(body=True)
    return told
