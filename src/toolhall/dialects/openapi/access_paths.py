"""OpenAPI paths of API keys, grants, approvals, factors, secrets and linked accounts."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    REMOVED,
    TEXT,
    TIMESTAMP,
    accepted,
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
from toolhall.model.json import JsonObject

_FLAG: JsonObject = {"type": "boolean"}
_ID_SCHEMA: JsonObject = {**TEXT, "minLength": 1}
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
_CREATED_KEY = object_schema(**_KEY, secret={**TEXT, "description": "The key itself; it is never returned again."})


def key_and_grant_paths() -> JsonObject:
    """Operations on API keys and grants."""
    key, grant = reference("ApiKey"), reference("Grant")
    key_id, grant_id = (path_parameter(name, _ID_SCHEMA, f"The {name}'s id.") for name in ("key", "grant"))
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
                "grants", "List all grants.", ok("The list of grants.", object_schema(grants=array_schema(grant)))
            ),
            "post": management_operation(
                "addGrant",
                "Add a grant that permits or forbids callers the use of tools.",
                created("The new grant, with warnings.", _CREATED_GRANT, _undo_link("removeGrant", "grant")),
                body=request_body(_NEW_GRANT),
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


_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CODE: JsonObject = {
    "type": "string",
    "pattern": r"^[^\u0000]*$",
    "minLength": 1,
    "maxLength": 16,
    "description": "A code of the person's authenticator; each is valid once.",
}
_PERSON: JsonObject = {"type": "string", "pattern": r"^[^\u0000-\u001f]*$", "minLength": 1, "maxLength": 256}
APPROVAL_SCHEMAS: JsonObject = {
    "Approval": object_schema(
        id=TEXT,
        state={"enum": ["pending", "approved", "denied", "consumed", "expired"]},
        how={"enum": ["step_up", "approval", "second_person"]},
        tool={**TEXT, "description": "The tool id, with its version."},
        level={"type": "integer", "minimum": 0, "maximum": 10},
        effect=nullable(TEXT),
        caller=TEXT,
        person={**TEXT, "description": "The person responsible for the caller."},
        actingFor={**nullable(TEXT), "description": "The user for whom the caller acts."},
        dialect=TEXT,
        shown={**TEXT, "description": "The arguments, exactly as they will run, as JSON."},
        shownSha256=_SHA256,
        argumentsSha256=_SHA256,
        definitionSha256=_SHA256,
        codeSha256={
            **TEXT,
            "description": "SHA-256 of the code that would run, in hexadecimal; empty for a tool of a tool server.",
        },
        createdAt=TIMESTAMP,
        expiresAt=TIMESTAMP,
        approver=nullable(TEXT),
        method=nullable({"enum": ["totp", "passkey", "terminal", "cli"]}),
        decidedAt=nullable(TIMESTAMP),
        mayApprove={
            "type": "boolean",
            "description": "Whether you may approve it; everyone who can see it may deny it.",
        },
        url={**TEXT, "description": "The approval page."},
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
        "code": {**nullable(_CODE), "description": "Required if the person has a factor already."},
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
_CREATED_FACTOR: JsonObject = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["totp", "passkey"]},
        "person": TEXT,
        "secret": {**TEXT, "description": "The secret of an authenticator; it is never returned again."},
        "uri": {**TEXT, "description": "The secret as an otpauth: URI."},
        "enrolment": {**TEXT, "description": "Send it with the first code to confirm the authenticator."},
        "url": {**TEXT, "description": "The page on which one passkey can be added, once."},
        "expiresAt": TIMESTAMP,
    },
    "required": ["kind", "person"],
}


def approval_paths() -> JsonObject:
    """Operations on approvals and on the factors that people verify themselves with."""
    return {**_decision_paths(), **_factor_paths()}


def _decision_paths() -> JsonObject:
    approval, item_id = reference("Approval"), path_parameter("id", _ID_SCHEMA)
    return {
        "/api/approvals": {
            "get": management_operation(
                "approvals",
                "List the approvals that wait for a decision of yours.",
                ok("The list of approvals.", object_schema(approvals=array_schema(approval))),
            )
        },
        "/api/approvals/{id}/approve": {
            "post": management_operation(
                "approve",
                "Approve one call, to run once. Only the person that it waits for may do this.",
                ok("The updated approval.", approval),
                item_id,
                body=request_body(_PROOF),
                rate_limited=True,
            )
        },
        "/api/approvals/{id}/deny": {
            "post": management_operation(
                "deny",
                "Deny one call.",
                ok("The updated approval.", approval),
                item_id,
                body=request_body(EMPTY_BODY, required=False),
                rate_limited=True,
            )
        },
    }


def _factor_paths() -> JsonObject:
    factor, item_id = reference("Factor"), path_parameter("id", _ID_SCHEMA)
    return {
        "/api/factors": {
            "get": management_operation(
                "factors",
                "List the factors of people: authenticators, passkeys and open invitations.",
                ok("The list of factors.", object_schema(factors=array_schema(factor))),
                query_parameter("person", {"type": "string"}),
            ),
            "post": management_operation(
                "addFactor",
                "Start the enrolment of a factor for a person.",
                created("What the person needs to finish the enrolment.", _CREATED_FACTOR),
                body=request_body(_NEW_FACTOR),
                rate_limited=True,
            ),
        },
        "/api/factors/confirm": {
            "post": management_operation(
                "confirmFactor",
                "Finish the enrolment of an authenticator with its first code.",
                created("The new factor.", factor),
                body=request_body(_CONFIRMATION),
                rate_limited=True,
            )
        },
        "/api/factors/{id}": {
            "delete": management_operation(
                "removeFactor",
                "Remove a factor.",
                ok("The id of the removed factor.", REMOVED),
                item_id,
                body=request_body(_REMOVAL, required=False),
                rate_limited=True,
            )
        },
    }


_USER: JsonObject = {"type": "string", "pattern": r"^[^\u0000]{1,256}$"}
_SCOPE: JsonObject = {"type": "string", "pattern": r"^[\x21\x23-\x5b\x5d-\x7e]{1,512}$"}
CREDENTIAL_SCHEMAS: JsonObject = {
    "Secret": object_schema(
        name=TEXT,
        user={
            **nullable(TEXT),
            "description": "The owner; null for a secret of the hall, used for everyone without their own.",
        },
        hint={**TEXT, "description": "Changes when the value changes; reveals nothing else about it."},
        by=TEXT,
        createdAt=TIMESTAMP,
        changedAt=TIMESTAMP,
        usable={"type": "boolean", "description": "False if it cannot be decrypted; set it again."},
    ),
    "Provider": object_schema(
        name=TEXT,
        issuer=TEXT,
        scopes={**array_schema(TEXT), "description": "Always requested, in addition to those that a tool needs."},
        redirect_uri={**nullable(TEXT), "description": "Register it at the provider; null if it is not known yet."},
    ),
    "Account": object_schema(
        id=TEXT,
        user=TEXT,
        provider=TEXT,
        issuer=TEXT,
        scopes=array_schema(TEXT),
        state={"enum": ["connected", "broken"], "description": "`broken`: the account has to be linked again."},
        createdAt=TIMESTAMP,
        refreshedAt=nullable(TIMESTAMP),
        expiresAt={**nullable(TIMESTAMP), "description": "When the current token expires; it is refreshed before."},
    ),
}
_DEVICE_CODE = object_schema(
    user_code={**TEXT, "description": "The code that the person enters."},
    verification_uri={**TEXT, "description": "The page on which the person enters the code."},
    verification_uri_complete=nullable(TEXT),
    interval={"type": "number"},
)
_LINK = object_schema(
    id=TEXT,
    url={**TEXT, "description": "The page on which the person links the account."},
    check_url={**TEXT, "description": "Returns the status: pending, completed or failed."},
    expiresAt=TIMESTAMP,
    device=nullable(_DEVICE_CODE),
    authorize_url={
        **nullable(TEXT),
        "description": "The provider's page, for a person who pastes the redirect address afterwards.",
    },
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
    unrevoked={
        **nullable(TEXT),
        "description": "Why the provider may still accept the tokens; null if they were revoked.",
    },
)


def credential_paths() -> JsonObject:
    """Operations on secrets, providers and linked accounts."""
    return {**_secret_paths(), **_account_paths()}


def _secret_paths() -> JsonObject:
    secret, user = reference("Secret"), query_parameter("user", _USER)
    name = path_parameter("name", {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"})
    return {
        "/api/secrets": {
            "get": management_operation(
                "secrets",
                "List all secrets, without their values.",
                ok("The list of secrets.", object_schema(secrets=array_schema(secret))),
            ),
            "delete": management_operation(
                "removeSecretsOf",
                "Remove all secrets of one user, with their encryption keys.",
                ok("The user whose secrets were removed.", REMOVED),
                {**user, "required": True},
            ),
        },
        "/api/secrets/{name}": {
            "put": management_operation(
                "setSecret",
                "Set the value of a secret; no operation returns it.",
                ok("The updated secret, without its value.", secret),
                name,
                user,
                body=request_body(_SECRET_VALUE),
            ),
            "delete": management_operation(
                "removeSecret", "Remove a secret.", ok("The name of the removed secret.", REMOVED), name, user
            ),
        },
        "/api/secrets/rotate": {
            "post": management_operation(
                "rotateSecrets",
                "Encrypt all secrets again with the current key.",
                ok("The number of secrets that were encrypted again.", object_schema(rotated={"type": "integer"})),
                body=request_body(EMPTY_BODY, required=False),
            )
        },
    }


def _account_paths() -> JsonObject:
    account, provider = reference("Account"), reference("Provider")
    account_id, link_id = path_parameter("id", _ID_SCHEMA), path_parameter("link", _ID_SCHEMA)
    return {
        "/api/providers": {
            "get": management_operation(
                "providers",
                "List the OAuth providers at which accounts can be linked.",
                ok("The list of providers.", object_schema(providers=array_schema(provider))),
            )
        },
        "/api/accounts": {
            "get": management_operation(
                "accounts",
                "List the linked accounts.",
                ok("The list of accounts.", object_schema(accounts=array_schema(account))),
                query_parameter("user", _USER),
            ),
            "post": management_operation(
                "linkAccount",
                "Start to link an account.",
                accepted("The link request, which a person has to finish.", _LINK),
                body=request_body(_NEW_LINK),
                rate_limited=True,
            ),
        },
        "/api/accounts/{id}": {
            "delete": management_operation(
                "removeAccount",
                "Revoke the tokens of an account at its provider, and remove it.",
                ok("The id of the removed account.", _REMOVED_ACCOUNT),
                account_id,
            )
        },
        "/api/accounts/{link}/paste": {
            "post": management_operation(
                "pasteLink",
                "Finish a link request with the redirect address that the person pasted.",
                ok("The completed link request.", _PASTE_RESULT),
                link_id,
                body=request_body(_PASTED_URL),
            )
        },
    }
