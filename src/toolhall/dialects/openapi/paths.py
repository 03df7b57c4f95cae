"""OpenAPI paths of the management of a hall (`/api`): those of tools, and all others from their own files."""

from collections.abc import Sequence

from toolhall.dialects.openapi import (
    access_paths,
    approval_paths,
    audit_paths,
    check_paths,
    credential_paths,
    session_paths,
)
from toolhall.dialects.openapi.audit_paths import COUNT, LEVEL_SCHEMA
from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    ID_SCHEMA,
    MANAGEMENT_TAG_NAME,
    REMOVED,
    TEXT,
    TIMESTAMP,
    array_schema,
    created,
    management_operation,
    nullable,
    object_schema,
    ok,
    path_parameter,
    query_parameter,
    reference,
    request_body,
)
from toolhall.dialects.openapi.contract_paths import contract_paths
from toolhall.dialects.openapi.managed_tasks import MANAGED_TASK_SCHEMAS, managed_task_paths
from toolhall.dialects.openapi.server_paths import SERVER_SCHEMAS, server_paths
from toolhall.dialects.openapi.upstream_paths import UPSTREAM_SCHEMAS, upstream_paths
from toolhall.model.json import JsonObject
from toolhall.model.tool import KINDS

_LEVEL_BAND = "^([0-9]|10)(-([0-9]|10))?$"
MANAGEMENT_TAG: JsonObject = {
    "name": MANAGEMENT_TAG_NAME,
    "description": "Registered tools, their states and changes, access rights and the audit.",
}
BEHAVIOURS = ("breaking", "feature")
EFFECTS = ("reads", "writes", "destroys")
STATES = ("registered", "quarantined", "active", "inactive", "withheld")
ORIGINS = ("code", "file", "http", "cli", "tool-server", "upstream")
EVENT_TYPES = (
    "registered",
    "activated",
    "deactivated",
    "quarantined",
    "deprecated",
    "removed",
    "replaced",
    "rolled back",
    "withheld",
    "server changed",
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
    "kind": {"enum": list(KINDS)},
    "uri": {**nullable(TEXT), "description": "The URI of a resource, or its URI template."},
    "mimeType": {**nullable(TEXT), "description": "The MIME type that a resource states."},
    "name": {**TEXT, "description": "The published name."},
    "title": nullable(TEXT),
    "description": TEXT,
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
    "level": {**nullable(LEVEL_SCHEMA), "description": "The level that the definition states."},
    "effect": nullable({"enum": list(EFFECTS)}),
    "tags": array_schema(TEXT),
    "requirements": array_schema(object_schema(kind={"enum": ["secret", "account", "user"]}, name=TEXT)),
    "server": {**nullable(TEXT), "description": "The tool server that declared it."},
    "newest": {"type": "boolean", "description": "Whether no later version is registered."},
}
MANAGEMENT_SCHEMAS: JsonObject = {
    "RegisteredTool": object_schema(**_TOOL),
    "ToolEvent": object_schema(
        at=TIMESTAMP, by=TEXT, id=TEXT, what={"enum": list(EVENT_TYPES)}, detail={"type": "object"}
    ),
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
    **audit_paths.AUDIT_SCHEMAS,
    **approval_paths.APPROVAL_SCHEMAS,
    **credential_paths.CREDENTIAL_SCHEMAS,
    **SERVER_SCHEMAS,
    **UPSTREAM_SCHEMAS,
    **MANAGED_TASK_SCHEMAS,
    "Finding": object_schema(path=TEXT, rule=TEXT, fix=TEXT, severity={"enum": ["error", "warning"]}),
}
_TOOL_DETAILS = object_schema(
    **_TOOL,
    document={"description": "The document as it was registered."},
    findings=array_schema(_FINDING),
    versions=array_schema(
        object_schema(
            id=TEXT,
            state={"enum": list(STATES)},
            registeredAt=TIMESTAMP,
            sunset=nullable(_SUNSET_DATE),
            deprecatedAt=nullable(TIMESTAMP),
            successor=nullable(TEXT),
        )
    ),
    inputSchema={"type": "object"},
    outputSchema=nullable({"type": "object"}),
    examples={**array_schema({"type": "object"}), "description": "Arguments that the input schema gives as examples."},
    completes={**array_schema(TEXT), "description": "The variables or arguments that have completions."},
)
_EVENTS = object_schema(events=array_schema(reference("ToolEvent")))
_CALLERS = object_schema(
    callers=array_schema(
        object_schema(
            caller=TEXT, calls=COUNT, last=TIMESTAMP, versions=array_schema(TEXT), dialects=array_schema(TEXT)
        )
    ),
    others={**COUNT, "description": "The number of calls by callers beyond those listed."},
)
_FACET_NAMES = ("toolkit", "kind", "effect", "level", "state", "origin", "server", "tag")
_FACET: JsonObject = {"type": "object", "additionalProperties": COUNT}
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "tools": array_schema(_SUMMARY),
        "nextCursor": {**TEXT, "description": "Send it as `cursor` to get the next page."},
        "total": {**COUNT, "description": "The number of tools that match."},
        "facets": {
            **object_schema(**dict.fromkeys(_FACET_NAMES, _FACET)),
            "description": "By value, how many tools match everything but the filter of that name; at most 100 values.",
        },
    },
    "required": ["tools", "total", "facets"],
}
_ID = path_parameter("id", ID_SCHEMA, "`Toolkit.tool@1.2.0`, or `Toolkit.tool` for its newest version.")
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
# Operations on a registered tool.
_LINKS: JsonObject = {
    name: {"operationId": f"management.{name}", "parameters": {"id": "$response.body#/tools/0/id"}}
    for name in ("show", "activate", "deactivate", "deprecate", "rollback", "history", "callers", "remove")
}


def management_paths(readable: Sequence[str]) -> JsonObject:
    """All management operations; definitions are read in these dialects."""
    limit = query_parameter("limit", _LIMIT)
    return {
        "/api/tools": {"get": _list_operation(), "post": _register_operation(readable)},
        "/api/definitions/check": {"post": _check_definition_operation(readable)},
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
        **contract_paths(_ID),
        **server_paths(),
        **upstream_paths(),
        **managed_task_paths(),
        "/api/history": {
            "get": management_operation(
                "events", "List the events of all tools, newest first.", ok("The list of events.", _EVENTS), limit
            )
        },
        **access_paths.key_and_grant_paths(),
        **check_paths.check_paths(),
        **audit_paths.audit_paths(),
        **audit_paths.call_paths(),
        **approval_paths.approval_paths(),
        **credential_paths.credential_paths(),
        **session_paths.session_paths(),
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
        query_parameter(
            "query", {**TEXT, "maxLength": 400}, "Words in names, descriptions, parameters and tags; best match first."
        ),
        query_parameter("state", {"enum": list(STATES)}),
        query_parameter("toolkit", {"type": "string"}),
        query_parameter("kind", {"enum": list(KINDS)}),
        query_parameter("effect", {"enum": [*EFFECTS, "none"]}, "`none`: the definition states no effect."),
        query_parameter("level", {**TEXT, "pattern": _LEVEL_BAND}, "The enforced level, or a band such as `4-7`."),
        query_parameter("origin", {"enum": list(ORIGINS)}),
        query_parameter("server", {"type": "string"}, "The tool server that declared it."),
        query_parameter("tag", {"type": "string"}),
        query_parameter("limit", _LIMIT, "At most so many on a page; the setting `page_size` if left out."),
        query_parameter("cursor", {"type": "string"}, "The `nextCursor` of the previous page."),
    )


def _register_operation(readable: Sequence[str]) -> JsonObject:
    body = request_body(_DEFINITION)
    registered = object_schema(tools=array_schema(_SUMMARY), findings=array_schema(_FINDING))
    return management_operation(
        "register",
        "Register a definition; it is quarantined until it is activated.",
        created("The registered tools, with all lint findings.", registered, _LINKS),
        *_definition_parameters(readable),
        body=body,
    )


def _check_definition_operation(readable: Sequence[str]) -> JsonObject:
    checked = object_schema(
        dialect=TEXT, tools=array_schema(object_schema(id=TEXT, name=TEXT)), findings=array_schema(_FINDING)
    )
    return management_operation(
        "checkDefinition",
        "Say what registering a definition would do, without registering it.",
        ok("The tools that it defines, with all lint findings.", checked),
        *_definition_parameters(readable),
        body=request_body(_DEFINITION),
    )


def _definition_parameters(readable: Sequence[str]) -> tuple[JsonObject, ...]:
    return (
        query_parameter("dialect", {"enum": list(readable)}, "The definition's dialect; guessed if left out."),
        query_parameter(
            "behaviour",
            {"enum": list(BEHAVIOURS)},
            "A change of behaviour that the definition does not show; the version must be raised accordingly.",
        ),
    )
