"""OpenAPI paths of `/api/me`: the caller itself, step-up and session bearers."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    TEXT,
    TIMESTAMP,
    array_schema,
    management_operation,
    nullable,
    object_schema,
    ok,
    request_body,
)
from toolhall.model.json import JsonObject

_FLAG: JsonObject = {"type": "boolean"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_ME = object_schema(
    caller=TEXT,
    person=nullable(TEXT),
    proof={"enum": ["local", "key", "shared", "token"]},
    scopes=array_schema(TEXT),
    may=object_schema(manage=_FLAG, observe=_FLAG, approve=_FLAG),
    hall=TEXT,
    version=TEXT,
    profile={"enum": ["local", "server"]},
    publicUrl=nullable(TEXT),
    processes=object_schema(running=_COUNT, seen=_COUNT),
    endpoints={"type": "object", "additionalProperties": TEXT},
    token=nullable({**TEXT, "description": "The header `X-Toolhall-Token` of changes; null without a session."}),
    sessionEndsAt=nullable(TIMESTAMP),
    provenAt=nullable(TIMESTAMP),
    hasFactor=_FLAG,
    firstRun=_FLAG,
    docs=TEXT,
    oidc=_FLAG,
)
_PROOF: JsonObject = {
    "type": "object",
    "description": "Either a code, or the id of passkey options and what the passkey answered.",
    "properties": {
        "code": {"type": "string", "minLength": 1, "maxLength": 16},
        "id": {"type": "string", "minLength": 1, "maxLength": 1000},
        "credential": {"type": "object"},
    },
    "additionalProperties": False,
}


def session_paths() -> JsonObject:
    """Operations on the caller's own session."""
    no_body = request_body(EMPTY_BODY, required=False)
    options = object_schema(id=TEXT, publicKey={"type": "object"})
    return {
        "/api/me": {"get": management_operation("me", "Say who the caller is; and what it may do.", ok("You.", _ME))},
        "/api/me/proof": {
            "post": management_operation(
                "prove",
                "Prove to be present; changes that ask for it are allowed for the next 15 minutes.",
                ok("When it was proven.", object_schema(provenAt=TIMESTAMP)),
                body=request_body(_PROOF),
                rate_limited=True,
            )
        },
        "/api/me/proof/options": {
            "post": management_operation(
                "proofOptions",
                "Make the options for a passkey that proves presence.",
                ok("The options, for navigator.credentials.get.", options),
                body=no_body,
            )
        },
        "/api/me/token": {
            "post": management_operation(
                "sessionToken",
                "Make a bearer token of the session; it counts at dialect endpoints for five minutes.",
                ok(
                    "The token; null where the caller needs none.",
                    object_schema(token=nullable(TEXT), expiresAt=nullable(TIMESTAMP)),
                ),
                body=no_body,
            )
        },
    }
