"""Examples of requests and responses of management operations: tools, audit, tool servers, contracts and settings.

`EXAMPLES` has every operation by its name, which is its operation id without `management.`; those on access are in
`access_examples.py`. A test validates each against the schemas of its operation and names operations without one.
"""

from typing import Any, NamedTuple

from toolhall.dialects.openapi.access_examples import ACCESS_REQUESTS, ACCESS_RESPONSES
from toolhall.model.call_records import CALL_STAGES
from toolhall.model.json import Json, JsonObject

_DIGEST = "sha256-5d41402abc4b2a76b9719d911017c592ae2f6c3d1b7e8a904c5d6e7f80912a3b"
_SHA256 = _DIGEST.removeprefix("sha256-")
_LATER, _LAST = "2027-02-01T09:30:00.000Z", "2027-02-03T16:05:12.250Z"
_ID, _BEFORE = "Harbour.get_tide@1.1.0", "Harbour.get_tide@1.0.0"
_REGISTRATION: JsonObject = {
    "name": "get_tide",
    "description": "Say when the tide is high at a harbour today.",
    "inputSchema": {
        "type": "object",
        "properties": {"harbour": {"type": "string", "description": "Its name, such as Bergen."}},
        "required": ["harbour"],
    },
}
_TOOL: JsonObject = {
    "id": _ID,
    "toolkit": "Harbour",
    "tool": "get_tide",
    "version": "1.1.0",
    "kind": "tool",
    "uri": None,
    "mimeType": None,
    "name": "Harbour_get_tide",
    "title": "Tide",
    "description": _REGISTRATION["description"],
    "state": "active",
    "origin": "http",
    "originDetail": "",
    "by": "ci",
    "registeredAt": _LATER,
    "changedAt": _LATER,
    "deprecatedAt": None,
    "sunset": None,
    "successor": None,
    "dialect": "mcp@2026-07-28",
    "digests": {"shown": _DIGEST, "contract": _DIGEST, "document": _DIGEST},
    "served": True,
    "effectiveLevel": 4,
    "level": None,
    "effect": "reads",
    "tags": ["sea"],
    "requirements": [{"kind": "secret", "name": "TIDE_API_KEY"}],
    "server": None,
    "newest": True,
}
_FINDING: JsonObject = {
    "path": "/inputSchema/properties/harbour",
    "rule": "schema/example",
    "fix": "the parameter has no example; add one",
    "severity": "warning",
}
_VERSION: JsonObject = {
    "id": _ID,
    "state": "active",
    "registeredAt": _LATER,
    "sunset": None,
    "deprecatedAt": None,
    "successor": None,
}
_UPSTREAM: JsonObject = {
    "name": "Docs",
    "state": "ready",
    "reason": None,
    "target": "https://mcp.example.com/mcp",
    "settings": {"url": "https://mcp.example.com/mcp", "headers": {"X-Api-Key": "${secret:DOCS_KEY}"}},
    "source": "store",
    "where": "alice",
    "era": "modern",
    "revision": "2026-07-28",
    "server": {"name": "docs-mcp", "version": "2.4.1"},
    "tools": 12,
    "waiting": 1,
    "since": _LATER,
    "lastSync": _LAST,
    "nextTry": None,
    "sessions": 1,
    "children": 0,
    "restarts": 0,
    "lostCalls": 0,
    "parkedCalls": 0,
}
_REVIEWED: JsonObject = {
    "name": "Docs",
    "digest": _DIGEST,
    "tools": [
        {
            "id": "Docs.search@1.1.0",
            "kind": "tool",
            "was": "Docs.search@1.0.0",
            "refused": False,
            "changes": [
                {"kind": "feature", "path": "/input/properties/limit", "reason": "an optional member was added"}
            ],
            "findings": [],
            "document": {"name": "search", "inputSchema": {"type": "object"}},
        }
    ],
    "withheld": [{"tool": "print", "reason": "its input schema is no object"}],
}
_EVENTS: JsonObject = {
    "events": [{"at": _LATER, "by": "ci", "id": _ID, "what": "registered", "detail": {}}],
}
_RECORD: JsonObject = {
    "log": "20270201-093000-1f2e3d4c",
    "number": 7,
    "at": _LAST,
    "call": "call_01hx4",
    "caller": "ci",
    "dialect": "rest",
    "tool": _ID,
    "definitionSha256": _SHA256,
    "argumentsSha256": _SHA256,
    "level": 4,
    "verdict": "allow",
    "grant": "g_4f1c",
    "outcome": "ok",
    "durationUs": 1840,
    "bytesIn": 24,
    "bytesOut": 61,
}
_AUDIT_STATE: JsonObject = {
    "logs": [{"log": "1", "records": 8, "head": _SHA256}],
    "lastCheckpointAt": _LAST,
    "verified": {"at": _LAST, "records": 7, "problem": None},
    "verifying": None,
    "failing": False,
    "behind": False,
}
_CALLER: JsonObject = {"caller": "ci", "calls": 12, "last": _LAST}


_CHANGE: JsonObject = {
    "kind": "breaking",
    "path": "/inputSchema/required",
    "reason": "no longer accepts an object without 'harbour'",
}
_REPLICA: JsonObject = {
    "id": "replica-7f3a",
    "state": "healthy",
    "since": _LATER,
    "leaseEndsAt": _LAST,
    "callsInFlight": 2,
    "lastProbeAt": _LAST,
    "lastProbeOk": True,
    "breaker": "closed",
    "version": "1.1.0",
    "transport": "http",
    "address": "http://10.0.0.7:9000",
    "draining": False,
}
_SERVER: JsonObject = {
    "name": "harbours",
    "state": "healthy",
    "toolkits": ["Harbour"],
    "caller": "harbour-key",
    "replicas": [_REPLICA],
}
_TASK: JsonObject = {
    "id": "7f3a5b1c9d2e4f60817263544a5b6c7d",
    "tool": _ID,
    "caller": "ci",
    "actingFor": None,
    "dialect": "mcp@2026-07-28",
    "state": "input_required",
    "questions": ["Which harbour?"],
    "attempts": 1,
    "createdAt": _LATER,
    "updatedAt": _LATER,
    "expiresAt": _LAST,
}
_SETTING: JsonObject = {
    "name": "page_size",
    "value": 50,
    "default": 100,
    "source": "file",
    "where": "toolhall.toml",
    "secret": False,
    "description": "tools on one page of a listing",
}


class OperationExample(NamedTuple):
    """The example of one operation; `request` is None if it takes no body."""

    response: Json
    request: Json = None


_RESPONSES: dict[str, Json] = {
    "list": {"tools": [_TOOL], "total": 1, "facets": {"toolkit": {"Harbour": 1}, "kind": {"tool": 1}, "effect":
        {"reads": 1}, "level": {"4": 1}, "state": {"active": 1}, "origin": {"http": 1},
        "server": {}, "tag": {"sea": 1}}},
    "checkDefinition": {"dialect": "mcp", "tools": [{"id": _ID, "name": "get_tide"}], "findings": [_FINDING]},
    "register": {"tools": [{**_TOOL, "state": "quarantined", "served": False}], "findings": [_FINDING]},
    "show": {**_TOOL, "document": _REGISTRATION, "findings": [_FINDING], "versions": [_VERSION],
        "inputSchema": _REGISTRATION["inputSchema"], "outputSchema": None, "examples": [{"harbour": "Bergen"}],
        "completes": []},
    "remove": {"removed": _ID},
    "activate": _TOOL,
    "deactivate": {**_TOOL, "state": "inactive", "served": False},
    "deprecate": {**_TOOL, "deprecatedAt": _LAST, "sunset": "2027-06-30", "successor": "Harbour.tides@2.0.0"},
    "rollback": {"tools": [{**_TOOL, "id": _BEFORE, "version": "1.0.0", "newest": False}]},
    "history": _EVENTS,
    "events": _EVENTS,
    "callers": {"callers": [{**_CALLER, "versions": ["1.1.0"], "dialects": ["rest"]}], "others": 0},
    "diff": {"from": _BEFORE, "to": _ID, "required": "major", "declared": "minor", "ok": False, "changes": [_CHANGE],
        "callers": [_CALLER], "documents": {"from": {"name": "get_tide"}, "to": _REGISTRATION}},
    "losses": {"dialects": [{"dialect": "openai@strict", "exact": False, "refused": None,
        "losses": [{"path": "/level", "reason": "openai@strict has no levels"}]}]},
    "contracts": {"breaking": [{"from": _BEFORE, "to": _ID, "changes": [_CHANGE], "callers": [_CALLER]}],
        "deprecations": [{"id": _BEFORE, "sunset": "2027-06-30", "successor": _ID, "deprecatedAt": _LATER,
        "callers": [_CALLER]}]},
    "checkLock": {"ok": False, "checked": 1, "drift": [{"tool": _ID, "what": "shown"}]},
    "audit": {"records": [_RECORD]},
    "audit_state": _AUDIT_STATE,
    "verify_audit": {**_AUDIT_STATE, "verifying": {"verified": 0, "total": 81_920}},
    "call": {
        "call": "call_01hx4",
        "kind": "ok",
        "intent": None,
        "end": _RECORD,
        "stages": [
            {"stage": stage, "state": "passed", "us": None, "reason": None, "fix": None} for stage in CALL_STAGES
        ],
        "grant": None,
        "approval": None,
        "tool": None,
    },
    "overview": {
        "window": "15m",
        "bucketSeconds": 60,
        "from": _LATER,
        "to": _LAST,
        "processes": {"running": 1, "seen": 1},
        "calls": 1,
        "running": 0,
        "outcomes": {"ok": 1},
        "stopped": dict.fromkeys(CALL_STAGES, 0),
        "buckets": [{"at": _LATER, "ok": 1, "refused": 0, "failed": 0, "asked": 0}],
        "durations": [{"le": 2000, "calls": 1}],
        "p50Us": 1750,
        "p99Us": 1995,
        "addedUs": None,
        "topTools": [{"tool": _ID, "calls": 1, "failed": 0}],
        "topCallers": [{"caller": "ci", "calls": 1, "refused": 0}],
        "tools": 1,
        "changes": _EVENTS["events"],
    },
    "needs": {
        "approvals": {"count": 1, "firstEndsAt": _LATER},
        "review": {"count": 0},
        "servers": {"count": 1, "unwell": []},
        "upstreams": [{"name": "Docs", "waiting": 1, "link": False}],
        "accounts": {"count": 1, "first": {"person": "alice", "providerName": "GitHub"}},
        "deprecations": [{"id": _BEFORE, "sunset": "2027-06-30", "callers": ["ci"]}],
        "audit": {"failing": False, "problem": None, "verifiedAt": None},
    },
    "listen": 'event: health\nid: eyIxIjo4fQ\ndata: {"topic":"health","status":"degraded"}\n\n',
    "accept_audit": {"accepted": ["the log 20270201-093000-1f2e3d4c ends before its anchor"]},
    "servers": {"servers": [_SERVER]},
    "drainServer": {**_SERVER, "state": "degraded", "replicas": [{**_REPLICA, "draining": True, "state": "draining"}]},
    "removeServer": {"removed": "harbours"},
    "upstreams": {"upstreams": [_UPSTREAM]},
    "addUpstream": {**_UPSTREAM, "state": "new", "era": None, "revision": None, "server": None, "tools": 0,
        "waiting": 0, "lastSync": None, "sessions": 0},
    "upstream": _UPSTREAM,
    "removeUpstream": {"removed": "Docs"},
    "checkUpstream": {"name": "Docs", "ok": False, "steps": [
        {"name": "address", "ok": True, "seconds": 0.012, "detail": "mcp.example.com has one address", "fix": None},
        {"name": "TLS", "ok": False, "seconds": 0.048, "detail": "its certificate has expired",
         "fix": "tell whoever runs mcp.example.com"},
    ]},
    "syncUpstream": _UPSTREAM,
    "switchOffUpstream": {**_UPSTREAM, "state": "off", "sessions": 0},
    "switchOnUpstream": {**_UPSTREAM, "state": "connecting"},
    "upstreamReview": _REVIEWED,
    "acceptUpstream": {"accepted": ["Docs.search@1.1.0"]},
    "tasks": {"tasks": [_TASK]},
    "task": {**_TASK, "error": None},
    "cancelTask": {**_TASK, "state": "cancelled", "questions": [], "error": None},
    "settings": {"settings": [_SETTING], "versions": {"toolhall": "1.0.0", "python": "3.13.1"}, "data": "/srv/hall",
        "startedAt": _LATER, "process": 4711, "workers": 1,
        "disk": {"freeBytes": 52_428_800_000, "totalBytes": 107_374_182_400}},
}  # fmt: skip
_REQUESTS: dict[str, Json] = {
    "checkDefinition": _REGISTRATION,
    "register": _REGISTRATION,
    "activate": {"seen": _DIGEST},
    "deactivate": {},
    "deprecate": {"sunset": "2027-06-30", "successor": "Harbour.tides@2.0.0"},
    "rollback": {},
    "accept_audit": {},
    "verify_audit": {},
    "drainServer": {},
    "addUpstream": {"name": "Docs", "settings": {"url": "https://mcp.example.com/mcp"}},
    "checkUpstream": {},
    "syncUpstream": {},
    "switchOffUpstream": {},
    "switchOnUpstream": {},
    "acceptUpstream": {"digest": _DIGEST},
    "cancelTask": {},
    "checkLock": {"lock": {"lock": 1, "tools": {_ID: {"shown": _DIGEST, "contract": _DIGEST}}}},
}
EXAMPLES: dict[str, OperationExample] = {
    name: OperationExample(response, ({**_REQUESTS, **ACCESS_REQUESTS}).get(name))
    for name, response in {**_RESPONSES, **ACCESS_RESPONSES}.items()
}


def with_example(name: str, operation: JsonObject) -> JsonObject:
    """Return an operation with its example request and response, if it has any."""
    example = EXAMPLES.get(name)
    if example is None:
        return operation
    status, success = next(iter(operation["responses"].items()))
    responses = {**operation["responses"], status: _add_example(success, example.response)}
    body = operation.get("requestBody")
    described = {} if body is None else {"requestBody": _add_example(body, example.request)}
    return {**operation, **described, "responses": responses}


def _add_example(part: JsonObject, example: Json) -> JsonObject:
    content: dict[str, Any] = part["content"]
    return {**part, "content": {kind: {**described, "example": example} for kind, described in content.items()}}
