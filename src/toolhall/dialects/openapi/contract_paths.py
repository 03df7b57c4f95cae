"""OpenAPI paths of contracts: the differences between versions, what dialects cannot express, and lock files."""

from toolhall.dialects.openapi.builders import (
    TEXT,
    TIMESTAMP,
    array_schema,
    management_operation,
    nullable,
    object_schema,
    ok,
    query_parameter,
    request_body,
)
from toolhall.model.json import JsonObject

_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_DIGEST: JsonObject = {"type": "string", "pattern": "^sha256-[0-9a-f]{64}$"}
_DAY: JsonObject = {"type": "string", "format": "date"}
_BUMP: JsonObject = {"enum": ["major", "minor", "patch", "none"]}
_CHANGES = array_schema(object_schema(kind={"enum": ["breaking", "feature", "fix"]}, path=TEXT, reason=TEXT))
_CALLERS = array_schema(object_schema(caller=TEXT, calls=_COUNT, last=TIMESTAMP))
_JSON: JsonObject = {"description": "The definition as MCP shows it."}
_DIFF: JsonObject = {
    "type": "object",
    "properties": {
        "from": {**nullable(TEXT), "description": "The version it is compared with; null for the first version."},
        "to": TEXT,
        "required": {**_BUMP, "description": "How much the version has to rise."},
        "declared": {**_BUMP, "description": "How much it rises."},
        "ok": {"type": "boolean", "description": "Whether it rises enough."},
        "changes": _CHANGES,
        "callers": {**_CALLERS, "description": "Who called the earlier version, if anything changed."},
        "documents": {
            "type": "object",
            "properties": {"from": _JSON, "to": _JSON},
            "required": ["from", "to"],
        },
    },
    "required": ["from", "to", "required", "declared", "ok", "changes", "callers", "documents"],
}
_LOSSES = object_schema(
    dialects=array_schema(
        object_schema(
            dialect={**TEXT, "description": "With its revision: `mcp@2025-06-18`."},
            exact={"type": "boolean"},
            refused={**nullable(array_schema(TEXT)), "description": "Why it cannot be written at all."},
            losses=array_schema(object_schema(path=TEXT, reason=TEXT)),
        )
    )
)
_PAIR: JsonObject = {
    "type": "object",
    "properties": {"from": TEXT, "to": TEXT, "changes": _CHANGES, "callers": _CALLERS},
    "required": ["from", "to", "changes", "callers"],
}
_CONTRACTS = object_schema(
    breaking=array_schema(_PAIR),
    deprecations=array_schema(
        object_schema(
            id=TEXT,
            sunset=nullable(_DAY),
            successor=nullable(TEXT),
            deprecatedAt=nullable(TIMESTAMP),
            callers=_CALLERS,
        )
    ),
)
_LOCKED_TOOL: JsonObject = {
    "type": "object",
    "properties": {"shown": _DIGEST, "contract": _DIGEST},
    "required": ["shown", "contract"],
    "additionalProperties": False,
}
_LOCK: JsonObject = {
    "type": "object",
    "properties": {
        "lock": {
            "type": "object",
            "description": "The content of the file that `toolhall lock` wrote.",
            "properties": {
                "lock": {"const": 1},
                "tools": {"type": "object", "additionalProperties": _LOCKED_TOOL},
            },
            "required": ["lock", "tools"],
            "additionalProperties": False,
        }
    },
    "required": ["lock"],
    "additionalProperties": False,
}
_DRIFT = object_schema(tool=TEXT, what={"enum": ["added", "removed", "shown", "contract", "both"]})
_LOCK_CHECK = object_schema(
    ok={"type": "boolean"},
    checked={**_COUNT, "description": "The number of tools in the lock file."},
    drift=array_schema(_DRIFT),
)


def contract_paths(tool_id: JsonObject) -> JsonObject:
    """Operations on what versions promise; `tool_id` is the path parameter of a tool."""
    return {
        "/api/tools/{id}/diff": {
            "get": management_operation(
                "diff",
                "Compare a version of a tool with another one, and name the callers of that. By default it is the"
                " version before; for a tool in quarantine, the version that is served.",
                ok("What changed, and how much the version has to rise.", _DIFF),
                tool_id,
                query_parameter("from", {**TEXT, "minLength": 1}, "The version to compare with."),
            )
        },
        "/api/tools/{id}/losses": {
            "get": management_operation(
                "losses",
                "List what each dialect and revision cannot express of a tool.",
                ok("All dialects.", _LOSSES),
                tool_id,
            )
        },
        "/api/contracts": {
            "get": management_operation(
                "contracts",
                "List the newest versions that break the ones before, and all deprecations; callers are those among the"
                " newest 10,000 calls.",
                ok("Broken contracts, and those that end.", _CONTRACTS),
            )
        },
        "/api/contracts/lock": {
            "post": management_operation(
                "checkLock",
                "Compare what is served with a lock file; nothing is changed.",
                ok("The tools that drifted.", _LOCK_CHECK),
                body=request_body(_LOCK),
            )
        },
    }
