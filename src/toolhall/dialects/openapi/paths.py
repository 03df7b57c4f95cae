"""OpenAPI paths of the hall itself (`/tools`, `/health`) and of its management (`/api/tools`, `/api/audit`)."""

from collections.abc import Sequence

from toolhall.dialects.openapi import access_paths
from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    MANAGEMENT_TAG_NAME,
    REMOVED,
    TEXT,
    TIMESTAMP,
    array_schema,
    created,
    json_response,
    management_operation,
    nullable,
    object_schema,
    ok,
    path_parameter,
    query_parameter,
    reference,
    request_body,
)
from toolhall.model.json import JsonObject

HALL_TAG: JsonObject = {"name": "hall", "description": "The hall itself: its tools and its health."}
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
            "description": "What the dialect cannot express of a tool: a JSON pointer, and the reason.",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "path": _TEXT, "reason": _TEXT},
                "required": ["tool", "path", "reason"],
            },
        },
        "refused": {
            "type": "array",
            "description": "Tools that this dialect cannot express without changing them, and why.",
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
        "tools": {"type": "integer", "description": "The number of tools."},
    },
    "required": ["status", "uptime"],  # the others are returned only to callers with management rights
}


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
    "log": {**TEXT, "description": "The log that holds the record; each process has its own."},
    "number": {**_COUNT, "description": "The number of the line in that log."},
    "at": TIMESTAMP,
    "call": TEXT,
    "caller": TEXT,
    "person": {**TEXT, "description": "The person responsible for the caller, if the name differs."},
    "actingFor": TEXT,
    "dialect": {**TEXT, "description": "Ends with `/management` for a change of the hall itself."},
    "tool": {**TEXT, "description": "The tool id; for a tool that was not found, the requested name."},
    "definitionSha256": _SHA256,
    "argumentsSha256": _SHA256,
    "level": _LEVEL_SCHEMA,
    "verdict": {"enum": ["allow", "deny", "verify"]},
    "grant": {**TEXT, "description": "The grant that decided the verdict."},
    "reason": TEXT,
    "approval": TEXT,
    "outcome": {**TEXT, "description": "`ok`, `tool_error`, `asked`, `intent`, or the name of the error."},
    "phase": {"const": "intent", "description": "Written before a side effect; absent in the record of the outcome."},
    "durationUs": _COUNT,
    "bytesIn": _COUNT,
    "bytesOut": _COUNT,
    "redactions": _COUNT,
}
AUDIT_SCHEMAS: JsonObject = {
    "Record": {"type": "object", "properties": _RECORD_PROPERTIES, "required": list(_RECORD_REQUIRED)}
}


MANAGEMENT_TAG: JsonObject = {
    "name": MANAGEMENT_TAG_NAME,
    "description": "Registered tools, their states and changes, access rights and the audit.",
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
    "description": "The first day on which the tool is gone, in UTC.",
}
_SUMMARY = reference("RegisteredTool")
_FINDING = reference("Finding")
_TOOL = {
    "id": TEXT,
    "toolkit": TEXT,
    "tool": TEXT,
    "version": TEXT,
    "name": {**TEXT, "description": "The published name."},
    "title": nullable(TEXT),
    "state": {"enum": list(STATES)},
    "origin": {"enum": list(ORIGINS)},
    "originDetail": TEXT,
    "by": {**TEXT, "description": "The caller that registered it."},
    "registeredAt": TIMESTAMP,
    "changedAt": TIMESTAMP,
    "deprecatedAt": nullable(TIMESTAMP),
    "sunset": nullable(_SUNSET_DATE),
    "successor": nullable(TEXT),
    "dialect": {**TEXT, "description": "The dialect of its document; `toolhall` for tools defined in code."},
    "digests": object_schema(shown=TEXT, contract=TEXT, document=_DIGEST),
    "served": {"type": "boolean", "description": "Whether it can be called now."},
    "effectiveLevel": {
        "type": "integer",
        "minimum": 0,
        "maximum": 10,
        "description": "The security level that is enforced.",
    },
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
    document={"description": "The document as it was registered."},
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
    others={**_COUNT, "description": "The number of calls by callers beyond those listed."},
)
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "tools": array_schema(_SUMMARY),
        "nextCursor": {**TEXT, "description": "Send it as `cursor` to get the next page."},
    },
    "required": ["tools"],
}
_ID = path_parameter("id", {**TEXT, "minLength": 1}, "`Toolkit.tool@1.2.0`, or `Toolkit.tool` for its newest version.")
_LIMIT: JsonObject = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
_ACTIVATION: JsonObject = {
    "type": "object",
    "properties": {
        "seen": {"anyOf": [_DIGEST, {"type": "null"}], "description": "The digest of the document that you reviewed."}
    },
    "additionalProperties": False,
}
_DEPRECATION: JsonObject = {
    "type": "object",
    "properties": {
        "sunset": nullable(_SUNSET_DATE),
        "successor": {
            **nullable({**TEXT, "minLength": 1, "maxLength": 256}),
            "description": "The tool to call instead.",
        },
    },
    "additionalProperties": False,
}
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
# Operations on a registered tool.
_LINKS: JsonObject = {
    name: {"operationId": f"management.{name}", "parameters": {"id": "$response.body#/tools/0/id"}}
    for name in ("show", "activate", "deactivate", "deprecate", "rollback", "history", "callers", "remove")
}


def hall_paths(dialects: Sequence[str]) -> JsonObject:
    """Operations that need no management rights: the list of tools in any of these dialects, and health."""
    return {
        "/tools": {"get": _tools_operation(dialects)},
        "/health": {
            "get": _health_operation(
                "health",
                "The health of the hall and its components.",
                json_response("Healthy or degraded.", _HEALTH),
                json_response("A component is unhealthy.", _HEALTH),
            )
        },
        "/health/live": {
            "get": _health_operation(
                "live",
                "Whether the process responds.",
                json_response("The process responds.", _status_schema("alive")),
                json_response("The process does not respond.", _status_schema("alive")),
            )
        },
        "/health/ready": {
            "get": _health_operation(
                "ready",
                "Whether the hall accepts calls.",
                json_response("The hall accepts calls.", _status_schema("ready", "stopping")),
                json_response("The hall is stopping.", _status_schema("ready", "stopping")),
            )
        },
    }


def _tools_operation(dialects: Sequence[str]) -> JsonObject:
    text: JsonObject = {"type": "string"}
    return {
        "operationId": "hall.tools",
        "tags": [HALL_TAG["name"]],
        "summary": "List tools",
        "description": "List or search tool definitions in any dialect, in pages.",
        "parameters": [
            query_parameter(
                "dialect", {"enum": list(dialects), "default": "mcp"}, "The dialect of the returned definitions."
            ),
            query_parameter(
                "query", text, "Words in names, descriptions, parameters and tags; the best match comes first."
            ),
            query_parameter("toolkit", text, "Only tools of this toolkit."),
            query_parameter("tool", text, "Only this tool: its published name, or its id with or without the version."),
            query_parameter("tag", text, "Only tools with this tag."),
            query_parameter("cursor", text, "The `nextCursor` of the previous page."),
        ],
        "responses": {
            "200": json_response("One page of tools.", _TOOL_LISTING),
            "400": {"$ref": "#/components/responses/Malformed"},
            "404": {"$ref": "#/components/responses/NotFound"},
        },
    }


def _health_operation(name: str, description: str, healthy: JsonObject, unhealthy: JsonObject) -> JsonObject:
    return {
        "operationId": f"hall.{name}",
        "tags": [HALL_TAG["name"]],
        "description": description,
        "responses": {"200": healthy, "503": unhealthy},
    }


def _status_schema(*states: str) -> JsonObject:
    return {"type": "object", "properties": {"status": {"enum": list(states)}}, "required": ["status"]}


def management_paths(readable: Sequence[str]) -> JsonObject:
    """All management operations; definitions are read in these dialects."""
    limit = query_parameter("limit", _LIMIT)
    return {
        "/api/tools": {"get": _list_operation(), "post": _register_operation(readable)},
        "/api/tools/{id}": {
            "get": management_operation(
                "show",
                "Get one tool, with its document and all lint findings.",
                ok("The tool, with its document, findings and versions.", _TOOL_DETAILS),
                _ID,
            ),
            "delete": management_operation(
                "remove", "Remove a tool; its history is kept.", ok("The id of the removed tool.", REMOVED), _ID
            ),
        },
        **_state_paths(),
        "/api/tools/{id}/history": {
            "get": management_operation(
                "history", "List the events of a tool, newest first.", ok("The list of events.", _EVENTS), _ID, limit
            )
        },
        "/api/tools/{id}/callers": {
            "get": management_operation(
                "callers",
                "List the callers of a tool; without a version, of all its versions.",
                ok("The list of callers.", _CALLERS),
                _ID,
            )
        },
        "/api/history": {
            "get": management_operation(
                "events", "List the events of all tools, newest first.", ok("The list of events.", _EVENTS), limit
            )
        },
        **access_paths.key_and_grant_paths(),
        **_audit_paths(),
        **access_paths.approval_paths(),
        **access_paths.credential_paths(),
    }


def _state_paths() -> JsonObject:
    """Operations that change the state of a tool."""
    summary, no_body = ok("The updated record.", _SUMMARY), request_body(EMPTY_BODY, required=False)
    return {
        "/api/tools/{id}/activate": {
            "post": management_operation(
                "activate",
                "Serve a tool; a quarantined one only with the digest of its document.",
                summary,
                _ID,
                body=request_body(_ACTIVATION, required=False),
            )
        },
        "/api/tools/{id}/deactivate": {
            "post": management_operation("deactivate", "Stop serving a tool.", summary, _ID, body=no_body)
        },
        "/api/tools/{id}/deprecate": {
            "post": management_operation(
                "deprecate",
                "Announce that a tool will be removed.",
                summary,
                _ID,
                body=request_body(_DEPRECATION, required=False),
            )
        },
        "/api/tools/{id}/rollback": {
            "post": management_operation(
                "rollback",
                "Serve the previous version of a tool again.",
                ok("The tools whose state changed.", object_schema(tools=array_schema(_SUMMARY))),
                _ID,
                body=no_body,
            )
        },
    }


def _list_operation() -> JsonObject:
    return management_operation(
        "list",
        "List all registered tools, in pages.",
        ok("One page of tools.", _PAGE),
        query_parameter("state", {"enum": list(STATES)}),
        query_parameter("toolkit", {"type": "string"}),
        query_parameter("cursor", {"type": "string"}),
    )


def _register_operation(readable: Sequence[str]) -> JsonObject:
    body = request_body(_DEFINITION)
    body["content"]["application/json"]["example"] = _EXAMPLE
    registered = object_schema(tools=array_schema(_SUMMARY), findings=array_schema(_FINDING))
    return management_operation(
        "register",
        "Register a definition; it is quarantined until it is activated.",
        created("The registered tools, with all lint findings.", registered, _LINKS),
        query_parameter("dialect", {"enum": list(readable)}, "The definition's dialect; guessed if left out."),
        query_parameter(
            "behaviour",
            {"enum": list(BEHAVIOURS)},
            "A change of behaviour that the definition does not show; the version must be raised accordingly.",
        ),
        body=body,
    )


def _audit_paths() -> JsonObject:
    problems = array_schema({**TEXT, "description": "A problem of the audit that was accepted."})
    return {
        "/api/audit": {
            "get": management_operation(
                "audit",
                "List the audit records that match, newest first.",
                ok("The list of records.", object_schema(records=array_schema(reference("Record")))),
                query_parameter("caller", {"type": "string"}),
                query_parameter("tool", {"type": "string"}, "An id, or `Toolkit.tool` for all versions."),
                query_parameter("outcome", {"type": "string"}),
                query_parameter("level", _LEVEL_SCHEMA, "At least this level."),
                query_parameter("since", _TIME_FILTER, "A day or a time; UTC if it has no zone."),
                query_parameter("until", _TIME_FILTER, "A day or a time, exclusive."),
                query_parameter("limit", _LIMIT),
            )
        },
        "/api/audit/accept": {
            "post": management_operation(
                "accept_audit",
                "Accept an audit that was truncated or replaced, so that calls of level 4 and above run again.",
                ok("The problems that were accepted.", object_schema(accepted=problems)),
            )
        },
    }
