"""OpenAPI paths of API keys, grants, approvals, factors, secrets and linked accounts."""

from toolhall.dialects.openapi.builders import (
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
from toolhall.model.json import JsonObject

_FLAG: JsonObject = {"type": "boolean"}
_VISIBLE_TEXT: JsonObject = {"type": "string", "pattern": "^[\\x21-\\x7e]{1,256}$"}
_KEY = {
    "id": {**TEXT, "description": "Public; it is also the first part of the secret."},
    "name": {**TEXT, "description": "The caller that its holder is."},
    "owner": {**nullable(TEXT), "description": "The person who answers for it, if not of the same name."},
    "shared": {**_FLAG, "description": "Several programs hold it, so it proves less."},
    "scopes": array_schema(TEXT),
    "createdAt": TIMESTAMP,
    "expiresAt": nullable(TIMESTAMP),
    "lastUsedAt": nullable(TIMESTAMP),
    "revokedAt": nullable(TIMESTAMP),
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
    "conditions": array_schema(object_schema(path=TEXT, oneOf=array_schema({}))),
    "createdAt": TIMESTAMP,
    "by": TEXT,
}
ACCESS_SCHEMAS: JsonObject = {"ApiKey": object_schema(**_KEY), "Grant": object_schema(**_GRANT)}
_WARNINGS = {
    **array_schema(TEXT),
    "description": "What is probably not meant: unknown names, conditions that change nothing.",
}
_CREATED_GRANT = object_schema(**_GRANT, warnings=_WARNINGS)
_PLAIN_SCOPES = "admin|approve|act_as|trusted"
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
    "example": {"name": "ci", "scopes": ["tools:*"], "expires": "30d"},
}
_NEW_GRANT: JsonObject = {
    "type": "object",
    "properties": {
        "callers": _VISIBLE_TEXT,
        "tools": _VISIBLE_TEXT,
        "effect": {**_EFFECT, "default": "permit"},
        "conditions": {"type": "array", "items": _CONDITION, "maxItems": 32},
    },
    "required": ["callers", "tools"],
    "additionalProperties": False,
    "example": {"callers": "ci", "tools": "Calendar.*"},
}
_CREATED_KEY = object_schema(
    **_KEY, secret={**TEXT, "description": "The key itself; it is told this once and never again."}
)


def key_and_grant_paths() -> JsonObject:
    """Every operation."""
    key, grant = {"$ref": "#/components/schemas/ApiKey"}, {"$ref": "#/components/schemas/Grant"}
    return {
        "/api/keys": {
            "get": management_operation(
                "keys", "Every API key, without its secret.", object_schema(keys=array_schema(key))
            ),
            "post": _create_operation("createKey", "Make an API key.", _NEW_KEY, _CREATED_KEY, ("revokeKey", "key")),
        },
        "/api/keys/{key}": {
            "delete": management_operation(
                "revokeKey", "From now on this key opens nothing.", key, _id_parameter("key")
            )
        },
        "/api/grants": {
            "get": management_operation("grants", "Every grant.", object_schema(grants=array_schema(grant))),
            "post": _create_operation(
                "addGrant",
                "Permit callers tools, or forbid them.",
                _NEW_GRANT,
                _CREATED_GRANT,
                ("removeGrant", "grant"),
            ),
        },
        "/api/grants/{grant}": {
            "delete": management_operation(
                "removeGrant", "Forget a grant.", object_schema(removed=TEXT), _id_parameter("grant")
            )
        },
    }


def _id_parameter(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "description": "Its id.", "schema": {**TEXT, "minLength": 1}}


def _create_operation(
    name: str, description: str, body: JsonObject, result: JsonObject, undo: tuple[str, str]
) -> JsonObject:
    told = management_operation(name, description, result)
    told["requestBody"] = request_body(body, required=True)
    by, parameter = undo
    link = {"operationId": f"management.{by}", "parameters": {parameter: "$response.body#/id"}}
    told["responses"] = {
        "201": {**json_response("It is made.", result), "links": {by: link}},
        **error_responses(body=True),
    }
    return told


_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CODE: JsonObject = {
    "type": "string",
    "pattern": r"^[^\u0000]*$",
    "minLength": 1,
    "maxLength": 16,
    "description": "Of the person's authenticator; each is good once.",
}
_PERSON: JsonObject = {"type": "string", "pattern": r"^[^\u0000-\u001f]*$", "minLength": 1, "maxLength": 256}
APPROVAL_SCHEMAS: JsonObject = {
    "Approval": object_schema(
        id=TEXT,
        state={"enum": ["pending", "approved", "denied", "consumed", "expired"]},
        how={"enum": ["step_up", "approval", "second_person"]},
        tool={**TEXT, "description": "With its version."},
        level={"type": "integer", "minimum": 0, "maximum": 10},
        effect=nullable(TEXT),
        caller=TEXT,
        person={**TEXT, "description": "Who answers for the caller."},
        actingFor={**nullable(TEXT), "description": "The user that it calls for."},
        dialect=TEXT,
        shown={**TEXT, "description": "The arguments, exactly as they will run, as JSON."},
        shownSha256=_SHA256,
        argumentsSha256=_SHA256,
        definitionSha256=_SHA256,
        codeSha256={
            **TEXT,
            "description": "Of the code that would run, in hexadecimal; empty for a tool server's tool.",
        },
        createdAt=TIMESTAMP,
        expiresAt=TIMESTAMP,
        approver=nullable(TEXT),
        method=nullable({"enum": ["totp", "passkey", "terminal", "cli"]}),
        decidedAt=nullable(TIMESTAMP),
        mayApprove={"type": "boolean", "description": "Whether you may; whoever sees it may deny it."},
        url={**TEXT, "description": "The page for people."},
    ),
    "Factor": object_schema(
        id=TEXT,
        person=TEXT,
        kind={"enum": ["totp", "passkey", "invitation"]},
        by=TEXT,
        createdAt=TIMESTAMP,
        usedAt=nullable(TIMESTAMP),
        expiresAt=nullable(TIMESTAMP),
    ),
}
_NEW_FACTOR: JsonObject = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["totp", "passkey"]},
        "person": _PERSON,
        "code": {**nullable(_CODE), "description": "Where the person has a factor already."},
    },
    "required": ["kind", "person"],
    "additionalProperties": False,
    "example": {"kind": "totp", "person": "alice"},
}
_CONFIRMATION: JsonObject = {
    "type": "object",
    "properties": {"enrolment": {**TEXT, "maxLength": 2000}, "code": _CODE},
    "required": ["enrolment", "code"],
    "additionalProperties": False,
}
_PROOF: JsonObject = {
    "type": "object",
    "properties": {"code": _CODE},
    "required": ["code"],
    "additionalProperties": False,
}
_REMOVAL: JsonObject = {"type": "object", "properties": {"code": nullable(_CODE)}, "additionalProperties": False}
_EMPTY_BODY: JsonObject = {"type": "object", "additionalProperties": False}
_CREATED_FACTOR: JsonObject = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["totp", "passkey"]},
        "person": TEXT,
        "secret": {**TEXT, "description": "Of an authenticator; told this once."},
        "uri": {**TEXT, "description": "The same as an otpauth address."},
        "enrolment": {**TEXT, "description": "Send it back with the first code."},
        "url": {**TEXT, "description": "Where one passkey can be added, once."},
        "expiresAt": TIMESTAMP,
    },
    "required": ["kind", "person"],
}
_ID_PARAMETER: JsonObject = {"name": "id", "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
_RATE_LIMITED: JsonObject = {"429": {"$ref": "#/components/responses/Limited"}}


def approval_paths() -> JsonObject:
    """Every operation."""
    approval, factor = {"$ref": "#/components/schemas/Approval"}, {"$ref": "#/components/schemas/Factor"}
    return {
        "/api/approvals": {
            "get": management_operation(
                "approvals", "What waits for you.", object_schema(approvals=array_schema(approval))
            )
        },
        "/api/approvals/{id}/approve": {
            "post": _rate_limited_operation(
                "approve", "Let this call run, once; only its person may.", approval, _PROOF, _ID_PARAMETER
            )
        },
        "/api/approvals/{id}/deny": {
            "post": _rate_limited_operation(
                "deny", "Do not let it run.", approval, _EMPTY_BODY, _ID_PARAMETER, required=False
            )
        },
        "/api/factors": {
            "get": management_operation(
                "factors",
                "What people prove themselves with.",
                object_schema(factors=array_schema(factor)),
                query_parameter("person", {"type": "string"}),
            ),
            "post": _as_created(
                _rate_limited_operation(
                    "addFactor", "Begin to add a factor for a person.", _CREATED_FACTOR, _NEW_FACTOR
                )
            ),
        },
        "/api/factors/confirm": {
            "post": _as_created(
                _rate_limited_operation("confirmFactor", "Keep an authenticator.", factor, _CONFIRMATION)
            )
        },
        "/api/factors/{id}": {
            "delete": _rate_limited_operation(
                "removeFactor", "Forget a factor.", object_schema(removed=TEXT), _REMOVAL, _ID_PARAMETER, required=False
            )
        },
    }


def _rate_limited_operation(
    name: str, description: str, result: JsonObject, body: JsonObject, *parameters: JsonObject, required: bool = True
) -> JsonObject:
    told = management_operation(name, description, result, *parameters)
    told["requestBody"] = request_body(body, required=required)
    told["responses"] |= error_responses(body=True) | _RATE_LIMITED
    return told


def _as_created(operation: JsonObject) -> JsonObject:
    """The same, where something new comes of it."""
    schema = operation["responses"].pop("200")["content"]["application/json"]["schema"]
    operation["responses"]["201"] = json_response("It is made.", schema)
    return operation


_USER: JsonObject = {"type": "string", "pattern": r"^[^\u0000]{1,256}$"}
_SCOPE: JsonObject = {"type": "string", "pattern": r"^[\x21\x23-\x5b\x5d-\x7e]{1,512}$"}
CREDENTIAL_SCHEMAS: JsonObject = {
    "Secret": object_schema(
        name=TEXT,
        user={**nullable(TEXT), "description": "Whose it is; null: the hall's, for everybody who has none."},
        hint={**TEXT, "description": "Another one when the value is another; says nothing else of it."},
        by=TEXT,
        createdAt=TIMESTAMP,
        changedAt=TIMESTAMP,
        usable={"type": "boolean", "description": "False: it does not open; set it again."},
    ),
    "Provider": object_schema(
        name=TEXT,
        issuer=TEXT,
        scopes={**array_schema(TEXT), "description": "Always asked for, beside what a tool needs."},
        redirect_uri={**nullable(TEXT), "description": "To be registered there; null while it cannot be found out."},
    ),
    "Account": object_schema(
        id=TEXT,
        user=TEXT,
        provider=TEXT,
        issuer=TEXT,
        scopes=array_schema(TEXT),
        state={"enum": ["connected", "broken"], "description": "`broken`: it has to be linked again."},
        createdAt=TIMESTAMP,
        refreshedAt=nullable(TIMESTAMP),
        expiresAt={**nullable(TIMESTAMP), "description": "Of the token at hand, which is renewed before."},
    ),
}
_DEVICE_CODE = object_schema(
    user_code={**TEXT, "description": "What the person enters."},
    verification_uri={**TEXT, "description": "Where."},
    verification_uri_complete=nullable(TEXT),
    interval={"type": "number"},
)
_LINK = object_schema(
    id=TEXT,
    url={**TEXT, "description": "The page on which the person links the account."},
    check_url={**TEXT, "description": "Says pending, completed or failed."},
    expiresAt=TIMESTAMP,
    device=nullable(_DEVICE_CODE),
    authorize_url={**nullable(TEXT), "description": "Where the person goes who pastes the address afterwards."},
)
_SECRET_VALUE: JsonObject = {
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
_PASTED_URL: JsonObject = {
    "type": "object",
    "properties": {"url": {**TEXT, "minLength": 1, "maxLength": 16384}},
    "required": ["url"],
    "additionalProperties": False,
}
_PASTE_RESULT = object_schema(id=TEXT, status={"enum": ["completed"]})
_REMOVED_ACCOUNT = object_schema(
    removed=TEXT,
    unrevoked={**nullable(TEXT), "description": "Why the provider may still honour its tokens, if it may."},
)


def credential_paths() -> JsonObject:
    """Every operation."""
    return {**_secret_paths(), **_account_paths()}


def _secret_paths() -> JsonObject:
    secret, user = {"$ref": "#/components/schemas/Secret"}, query_parameter("user", _USER)
    name = _path_parameter("name", {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"})
    of_user = {**user, "required": True}
    return {
        "/api/secrets": {
            "get": management_operation(
                "secrets", "Every secret, without its value.", object_schema(secrets=array_schema(secret))
            ),
            "delete": management_operation(
                "removeSecretsOf", "Forget all of one user's, with their keys.", object_schema(removed=TEXT), of_user
            ),
        },
        "/api/secrets/{name}": {
            "put": _with_request_body(
                management_operation("setSecret", "Set it; no operation returns it.", secret, name, user), _SECRET_VALUE
            ),
            "delete": management_operation("removeSecret", "Forget it.", object_schema(removed=TEXT), name, user),
        },
        "/api/secrets/rotate": {
            "post": _with_request_body(
                management_operation(
                    "rotateSecrets", "Seal all of them anew.", object_schema(rotated={"type": "integer"})
                ),
                _EMPTY_BODY,
            )
        },
    }


def _account_paths() -> JsonObject:
    account, provider = ({"$ref": f"#/components/schemas/{each}"} for each in ("Account", "Provider"))
    account_id, link_id = (_path_parameter(each, {**TEXT, "minLength": 1}) for each in ("id", "link"))
    return {
        "/api/providers": {
            "get": management_operation(
                "providers", "Where accounts can be linked.", object_schema(providers=array_schema(provider))
            )
        },
        "/api/accounts": {
            "get": management_operation(
                "accounts",
                "What is linked.",
                object_schema(accounts=array_schema(account)),
                query_parameter("user", _USER),
            ),
            "post": _as_accepted(
                _with_request_body(management_operation("linkAccount", "Begin to link an account.", _LINK), _NEW_LINK)
            ),
        },
        "/api/accounts/{id}": {
            "delete": management_operation("removeAccount", "Revoke and forget it.", _REMOVED_ACCOUNT, account_id)
        },
        "/api/accounts/{link}/paste": {
            "post": _with_request_body(
                management_operation("pasteLink", "Finish a link.", _PASTE_RESULT, link_id), _PASTED_URL
            )
        },
    }


def _path_parameter(name: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _with_request_body(operation: JsonObject, body: JsonObject) -> JsonObject:
    operation["requestBody"] = request_body(body, required=body is not _EMPTY_BODY)
    operation["responses"] |= error_responses(body=True)
    return operation


def _as_accepted(operation: JsonObject) -> JsonObject:
    """The same, where something is begun that a person finishes, if there is not too much of it already."""
    schema = operation["responses"].pop("200")["content"]["application/json"]["schema"]
    operation["responses"] |= {
        "202": json_response("It is begun; a person does the rest.", schema),
        "429": {"$ref": "#/components/responses/Limited"},
    }
    return operation
