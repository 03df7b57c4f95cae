"""OpenAPI paths of approvals, and of the factors by which people prove themselves."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
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
    query_parameter,
    reference,
    request_body,
)
from toolhall.model.json import JsonObject

_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CODE: JsonObject = {
    "type": "string",
    "pattern": r"^[^\u0000]*$",
    "minLength": 1,
    "maxLength": 16,
    "description": "A code of the person's authenticator; each is valid once.",
}
_PERSON: JsonObject = {"type": "string", "pattern": r"^[^\u0000-\u001f]*$", "minLength": 1, "maxLength": 256}
_CHANGE = object_schema(path={**TEXT, "description": "A JSON pointer."}, before={}, after={})
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
        reason={**nullable(TEXT), "description": "Why it was denied, if the person said."},
        differences={
            **nullable(object_schema(since=TIMESTAMP, changes=array_schema(_CHANGE))),
            "description": "Of a pending one: what differs from the last of this caller and tool that was approved.",
        },
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
}
_CONFIRMATION: JsonObject = {
    "type": "object",
    "properties": {"enrolment": {**TEXT, "maxLength": 2000}, "code": _CODE},
    "required": ["enrolment", "code"],
    "additionalProperties": False,
}
_PROOF: JsonObject = {
    "type": "object",
    "description": "Either a code, or what a passkey answered to the options of this approval.",
    "properties": {"code": _CODE, "id": TEXT, "credential": {"type": "object"}},
    "oneOf": [
        {"required": ["code"], "not": {"anyOf": [{"required": ["id"]}, {"required": ["credential"]}]}},
        {"required": ["credential"], "not": {"required": ["code"]}},
    ],
    "additionalProperties": False,
}
_DENIAL: JsonObject = {
    "type": "object",
    "properties": {
        "reason": {**nullable({**TEXT, "maxLength": 500}), "description": "Whoever asked is told it, like a model."}
    },
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
    approval, item_id = reference("Approval"), path_parameter("id", ID_SCHEMA)
    return {
        "/api/approvals": {
            "get": management_operation(
                "approvals",
                "List the approvals that wait for a decision of yours.",
                ok("The list of approvals.", object_schema(approvals=array_schema(approval))),
                query_parameter(
                    "state",
                    {"enum": ["pending", "decided"], "default": "pending"},
                    "`decided`: those of the last 24 hours, newest first.",
                ),
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
        "/api/approvals/{id}/options": {
            "post": management_operation(
                "approvalOptions",
                "Make the options for a passkey that approves this call.",
                ok("The options, for navigator.credentials.get.", object_schema(id=TEXT, publicKey={"type": "object"})),
                item_id,
                body=request_body(EMPTY_BODY, required=False),
            )
        },
        "/api/approvals/{id}/deny": {
            "post": management_operation(
                "deny",
                "Deny one call.",
                ok("The updated approval.", approval),
                item_id,
                body=request_body(_DENIAL, required=False),
                rate_limited=True,
            )
        },
    }


def _factor_paths() -> JsonObject:
    factor, item_id = reference("Factor"), path_parameter("id", ID_SCHEMA)
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
