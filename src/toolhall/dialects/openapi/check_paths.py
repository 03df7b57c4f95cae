"""OpenAPI paths of checks, callers and limits: what calls would do, who made them, and who is held back."""

from toolhall.dialects.openapi.access_paths import NEW_GRANT
from toolhall.dialects.openapi.builders import (
    TEXT,
    TIMESTAMP,
    array_schema,
    management_operation,
    nullable,
    object_schema,
    ok,
    query_parameter,
    reference,
    request_body,
)
from toolhall.model.call_records import CALL_STAGES
from toolhall.model.json import JsonObject

_NAME: JsonObject = {
    "type": "string",
    "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]+$",
    "minLength": 1,
    "maxLength": 256,
}
_GLOB = "[^,\\u0000-\\u001f\\u007f]{1,256}"
_PATTERNS: JsonObject = {"type": "string", "pattern": f"^{_GLOB}(,{_GLOB}){{0,19}}$"}
_RULE: JsonObject = {**nullable(TEXT), "description": "A grant's id, `draft`, `level`, `scope` or another rule."}
_CONDITION = object_schema(path=TEXT, oneOf=array_schema({}))
_STAGE: JsonObject = {
    "type": "object",
    "properties": {
        "stage": {"enum": list(CALL_STAGES)},
        "state": {"enum": ["pass", "stop", "ask", "unknown", "not_reached"]},
        "rule": _RULE,
        "words": {**TEXT, "description": "What decides there, and what to do, in a sentence."},
        "problems": array_schema(object_schema(path=TEXT, message=TEXT)),
    },
    "required": ["stage", "state", "rule", "words"],
}
_CHECK: JsonObject = {
    "type": "object",
    "properties": {
        "caller": {**_NAME, "description": "The name of a key, `local`, `anonymous`, or a caller that could exist."},
        "tool": {
            **_NAME,
            "maxLength": 8_192,
            "description": "A published name or an id, as in a call, or the URI of a resource, which states arguments.",
        },
        "kind": {
            **nullable({"enum": ["tool", "resource", "prompt"]}),
            "description": "Left out: of whatever has this id; else a tool of this name; else a resource of this URI.",
        },
        "arguments": {**nullable({"type": "object"}), "description": "Left out: as far as they do not matter."},
        "draft": {**nullable(NEW_GRANT), "description": "A grant that is judged as if it existed."},
    },
    "required": ["caller", "tool"],
    "additionalProperties": False,
}
_ANSWER = object_schema(
    caller=TEXT,
    tool=TEXT,
    verdict={"enum": ["runs", "refused", "asks", "unknown"]},
    stages=array_schema(_STAGE),
    notes={**array_schema(TEXT), "description": "What was assumed of the caller, whose credential is not here."},
)
_PAIR = object_schema(
    caller=TEXT,
    tool={**TEXT, "description": "The tool id, with its version."},
    toolkit=TEXT,
    verdict={"enum": ["yes", "if", "asks", "no"]},
    rule=_RULE,
    words=TEXT,
    conditions=array_schema(_CONDITION),
)
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "pairs": array_schema(_PAIR),
        "nextCursor": {**TEXT, "description": "Present if more pairs follow."},
    },
    "required": ["pairs"],
}


_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_CALLER = object_schema(
    name=TEXT,
    proof={"enum": ["none", "shared", "key", "token", "local"]},
    owner=nullable(TEXT),
    scopes=array_schema(TEXT),
    keys=array_schema(reference("ApiKey")),
    lastAt=nullable(TIMESTAMP),
    calls={**_COUNT, "description": "In the last 30 days, as far as records are kept."},
    refused=_COUNT,
)
_RATE = object_schema(rate={"type": "number"}, burst={"type": "number"})
_LIMITS = object_schema(
    perCaller=nullable(_RATE),
    perTool=nullable(_RATE),
    perPair=nullable(_RATE),
    concurrency=object_schema(
        perCaller={"type": "integer"}, perTool=nullable({"type": "integer"}), total={"type": "integer"}
    ),
    costs={"type": "object", "additionalProperties": {"type": "number"}},
    fullest=array_schema(object_schema(key=TEXT, kind={"enum": ["caller", "tool", "pair"]}, fill={"type": "number"})),
    refused={
        **array_schema(object_schema(caller=TEXT, calls=_COUNT, lastAt=TIMESTAMP)),
        "description": "Calls that a limit refused in the last hour.",
    },
    processes={
        **object_schema(running=_COUNT, seen=_COUNT),
        "description": "The processes of the hall, and of how many `fullest` speaks.",
    },
)
_NEW_RATE: JsonObject = {
    "type": "object",
    "properties": {
        "rate": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9},
        "burst": {"type": "number", "minimum": 1, "maximum": 1e9, "default": 1},
    },
    "required": ["rate"],
    "additionalProperties": False,
}
_PREVIEW: JsonObject = {
    "type": "object",
    "properties": {name: nullable(_NEW_RATE) for name in ("perCaller", "perTool", "perPair")},
    "additionalProperties": False,
}


def caller_and_limit_paths() -> JsonObject:
    """Operations that say who calls, and who is held back."""
    return {
        "/api/callers": {
            "get": management_operation(
                "allCallers",
                "List all callers, the last that called first; keys and who was seen in the audit.",
                ok("The list of callers.", object_schema(callers=array_schema(_CALLER))),
            )
        },
        "/api/limits": {
            "get": management_operation(
                "limits", "Show the limits in force, and who was held back by them.", ok("The limits.", _LIMITS)
            )
        },
        "/api/limits/preview": {
            "post": management_operation(
                "previewLimits",
                "Say what other rate limits would have refused in the last hour; nothing is changed.",
                ok(
                    "The calls of the last hour, and those that would have been refused.",
                    object_schema(
                        calls=_COUNT,
                        refused=_COUNT,
                        callers=array_schema(object_schema(caller=TEXT, refused=_COUNT)),
                    ),
                ),
                body=request_body(_PREVIEW, required=False),
            )
        },
    }


def check_paths() -> JsonObject:
    """Operations that say what calls would do, and change nothing."""
    return {
        **caller_and_limit_paths(),
        "/api/check": {
            "post": management_operation(
                "check",
                "Say what a call would do in each stage; it runs nothing, asks nobody and counts for no limit.",
                ok("The verdict, and what each stage would do.", _ANSWER),
                body=request_body(_CHECK),
            )
        },
        "/api/access": {
            "get": management_operation(
                "access",
                "List who may call what, in pages of up to 10,000 pairs.",
                ok("One page of pairs.", _PAGE),
                query_parameter("callers", _PATTERNS, "Patterns, separated by commas; also callers without a key."),
                query_parameter("tools", _PATTERNS, "Patterns of tool ids, separated by commas."),
                query_parameter("cursor", {"type": "string"}, "The `nextCursor` of the page before."),
            )
        },
    }
