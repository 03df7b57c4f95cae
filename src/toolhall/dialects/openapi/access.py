"""The operations on API keys and grants, for callers who may manage the hall."""

from toolhall.dialects.openapi.parts import (
    MOMENT,
    TEXT,
    body_of,
    errors,
    list_of,
    object_of,
    operation,
    or_null,
    replied,
)
from toolhall.model.json import JsonObject

_FLAG: JsonObject = {"type": "boolean"}
_VISIBLE: JsonObject = {"type": "string", "pattern": "^[\\x21-\\x7e]{1,256}$"}
_KEY = {
    "id": {**TEXT, "description": "Public; it is also the first part of the secret."},
    "name": {**TEXT, "description": "The caller that its holder is."},
    "owner": {**or_null(TEXT), "description": "The person who answers for it, if not of the same name."},
    "shared": {**_FLAG, "description": "Several programs hold it, so it proves less."},
    "scopes": list_of(TEXT),
    "createdAt": MOMENT,
    "expiresAt": or_null(MOMENT),
    "lastUsedAt": or_null(MOMENT),
    "revokedAt": or_null(MOMENT),
    "by": TEXT,
}
_CONDITION: JsonObject = {
    "type": "object",
    "description": "The argument at this JSON pointer is that value, or one of those.",
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
    "callers": {**TEXT, "description": "A glob over the ids of callers."},
    "tools": {**TEXT, "description": "A glob over the ids of tools; without a version it means all of them."},
    "conditions": list_of(object_of(path=TEXT, oneOf=list_of({}))),
    "createdAt": MOMENT,
    "by": TEXT,
}
SCHEMAS: JsonObject = {"ApiKey": object_of(**_KEY), "Grant": object_of(**_GRANT)}
_WARNINGS = {
    **list_of(TEXT),
    "description": "What is probably not meant: unknown names, conditions that change nothing.",
}
_ADDED = object_of(**_GRANT, warnings=_WARNINGS)
_PLAIN_SCOPES = "admin|approve|act_as|trusted"
_NEW_KEY: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
        "owner": or_null(_VISIBLE),
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
    "example": {"name": "ci", "scopes": ["tools:*"], "expires": "30d"},
}
_NEW_GRANT: JsonObject = {
    "type": "object",
    "properties": {
        "callers": _VISIBLE,
        "tools": _VISIBLE,
        "effect": {**_EFFECT, "default": "permit"},
        "conditions": {"type": "array", "items": _CONDITION, "maxItems": 32},
    },
    "required": ["callers", "tools"],
    "additionalProperties": False,
    "example": {"callers": "ci", "tools": "Calendar.*"},
}
_MADE = object_of(**_KEY, secret={**TEXT, "description": "The key itself; it is told this once and never again."})


def paths() -> JsonObject:
    """Every operation."""
    key, grant = {"$ref": "#/components/schemas/ApiKey"}, {"$ref": "#/components/schemas/Grant"}
    return {
        "/api/keys": {
            "get": operation("keys", "Every API key, without its secret.", object_of(keys=list_of(key))),
            "post": _creating("createKey", "Make an API key.", _NEW_KEY, _MADE, ("revokeKey", "key")),
        },
        "/api/keys/{key}": {"delete": operation("revokeKey", "From now on this key opens nothing.", key, _id("key"))},
        "/api/grants": {
            "get": operation("grants", "Every grant.", object_of(grants=list_of(grant))),
            "post": _creating(
                "addGrant", "Permit callers tools, or forbid them.", _NEW_GRANT, _ADDED, ("removeGrant", "grant")
            ),
        },
        "/api/grants/{grant}": {
            "delete": operation("removeGrant", "Forget a grant.", object_of(removed=TEXT), _id("grant"))
        },
    }


def _id(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "description": "Its id.", "schema": {**TEXT, "minLength": 1}}


def _creating(name: str, says: str, body: JsonObject, answer: JsonObject, undone: tuple[str, str]) -> JsonObject:
    told = operation(name, says, answer)
    told["requestBody"] = body_of(body, required=True)
    by, parameter = undone
    link = {"operationId": f"management.{by}", "parameters": {parameter: "$response.body#/id"}}
    told["responses"] = {"201": {**replied("It is made.", answer), "links": {by: link}}, **errors(body=True)}
    return told
