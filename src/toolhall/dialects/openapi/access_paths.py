"""OpenAPI paths of API keys and grants."""

from toolhall.dialects.openapi.builders import (
    ID_SCHEMA,
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
    reference,
    request_body,
)
from toolhall.model.json import JsonObject

_FLAG: JsonObject = {"type": "boolean"}
_VISIBLE_TEXT: JsonObject = {"type": "string", "pattern": "^[\\x21-\\x7e]{1,256}$"}
_KEY = {
    "id": {**TEXT, "description": "Not secret; it is also the first part of the key."},
    "name": {**TEXT, "description": "The caller id that the key authenticates."},
    "owner": {**nullable(TEXT), "description": "The person responsible for the key, if the name differs."},
    "shared": {**_FLAG, "description": "Several programs use the key, so it proves less about the caller."},
    "scopes": array_schema(TEXT),
    "createdAt": TIMESTAMP,
    "expiresAt": nullable(TIMESTAMP),
    "lastUsedAt": nullable(TIMESTAMP),
    "revokedAt": nullable(TIMESTAMP),
    "by": TEXT,
}
_CONDITION: JsonObject = {
    "type": "object",
    "description": "The argument at this JSON pointer must equal the value, or one of the values.",
    "properties": {
        "path": {"type": "string", "pattern": "^(/([^~/\\u0000]|~[01])*){1,32}$", "maxLength": 256},
        "equals": {"$ref": "#/components/schemas/Json"},
        "oneOf": {"type": "array", "items": {"$ref": "#/components/schemas/Json"}, "minItems": 1, "maxItems": 64},
    },
    "required": ["path"],
    "oneOf": [{"required": ["equals"]}, {"required": ["oneOf"]}],
    "additionalProperties": False,
}
_EFFECT: JsonObject = {"enum": ["permit", "forbid"]}
_GRANT: dict[str, JsonObject] = {
    "id": TEXT,
    "effect": _EFFECT,
    "callers": {**TEXT, "description": "A glob that matches caller ids."},
    "tools": {**TEXT, "description": "A glob that matches tool ids; without a version, all versions."},
    "conditions": array_schema(object_schema(path=TEXT, oneOf=array_schema({}))),
    "createdAt": TIMESTAMP,
    "by": TEXT,
}
ACCESS_SCHEMAS: JsonObject = {"ApiKey": object_schema(**_KEY), "Grant": object_schema(**_GRANT)}
_WARNINGS = {
    **array_schema(TEXT),
    "description": "Probable mistakes: unknown names, conditions without effect.",
}
_CREATED_GRANT = object_schema(**_GRANT, warnings=_WARNINGS)
_PLAIN_SCOPES = "admin|observe|approve|act_as|trusted"
_NEW_KEY: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
        "owner": nullable(_VISIBLE_TEXT),
        "shared": {**_FLAG, "default": False},
        "scopes": {
            "type": "array",
            "items": {"type": "string", "pattern": f"^({_PLAIN_SCOPES}|(tools|serve):(\\*|[A-Za-z0-9_-]{{1,64}}))$"},
            "maxItems": 64,
            "default": ["tools:*"],
        },
        "expires": {"type": "string", "pattern": "^([1-9][0-9]{0,3}[dh]|never)$", "default": "90d"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
NEW_GRANT: JsonObject = {
    "type": "object",
    "properties": {
        "callers": _VISIBLE_TEXT,
        "tools": _VISIBLE_TEXT,
        "effect": {**_EFFECT, "default": "permit"},
        "conditions": {"type": "array", "items": _CONDITION, "maxItems": 32},
    },
    "required": ["callers", "tools"],
    "additionalProperties": False,
}
_CREATED_KEY = object_schema(**_KEY, secret={**TEXT, "description": "The key itself; it is never returned again."})


_LISTED_GRANT = object_schema(**_GRANT, calls={"type": "integer", "minimum": 0})


def key_and_grant_paths() -> JsonObject:
    """Operations on API keys and grants."""
    key = reference("ApiKey")
    key_id, grant_id = (path_parameter(name, ID_SCHEMA, f"The {name}'s id.") for name in ("key", "grant"))
    return {
        "/api/keys": {
            "get": management_operation(
                "keys",
                "List all API keys, without their secrets.",
                ok("The list of keys.", object_schema(keys=array_schema(key))),
            ),
            "post": management_operation(
                "createKey",
                "Create an API key.",
                created("The new key, with its secret.", _CREATED_KEY, _undo_link("revokeKey", "key")),
                body=request_body(_NEW_KEY),
            ),
        },
        "/api/keys/{key}": {
            "delete": management_operation(
                "revokeKey", "Revoke an API key; it is refused from now on.", ok("The revoked key.", key), key_id
            )
        },
        "/api/grants": {
            "get": management_operation(
                "grants",
                "List all grants, with the calls that each decided in the last 30 days.",
                ok("The list of grants.", object_schema(grants=array_schema(_LISTED_GRANT))),
            ),
            "post": management_operation(
                "addGrant",
                "Add a grant that permits or forbids callers the use of tools.",
                created("The new grant, with warnings.", _CREATED_GRANT, _undo_link("removeGrant", "grant")),
                body=request_body(NEW_GRANT),
            ),
        },
        "/api/grants/{grant}": {
            "delete": management_operation(
                "removeGrant", "Remove a grant.", ok("The id of the removed grant.", REMOVED), grant_id
            )
        },
    }


def _undo_link(operation: str, parameter: str) -> JsonObject:
    """The link from a created resource to the operation that removes it."""
    return {operation: {"operationId": f"management.{operation}", "parameters": {parameter: "$response.body#/id"}}}
