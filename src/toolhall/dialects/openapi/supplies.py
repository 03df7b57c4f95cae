"""The operations on secrets, for callers who may manage the hall, and on linked accounts, for everybody's own."""

from toolhall.dialects.openapi.parts import (
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

_USER: JsonObject = {"type": "string", "pattern": r"^[^\u0000]{1,256}$"}
_SCOPE: JsonObject = {"type": "string", "pattern": r"^[\x21\x23-\x5b\x5d-\x7e]{1,512}$"}
SCHEMAS: JsonObject = {
    "Secret": object_of(
        name=TEXT,
        user={**or_null(TEXT), "description": "Whose it is; null: the hall's, for everybody who has none."},
        hint={**TEXT, "description": "Another one when the value is another; says nothing else of it."},
        by=TEXT,
        createdAt=MOMENT,
        changedAt=MOMENT,
        usable={"type": "boolean", "description": "False: it does not open; set it again."},
    ),
    "Provider": object_of(
        name=TEXT,
        issuer=TEXT,
        scopes={**list_of(TEXT), "description": "Always asked for, beside what a tool needs."},
        redirect_uri={**or_null(TEXT), "description": "To be registered there; null while it cannot be found out."},
    ),
    "Account": object_of(
        id=TEXT,
        user=TEXT,
        provider=TEXT,
        issuer=TEXT,
        scopes=list_of(TEXT),
        state={"enum": ["connected", "broken"], "description": "`broken`: it has to be linked again."},
        createdAt=MOMENT,
        refreshedAt=or_null(MOMENT),
        expiresAt={**or_null(MOMENT), "description": "Of the token at hand, which is renewed before."},
    ),
}
_DEVICE = object_of(
    user_code={**TEXT, "description": "What the person enters."},
    verification_uri={**TEXT, "description": "Where."},
    verification_uri_complete=or_null(TEXT),
    interval={"type": "number"},
)
_LINK = object_of(
    id=TEXT,
    url={**TEXT, "description": "The page on which the person links the account."},
    check_url={**TEXT, "description": "Says pending, completed or failed."},
    expiresAt=MOMENT,
    device=or_null(_DEVICE),
    authorize_url={**or_null(TEXT), "description": "Where the person goes who pastes the address afterwards."},
)
_VALUE: JsonObject = {
    "type": "object",
    "properties": {"value": {**TEXT, "minLength": 4, "maxLength": 65536, "writeOnly": True}},
    "required": ["value"],
    "additionalProperties": False,
    "example": {"value": "a-long-random-value"},
}
_NEW_LINK: JsonObject = {
    "type": "object",
    "properties": {
        "provider": {**TEXT, "minLength": 1, "maxLength": 64},
        "scopes": {"type": "array", "items": _SCOPE, "maxItems": 100},
        "how": {"enum": ["browser", "device", "paste"], "default": "browser"},
    },
    "required": ["provider"],
    "additionalProperties": False,
    "example": {"provider": "google", "scopes": ["https://www.googleapis.com/auth/gmail.readonly"]},
}
_PASTED: JsonObject = {
    "type": "object",
    "properties": {"url": {**TEXT, "minLength": 1, "maxLength": 16384}},
    "required": ["url"],
    "additionalProperties": False,
}
_NOTHING: JsonObject = {"type": "object", "additionalProperties": False}
_PASTED_REPLY = object_of(id=TEXT, status={"enum": ["completed"]})
_GONE = object_of(
    removed=TEXT,
    unrevoked={**or_null(TEXT), "description": "Why the provider may still honour its tokens, if it may."},
)


def paths() -> JsonObject:
    """Every operation."""
    return {**_secrets(), **_accounts()}


def _secrets() -> JsonObject:
    secret, user = {"$ref": "#/components/schemas/Secret"}, query("user", _USER)
    name = _in_path("name", {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"})
    of_user = {**user, "required": True}
    return {
        "/api/secrets": {
            "get": operation("secrets", "Every secret, without its value.", object_of(secrets=list_of(secret))),
            "delete": operation(
                "removeSecretsOf", "Forget all of one user's, with their keys.", object_of(removed=TEXT), of_user
            ),
        },
        "/api/secrets/{name}": {
            "put": _with_body(operation("setSecret", "Set it; no operation returns it.", secret, name, user), _VALUE),
            "delete": operation("removeSecret", "Forget it.", object_of(removed=TEXT), name, user),
        },
        "/api/secrets/rotate": {
            "post": _with_body(
                operation("rotateSecrets", "Seal all of them anew.", object_of(rotated={"type": "integer"})), _NOTHING
            )
        },
    }


def _accounts() -> JsonObject:
    account, provider = ({"$ref": f"#/components/schemas/{each}"} for each in ("Account", "Provider"))
    account_id, link_id = (_in_path(each, {**TEXT, "minLength": 1}) for each in ("id", "link"))
    return {
        "/api/providers": {
            "get": operation("providers", "Where accounts can be linked.", object_of(providers=list_of(provider)))
        },
        "/api/accounts": {
            "get": operation("accounts", "What is linked.", object_of(accounts=list_of(account)), query("user", _USER)),
            "post": _made(_with_body(operation("linkAccount", "Begin to link an account.", _LINK), _NEW_LINK)),
        },
        "/api/accounts/{id}": {"delete": operation("removeAccount", "Revoke and forget it.", _GONE, account_id)},
        "/api/accounts/{link}/paste": {
            "post": _with_body(operation("pasteLink", "Finish a link.", _PASTED_REPLY, link_id), _PASTED)
        },
    }


def _in_path(name: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _with_body(told: JsonObject, body: JsonObject) -> JsonObject:
    told["requestBody"] = body_of(body, required=body is not _NOTHING)
    told["responses"] |= errors(body=True)
    return told


def _made(told: JsonObject) -> JsonObject:
    """The same, where something is begun that a person finishes, if there is not too much of it already."""
    schema = told["responses"].pop("200")["content"]["application/json"]["schema"]
    told["responses"] |= {
        "202": replied("It is begun; a person does the rest.", schema),
        "429": {"$ref": "#/components/responses/Limited"},
    }
    return told
