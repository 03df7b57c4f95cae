"""OpenAPI paths of the hall itself (`/tools`, `/health`) and of its management (`/api/tools`, `/api/audit`)."""

from collections.abc import Sequence

from toolhall.dialects.openapi import access_paths
from toolhall.dialects.openapi.builders import (
    MANAGEMENT_TAG_NAME,
    TEXT,
    TIMESTAMP,
    array_schema,
    error_responses,
    json_response,
    management_operation,
    nullable,
    object_schema,
    query_parameter,
    request_body,
)
from toolhall.model.json import Json, JsonObject

HALL_TAG: JsonObject = {"name": "hall", "description": "The hall itself: which tools there are, and how it is."}
_TEXT: JsonObject = {"type": "string"}
_HEALTH_STATE: JsonObject = {"enum": ["healthy", "degraded", "unhealthy"]}
_TOOL_LISTING: JsonObject = {
    "type": "object",
    "properties": {
        "dialect": _TEXT,
        "tools": {"type": "array", "items": {"type": "object"}},
        "nextCursor": {"type": "string", "description": "Send it as `cursor` to get the next page."},
        "losses": {
            "type": "array",
            "description": "What the dialect cannot say of a tool: a JSON pointer, and why.",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "path": _TEXT, "reason": _TEXT},
                "required": ["tool", "path", "reason"],
            },
        },
        "refused": {
            "type": "array",
            "description": "Tools that this dialect would change, and why.",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "reasons": {"type": "array", "items": _TEXT}},
                "required": ["tool", "reasons"],
            },
        },
    },
    "required": ["dialect", "tools", "losses"],
}
_HEALTH: JsonObject = {
    "type": "object",
    "properties": {
        "status": _HEALTH_STATE,
        "components": {
            "type": "object",
            "properties": {"core": _HEALTH_STATE, "tools": {"type": "object", "additionalProperties": _HEALTH_STATE}},
            "required": ["core", "tools"],
        },
        "uptime": {"type": "number", "description": "Seconds."},
        "tools": {"type": "integer", "description": "How many tools there are."},
    },
    "required": ["status", "uptime"],  # the rest is for whoever may manage the hall
}


def hall_paths(dialects: Sequence[str]) -> JsonObject:
    """Listing in any of these dialects, and health."""
    return {
        "/tools": {"get": _tools_operation(dialects)},
        "/health": {"get": _health_operation("health", "The state of the hall and of its parts.", _HEALTH)},
        "/health/live": {"get": _health_operation("live", "Whether the process answers.", _status_schema("alive"))},
        "/health/ready": {
            "get": _health_operation("ready", "Whether calls are taken.", _status_schema("ready", "stopping"))
        },
    }


def _tools_operation(dialects: Sequence[str]) -> JsonObject:
    return {
        "operationId": "hall.tools",
        "tags": [HALL_TAG["name"]],
        "summary": "List tools",
        "description": "Definitions in any dialect, searched and paged.",
        "parameters": [
            _query_parameter(
                "dialect", "Which dialect's documents to give.", {"enum": list(dialects), "default": "mcp"}
            ),
            _query_parameter("query", "Words in names, descriptions, parameters and tags; the best match comes first."),
            _query_parameter("toolkit", "Only the tools of this toolkit."),
            _query_parameter("tool", "Only this tool: its published name, or its id with or without the version."),
            _query_parameter("tag", "Only tools with this tag."),
            _query_parameter("cursor", "The `nextCursor` of the page before."),
        ],
        "responses": {
            "200": _response("One page.", _TOOL_LISTING),
            "400": {"$ref": "#/components/responses/Malformed"},
            "404": {"$ref": "#/components/responses/NotFound"},
        },
    }


def _query_parameter(name: str, description: str, schema: Json = None) -> JsonObject:
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


def _health_operation(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {
        "operationId": f"hall.{name}",
        "tags": [HALL_TAG["name"]],
        "description": description,
        "responses": {"200": _response("It is.", schema), "503": _response("It is not.", schema)},
    }


def _status_schema(*words: str) -> JsonObject:
    return {"type": "object", "properties": {"status": {"enum": list(words)}}, "required": ["status"]}


def _response(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_LEVEL_SCHEMA: JsonObject = {"type": "integer", "minimum": 0, "maximum": 10}
_TIME_FILTER: JsonObject = {
    "type": "string",
    "pattern": r"^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])(T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ)?$",
    "example": "2027-01-28T08:30:00Z",
}
_RECORD_REQUIRED = ("log", "number", "at", "call", "caller", "dialect", "tool", "outcome")
_RECORD_PROPERTIES = {
    "log": {**TEXT, "description": "Which process wrote it: each has a log of its own."},
    "number": {**_COUNT, "description": "Of the line in that log."},
    "at": TIMESTAMP,
    "call": TEXT,
    "caller": TEXT,
    "person": {**TEXT, "description": "Who answers for the caller, if that is another name."},
    "actingFor": TEXT,
    "dialect": {**TEXT, "description": "It ends with `/management` for a change of the hall itself."},
    "tool": {**TEXT, "description": "Its id; of a tool that was not found, what it was called."},
    "definitionSha256": _SHA256,
    "argumentsSha256": _SHA256,
    "level": _LEVEL_SCHEMA,
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
AUDIT_SCHEMAS: JsonObject = {
    "Record": {"type": "object", "properties": _RECORD_PROPERTIES, "required": list(_RECORD_REQUIRED)}
}


def audit_paths() -> JsonObject:
    """Look at records, and accept an audit that the store knows more of."""
    accepted: JsonObject = {
        "type": "object",
        "properties": {"accepted": array_schema({**TEXT, "description": "What was wrong with the audit."})},
        "required": ["accepted"],
    }
    found: JsonObject = {
        "type": "object",
        "properties": {"records": array_schema({"$ref": "#/components/schemas/Record"})},
        "required": ["records"],
    }
    return {
        "/api/audit": {
            "get": management_operation(
                "audit",
                "The newest records that fit, the newest first.",
                found,
                query_parameter("caller", {"type": "string"}),
                query_parameter("tool", {"type": "string"}, "An id, or `Toolkit.tool` for all versions."),
                query_parameter("outcome", {"type": "string"}),
                query_parameter("level", _LEVEL_SCHEMA, "At least this level."),
                query_parameter("since", _TIME_FILTER, "A day or a time; without a zone it is UTC."),
                query_parameter("until", _TIME_FILTER, "Not then any more."),
                query_parameter("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
            )
        },
        "/api/audit/accept": {
            "post": management_operation(
                "accept_audit",
                "Take an audit that was cut off or replaced as it is, so that calls of level 4 and up run again.",
                accepted,
            )
        },
    }


MANAGEMENT_TAG: JsonObject = {
    "name": MANAGEMENT_TAG_NAME,
    "description": "What is registered, in which state, and every change of that.",
}
BEHAVIOURS = ("breaking", "feature")
STATES = ("registered", "quarantined", "active", "inactive")
ORIGINS = ("code", "file", "http", "cli", "tool-server")
EVENT_TYPES = (
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
_SUNSET_DATE: JsonObject = {
    "type": "string",
    "format": "date",
    "description": "The first day without the tool, in UTC.",
}
_SUMMARY: JsonObject = {"$ref": "#/components/schemas/RegisteredTool"}
_FINDING: JsonObject = {"$ref": "#/components/schemas/Finding"}
_TOOL = {
    "id": TEXT,
    "toolkit": TEXT,
    "tool": TEXT,
    "version": TEXT,
    "name": {**TEXT, "description": "What it is published as."},
    "title": nullable(TEXT),
    "state": {"enum": list(STATES)},
    "origin": {"enum": list(ORIGINS)},
    "originDetail": TEXT,
    "by": {**TEXT, "description": "Who registered it."},
    "registeredAt": TIMESTAMP,
    "changedAt": TIMESTAMP,
    "deprecatedAt": nullable(TIMESTAMP),
    "sunset": nullable(_SUNSET_DATE),
    "successor": nullable(TEXT),
    "dialect": {**TEXT, "description": "What its document is written in; `toolhall` for tools that are code."},
    "digests": object_schema(shown=TEXT, contract=TEXT, document=_DIGEST),
    "served": {"type": "boolean", "description": "Whether it can be called now."},
    "effectiveLevel": {"type": "integer", "minimum": 0, "maximum": 10, "description": "The level that counts."},
}
MANAGEMENT_SCHEMAS: JsonObject = {
    "RegisteredTool": object_schema(**_TOOL),
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
    **access_paths.ACCESS_SCHEMAS,
    **AUDIT_SCHEMAS,
    **access_paths.APPROVAL_SCHEMAS,
    **access_paths.CREDENTIAL_SCHEMAS,
    "Finding": object_schema(path=TEXT, rule=TEXT, fix=TEXT, severity={"enum": ["error", "warning"]}),
}
_TOOL_DETAILS = object_schema(
    **_TOOL,
    document={"description": "As it came."},
    findings=array_schema(_FINDING),
    versions=array_schema(object_schema(id=TEXT, state={"enum": list(STATES)})),
)
_EVENTS = object_schema(
    events=array_schema(
        object_schema(at=TIMESTAMP, by=TEXT, id=TEXT, what={"enum": list(EVENT_TYPES)}, detail={"type": "object"})
    )
)
_CALLERS = object_schema(
    callers=array_schema(
        object_schema(
            caller=TEXT, calls=_COUNT, last=TIMESTAMP, versions=array_schema(TEXT), dialects=array_schema(TEXT)
        )
    ),
    others={**_COUNT, "description": "Calls of callers that are not named, because there are too many."},
)
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "tools": array_schema(_SUMMARY),
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
_ACTIVATION: JsonObject = {
    "type": "object",
    "properties": {
        "seen": {"anyOf": [_DIGEST, {"type": "null"}], "description": "The document digest of what you saw."}
    },
    "additionalProperties": False,
}
_DEPRECATION: JsonObject = {
    "type": "object",
    "properties": {
        "sunset": nullable(_SUNSET_DATE),
        "successor": {**nullable({**TEXT, "minLength": 1, "maxLength": 256}), "description": "What to call instead."},
    },
    "additionalProperties": False,
}
_EMPTY_BODY: JsonObject = {"type": "object", "additionalProperties": False}
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


def management_paths(readable: Sequence[str]) -> JsonObject:
    """Every operation; definitions are read in these dialects."""
    return {
        "/api/tools": {"get": _list_operation(), "post": _register_operation(readable)},
        "/api/tools/{id}": {
            "get": management_operation(
                "show", "One tool, with its document and all that lint says of it.", _TOOL_DETAILS, _ID
            ),
            "delete": management_operation(
                "remove", "Forget a tool; its history stays.", object_schema(removed=TEXT), _ID
            ),
        },
        "/api/tools/{id}/activate": {
            "post": _change_operation(
                "activate", "Serve it; what was quarantined only with the digest of its document.", _ACTIVATION
            )
        },
        "/api/tools/{id}/deactivate": {"post": _change_operation("deactivate", "Serve it no longer.", _EMPTY_BODY)},
        "/api/tools/{id}/deprecate": {"post": _change_operation("deprecate", "Say that it will go.", _DEPRECATION)},
        "/api/tools/{id}/rollback": {
            "post": _change_operation(
                "rollback", "Serve the version before again.", _EMPTY_BODY, object_schema(tools=array_schema(_SUMMARY))
            )
        },
        "/api/tools/{id}/history": {
            "get": management_operation(
                "history", "What happened to it, the newest first.", _EVENTS, _ID, query_parameter("limit", _LIMIT)
            )
        },
        "/api/tools/{id}/callers": {
            "get": management_operation("callers", "Who called it; without a version, any of them.", _CALLERS, _ID)
        },
        "/api/history": {
            "get": management_operation(
                "events", "What happened to all tools.", _EVENTS, query_parameter("limit", _LIMIT)
            )
        },
        **access_paths.key_and_grant_paths(),
        **audit_paths(),
        **access_paths.approval_paths(),
        **access_paths.credential_paths(),
    }


def _list_operation() -> JsonObject:
    parameters = (
        query_parameter("state", {"enum": list(STATES)}),
        query_parameter("toolkit", {"type": "string"}),
        query_parameter("cursor", {"type": "string"}),
    )
    return management_operation("list", "Everything that is registered, in pages.", _PAGE, *parameters)


def _register_operation(readable: Sequence[str]) -> JsonObject:
    dialect = query_parameter(
        "dialect", {"enum": list(readable)}, "What the definition is written in; else as it looks."
    )
    says = "What its author says of how it behaves, beyond what the definition can show; the version must say so too."
    behaviour = query_parameter("behaviour", {"enum": list(BEHAVIOURS)}, says)
    told = management_operation(
        "register", "Register a definition; it is quarantined until somebody activates it.", {}, dialect, behaviour
    )
    told["requestBody"] = request_body(_DEFINITION, required=True)
    told["requestBody"]["content"]["application/json"]["example"] = _EXAMPLE
    created = json_response(
        "It is registered.", object_schema(tools=array_schema(_SUMMARY), findings=array_schema(_FINDING))
    )
    told["responses"] = {"201": {**created, "links": _LINKS}, **error_responses(body=True)}
    return told


def _change_operation(name: str, description: str, body: JsonObject, result: JsonObject = _SUMMARY) -> JsonObject:
    told = management_operation(name, description, result, _ID)
    told["requestBody"] = request_body(body, required=False)
    told["responses"] |= error_responses(body=True)
    return told
