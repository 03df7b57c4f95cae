"""The operations on approvals, for the people who decide, and on what they prove themselves with."""

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

_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_CODE: JsonObject = {
    "type": "string",
    "pattern": r"^[^\u0000]*$",
    "minLength": 1,
    "maxLength": 16,
    "description": "Of the person's authenticator; each is good once.",
}
_PERSON: JsonObject = {"type": "string", "pattern": r"^[^\u0000-\u001f]*$", "minLength": 1, "maxLength": 256}
SCHEMAS: JsonObject = {
    "Approval": object_of(
        id=TEXT,
        state={"enum": ["pending", "approved", "denied", "consumed", "expired"]},
        how={"enum": ["step_up", "approval", "second_person"]},
        tool={**TEXT, "description": "With its version."},
        level={"type": "integer", "minimum": 0, "maximum": 10},
        effect=or_null(TEXT),
        caller=TEXT,
        person={**TEXT, "description": "Who answers for the caller."},
        actingFor={**or_null(TEXT), "description": "The user that it calls for."},
        dialect=TEXT,
        shown={**TEXT, "description": "The arguments, exactly as they will run, as JSON."},
        shownSha256=_SHA256,
        argumentsSha256=_SHA256,
        definitionSha256=_SHA256,
        codeSha256={
            **TEXT,
            "description": "Of the code that would run, in hexadecimal; empty for a tool server's tool.",
        },
        createdAt=MOMENT,
        expiresAt=MOMENT,
        approver=or_null(TEXT),
        method=or_null({"enum": ["totp", "passkey", "terminal", "cli"]}),
        decidedAt=or_null(MOMENT),
        mayApprove={"type": "boolean", "description": "Whether you may; whoever sees it may deny it."},
        url={**TEXT, "description": "The page for people."},
    ),
    "Factor": object_of(
        id=TEXT,
        person=TEXT,
        kind={"enum": ["totp", "passkey", "invitation"]},
        by=TEXT,
        createdAt=MOMENT,
        usedAt=or_null(MOMENT),
        expiresAt=or_null(MOMENT),
    ),
}
_NEW_FACTOR: JsonObject = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["totp", "passkey"]},
        "person": _PERSON,
        "code": {**or_null(_CODE), "description": "Where the person has a factor already."},
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
_REMOVAL: JsonObject = {"type": "object", "properties": {"code": or_null(_CODE)}, "additionalProperties": False}
_NOTHING: JsonObject = {"type": "object", "additionalProperties": False}
_MADE: JsonObject = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["totp", "passkey"]},
        "person": TEXT,
        "secret": {**TEXT, "description": "Of an authenticator; told this once."},
        "uri": {**TEXT, "description": "The same as an otpauth address."},
        "enrolment": {**TEXT, "description": "Send it back with the first code."},
        "url": {**TEXT, "description": "Where one passkey can be added, once."},
        "expiresAt": MOMENT,
    },
    "required": ["kind", "person"],
}
_ID: JsonObject = {"name": "id", "in": "path", "required": True, "schema": {**TEXT, "minLength": 1}}
_LIMITED: JsonObject = {"429": {"$ref": "#/components/responses/Limited"}}


def paths() -> JsonObject:
    """Every operation."""
    approval, factor = {"$ref": "#/components/schemas/Approval"}, {"$ref": "#/components/schemas/Factor"}
    return {
        "/api/approvals": {
            "get": operation("approvals", "What waits for you.", object_of(approvals=list_of(approval)))
        },
        "/api/approvals/{id}/approve": {
            "post": _with_body("approve", "Let this call run, once; only its person may.", approval, _PROOF, _ID)
        },
        "/api/approvals/{id}/deny": {
            "post": _with_body("deny", "Do not let it run.", approval, _NOTHING, _ID, required=False)
        },
        "/api/factors": {
            "get": operation(
                "factors",
                "What people prove themselves with.",
                object_of(factors=list_of(factor)),
                query("person", {"type": "string"}),
            ),
            "post": _made(_with_body("addFactor", "Begin to add a factor for a person.", _MADE, _NEW_FACTOR)),
        },
        "/api/factors/confirm": {
            "post": _made(_with_body("confirmFactor", "Keep an authenticator.", factor, _CONFIRMATION))
        },
        "/api/factors/{id}": {
            "delete": _with_body(
                "removeFactor", "Forget a factor.", object_of(removed=TEXT), _REMOVAL, _ID, required=False
            )
        },
    }


def _with_body(
    name: str, says: str, answer: JsonObject, body: JsonObject, *parameters: JsonObject, required: bool = True
) -> JsonObject:
    told = operation(name, says, answer, *parameters)
    told["requestBody"] = body_of(body, required=required)
    told["responses"] |= errors(body=True) | _LIMITED
    return told


def _made(told: JsonObject) -> JsonObject:
    """The same, where something new comes of it."""
    schema = told["responses"].pop("200")["content"]["application/json"]["schema"]
    told["responses"]["201"] = replied("It is made.", schema)
    return told
