"""OpenAPI paths of secrets and linked accounts."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    ID_SCHEMA,
    REMOVED,
    TEXT,
    TIMESTAMP,
    accepted,
    array_schema,
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
        usedBy={**array_schema(TEXT), "description": "The tools that declare it."},
        usedAt={**nullable(TIMESTAMP), "description": "The last call that used it, among the newest 10,000 calls."},
    ),
    "Provider": object_schema(
        name={**TEXT, "description": "Its name in the settings."},
        displayName={**TEXT, "description": "Its name for people: `Google`."},
        issuer=TEXT,
        scopes={**array_schema(TEXT), "description": "Always requested, in addition to those that a tool needs."},
        redirect_uri={**nullable(TEXT), "description": "Register it at the provider; null if it is not known yet."},
    ),
    "Account": object_schema(
        id=TEXT,
        user=TEXT,
        person=nullable(TEXT),
        provider=TEXT,
        providerName={**TEXT, "description": "The provider's name for people."},
        issuer=TEXT,
        scopes=array_schema(TEXT),
        state={"enum": ["connected", "broken"], "description": "`broken`: the account has to be linked again."},
        linkedAt=TIMESTAMP,
        refreshedAt=nullable(TIMESTAMP),
        expiresAt={**nullable(TIMESTAMP), "description": "When the current token expires; it is refreshed before."},
        usedBy={**array_schema(TEXT), "description": "The tools that require such an account and that you may see."},
        usedAt={**nullable(TIMESTAMP), "description": "The last call that used it, among the newest 10,000 calls."},
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
    account_id, link_id = path_parameter("id", ID_SCHEMA), path_parameter("link", ID_SCHEMA)
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
