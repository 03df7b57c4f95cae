"""OpenAPI paths of what happens in a hall: records of the audit, one call, the overview, needs, and events."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
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
from toolhall.model.call_records import CALL_STAGES, CALL_VERDICTS
from toolhall.model.json import JsonObject

_LIMIT: JsonObject = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
COUNT: JsonObject = {"type": "integer", "minimum": 0}
_SHA256: JsonObject = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
LEVEL_SCHEMA: JsonObject = {"type": "integer", "minimum": 0, "maximum": 10}
_TIME_FILTER: JsonObject = {
    "type": "string",
    "pattern": r"^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])(T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ)?$",
    "example": "2027-01-28T08:30:00Z",
}
_RECORD_REQUIRED = ("log", "number", "at", "call", "caller", "dialect", "tool", "outcome")
_RECORD_PROPERTIES = {
    "log": {**TEXT, "description": "The log that holds the record; each process has its own."},
    "number": {**COUNT, "description": "The number of the line in that log."},
    "at": TIMESTAMP,
    "call": TEXT,
    "caller": TEXT,
    "person": {**TEXT, "description": "The person responsible for the caller, if the name differs."},
    "actingFor": TEXT,
    "dialect": {**TEXT, "description": "Ends with `/management` for a change of the hall itself."},
    "tool": {**TEXT, "description": "The tool id; for a tool that was not found, the requested name."},
    "definitionSha256": _SHA256,
    "argumentsSha256": _SHA256,
    "level": LEVEL_SCHEMA,
    "verdict": {"enum": ["allow", "deny", "verify"]},
    "grant": {**TEXT, "description": "The grant that decided the verdict."},
    "reason": TEXT,
    "approval": TEXT,
    "outcome": {**TEXT, "description": "`ok`, `tool_error`, `asked`, `intent`, or the name of the error."},
    "phase": {"const": "intent", "description": "Written before a side effect; absent in the record of the outcome."},
    "durationUs": COUNT,
    "bytesIn": COUNT,
    "bytesOut": COUNT,
    "redactions": COUNT,
    "stage": {
        "enum": list(CALL_STAGES),
        "description": "Where the call ended; `audit` if it passed all stages. Absent for an intent and for a change.",
    },
    "stagesUs": {
        "type": "array",
        "items": COUNT,
        "minItems": len(CALL_STAGES),
        "maxItems": len(CALL_STAGES),
        "description": "Microseconds per stage, which add up to `durationUs`; absent where none were taken.",
    },
    "server": {**TEXT, "description": "The tool server that ran the call; absent for what the hall itself ran."},
    "kind": {"enum": ["resource", "prompt"], "description": "Absent for a call of a tool."},
    "uri": {**TEXT, "description": "Of a read: its URI, cut and without secrets."},
    "argumentNames": {**array_schema(TEXT), "description": "Of a prompt with arguments: their names."},
}
AUDIT_SCHEMAS: JsonObject = {
    "Record": {"type": "object", "properties": _RECORD_PROPERTIES, "required": list(_RECORD_REQUIRED)}
}
_STATE = object_schema(
    logs=array_schema(object_schema(log=TEXT, records={**COUNT, "description": "Lines."}, head=nullable(TEXT))),
    lastCheckpointAt=nullable(TIMESTAMP),
    verified={
        **nullable(object_schema(at=TIMESTAMP, records=COUNT, problem=nullable(TEXT))),
        "description": "The last whole verification by the process that answers, since it started.",
    },
    verifying=nullable(object_schema(verified={**COUNT, "description": "Bytes."}, total=COUNT)),
    failing={"type": "boolean", "description": "Whether records cannot be written."},
    behind={"type": "boolean", "description": "Whether the store knows more of the audit than the folder has."},
)
_STAGE_ROW = object_schema(
    stage={"enum": list(CALL_STAGES)},
    state={"enum": ["passed", "stopped", "not_reached", "skipped"]},
    us=nullable(COUNT),
    reason=nullable(TEXT),
    fix=nullable(TEXT),
)
_CALL = object_schema(
    call=TEXT,
    kind={
        "enum": ["ok", "tool_error", "refused", "failed", "asked", "running"],
        "description": "`running`: an end is not recorded.",
    },
    intent=nullable(reference("Record")),
    end=nullable(reference("Record")),
    stages={**array_schema(_STAGE_ROW), "description": "All ten, in order."},
    grant=nullable(reference("Grant")),
    approval=nullable(reference("Approval")),
    tool=nullable(reference("RegisteredTool")),
)
COUNTS: JsonObject = {"type": "object", "additionalProperties": COUNT}
_OVERVIEW = object_schema(
    window={"enum": ["15m", "1h", "24h", "7d"]},
    bucketSeconds=COUNT,
    **{"from": TIMESTAMP},
    to=TIMESTAMP,
    processes=object_schema(running=COUNT, seen=COUNT),
    calls=COUNT,
    running={**COUNT, "description": "Calls that this process runs now."},
    outcomes=COUNTS,
    stopped={**COUNTS, "description": "By stage, calls that it ended."},
    buckets=array_schema(object_schema(at=TIMESTAMP, ok=COUNT, refused=COUNT, failed=COUNT, asked=COUNT)),
    durations=array_schema(object_schema(le=nullable(COUNT), calls=COUNT)),
    p50Us=nullable(COUNT),
    p99Us=nullable(COUNT),
    addedUs={**nullable(COUNT), "description": "What the hall itself took of a call, the median of those with times."},
    topTools=array_schema(object_schema(tool=TEXT, calls=COUNT, failed=COUNT)),
    topCallers=array_schema(object_schema(caller=TEXT, calls=COUNT, refused=COUNT)),
    tools={**COUNT, "description": "Active tools."},
    changes={**array_schema(reference("ToolEvent")), "description": "The newest events of tools."},
)
_NEEDS = object_schema(
    approvals=object_schema(count=COUNT, firstEndsAt=nullable(TIMESTAMP)),
    review=object_schema(count=COUNT),
    servers=object_schema(count=COUNT, unwell=array_schema(TEXT)),
    upstreams={
        **array_schema(object_schema(name=TEXT, waiting=COUNT, link={"type": "boolean"})),
        "description": "Upstreams with definitions that wait for your look, or that want an account of yours (`link`).",
    },
    accounts=object_schema(
        count={**COUNT, "description": "Accounts that have to be linked again."},
        first=nullable(object_schema(person=TEXT, providerName=TEXT)),
    ),
    deprecations={
        **array_schema(object_schema(id=TEXT, sunset={"type": "string", "format": "date"}, callers=array_schema(TEXT))),
        "description": "Tools whose last day is within 30 days, or over.",
    },
    audit=object_schema(failing={"type": "boolean"}, problem=nullable(TEXT), verifiedAt=nullable(TIMESTAMP)),
)


def audit_paths() -> JsonObject:
    """The audit: search, its state, verification and acceptance."""
    problems = array_schema({**TEXT, "description": "A problem of the audit that was accepted."})
    return {
        "/api/audit": {
            "get": management_operation(
                "audit",
                "List the audit records that match, newest first; without `observe`, those of your own calls.",
                ok(
                    "A page of records; without `nextCursor` it is the last.",
                    {
                        "type": "object",
                        "properties": {"records": array_schema(reference("Record")), "nextCursor": TEXT},
                        "required": ["records"],
                    },
                ),
                *_filters(),
                query_parameter("cursor", {"type": "string"}, "`nextCursor` of the page before."),
                query_parameter("limit", _LIMIT),
            )
        },
        "/api/audit/state": {
            "get": management_operation(
                "audit_state",
                "Show the ends of the logs, and the last verification; nothing is verified.",
                ok("The state.", _STATE),
            )
        },
        "/api/audit/verify": {
            "post": management_operation(
                "verify_audit",
                "Verify the whole audit in the background; 409 while that is done already.",
                accepted("The state; the progress is in `verifying` and in the events of the topic `audit`.", _STATE),
                body=request_body(EMPTY_BODY, required=False),
            )
        },
        "/api/audit/accept": {
            "post": management_operation(
                "accept_audit",
                "Accept an audit that was truncated or replaced, so that calls of level 4 and above run again.",
                ok("The problems that were accepted.", object_schema(accepted=problems)),
                body=request_body(EMPTY_BODY, required=False),
            )
        },
    }


def _filters() -> list[JsonObject]:
    """The filters of records, which events take too."""
    return [
        query_parameter("caller", {"type": "string"}, "A glob, or several separated by commas."),
        query_parameter("tool", {"type": "string"}, "Globs of ids, or of `Toolkit.tool` for all versions."),
        query_parameter(
            "outcome", {"type": "string"}, "Globs of outcomes, or the groups `refused`, `failed`, `asked`."
        ),
        query_parameter("stage", {"enum": list(CALL_STAGES)}, "Where the call ended; several by commas."),
        query_parameter("verdict", {"enum": list(CALL_VERDICTS)}, "Several by commas."),
        query_parameter("grant", {"type": "string"}, "Globs of the grants that decided."),
        query_parameter("call", {"type": "string"}, "The id of one call."),
        query_parameter("dialect", {"type": "string"}, "Globs."),
        query_parameter("server", {"type": "string"}, "Globs of the tool servers that ran the calls."),
        query_parameter("level", LEVEL_SCHEMA, "At least this level."),
        query_parameter("since", _TIME_FILTER, "A day or a time; UTC if it has no zone."),
        query_parameter("until", _TIME_FILTER, "A day or a time, exclusive."),
    ]


def call_paths() -> JsonObject:
    """One call, the overview, what waits, and events."""
    events = {
        "200": {
            "description": "Server-sent events with ids, until the client goes.",
            "content": {"text/event-stream": {"schema": TEXT}},
        }
    }
    return {
        "/api/calls/{call}": {
            "get": management_operation(
                "call",
                "Show one call with its stages, why it ended, and what to do; without `observe`, one of your own.",
                ok("The call.", _CALL),
                path_parameter("call", TEXT),
            )
        },
        "/api/overview": {
            "get": management_operation(
                "overview",
                "Count calls by outcome, stage, duration, tool and caller.",
                ok("The counts.", _OVERVIEW),
                query_parameter("window", {"enum": ["15m", "1h", "24h", "7d"], "default": "1h"}),
            )
        },
        "/api/needs": {
            "get": management_operation(
                "needs", "Show what waits for you; empty is also what you may not see.", ok("What waits.", _NEEDS)
            )
        },
        "/api/events": {
            "get": management_operation(
                "listen",
                "Send what happens as server-sent events; `Last-Event-ID` resumes.",
                events,
                query_parameter(
                    "topics",
                    {"type": "string", "example": "calls,health"},
                    "Some of `calls`, `approvals`, `tools`, `servers`, `upstreams`, `health` and `audit`, by commas.",
                ),
                *_filters(),
                rate_limited=True,
            )
        },
    }
