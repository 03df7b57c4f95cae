"""`SCENE`: what a hall in the middle of a day answers to every question of the console, always the same.

Screens are looked at, tried with hostile texts, and pictured with these answers: ids, times and figures of a hall that
runs would differ each time. `test_scene.py` holds each of them against the schemas of `/openapi.json`.
"""

from typing import Any

from tests.browser.console.scene_calls import AUDIT_STATE, GRANT, RECORDS, call_detail, overview
from tests.browser.console.scene_tools import (
    BY_ID,
    CONTRACTS,
    DAY,
    HISTORY,
    HOUR,
    STILL,
    TOOLS,
    at,
    digest,
    tool_detail,
    tool_diff,
    tool_listing,
    tool_page,
)
from tests.browser.console.scene_upstreams import UPSTREAMS, review_of, upstream_detail

PERSON = "alice"

# --- who may call -----------------------------------------------------------------------------------------------------

GRANTS: list[dict[str, Any]] = [
    {
        "id": "g_Jb2Sp785sOU",
        "effect": "permit",
        "callers": "ci",
        "tools": "Depot.*",
        "conditions": [],
        "createdAt": at(30 * DAY),
        "by": "alice",
        "calls": 1_204,
    },
    GRANT,
    {
        "id": "g_AoMuSRYyyNz",
        "effect": "permit",
        "callers": "support-*",
        "tools": "Mail.*",
        "conditions": [],
        "createdAt": at(12 * DAY),
        "by": "bob",
        "calls": 2_790,
    },
    {
        "id": "g_NEMeVyixZ1O",
        "effect": "forbid",
        "callers": "ci",
        "tools": "Harbour.scrap_ship",
        "conditions": [],
        "createdAt": at(12 * DAY),
        "by": "bob",
        "calls": 3,
    },
]


def key(number: int, name: str, **more: Any) -> dict[str, Any]:
    """Return a key of a caller."""
    made = {
        "id": f"k_7d2f{number:04d}",
        "name": name,
        "owner": None,
        "shared": False,
        "scopes": ["tools:*"],
        "createdAt": at(40 * DAY),
        "expiresAt": at(-50 * DAY),
        "lastUsedAt": at(4),
        "revokedAt": None,
        "by": "alice",
    }
    return made | more


def caller(name: str, proof: str, calls: int, refused: int, *keys: dict[str, Any]) -> dict[str, Any]:
    """Return a caller."""
    return {
        "name": name,
        "proof": proof,
        "owner": keys[0]["owner"] if keys else None,
        "scopes": keys[0]["scopes"] if keys else ["admin", "tools:*"] if proof == "local" else ["tools:*"],
        "keys": list(keys),
        "lastAt": at(4 + calls % 300) if calls else None,
        "calls": calls,
        "refused": refused,
    }


CALLERS = [
    caller("ci", "key", 801, 61, key(1, "ci", owner="alice"), key(2, "ci", revokedAt=at(9 * DAY))),
    caller("claude-code", "token", 371, 53),
    caller("support-bot", "key", 634, 48, key(3, "support-bot", owner="bob", expiresAt=at(-6 * DAY))),
    caller("night-shift", "shared", 9, 6, key(4, "night-shift", shared=True, createdAt=at(80), lastUsedAt=at(190))),
    caller(
        "auditor", "key", 0, 0, key(5, "auditor", owner="carol", scopes=["observe"], lastUsedAt=None, expiresAt=None)
    ),
    caller("alice", "key", 12, 0, key(6, "alice", scopes=["admin", "approve", "tools:*"])),
]
PAIR_WORDS = {
    "yes": "Grant g_Jb2Sp785sOU permits it.",
    "if": "It depends on the arguments: g_4f1cA09bTq2 permits it under conditions.",
    "asks": "Level 8 and above need a person's yes.",
    "no": "No grant permits it.",
}


def access(query: dict[str, str]) -> dict[str, Any]:
    """Return who may call what."""
    toolkit = query.get("tools", "").removesuffix(".*")
    pairs: list[dict[str, Any]] = []
    for row, each in enumerate(CALLERS):
        for column, found in enumerate(TOOLS):
            if found["state"] != "active" or toolkit not in {"", found["toolkit"]}:
                continue
            level = found["effectiveLevel"]
            verdict = "yes" if level < 4 else "asks" if level >= 8 else ("yes", "if", "no")[(row + column // 2) % 3]
            verdict = "no" if each["name"] == "auditor" else verdict
            gate = [{"path": "/lock", "oneOf": ["north", "south"]}] if verdict == "if" else []
            pairs.append(
                {
                    "caller": each["name"],
                    "tool": found["id"],
                    "toolkit": found["toolkit"],
                    "verdict": verdict,
                    "rule": None if verdict == "asks" else "g_4f1cA09bTq2" if gate else None,
                    "words": PAIR_WORDS[verdict],
                    "conditions": gate,
                }
            )
    return {"pairs": pairs}


def check(body: dict[str, Any]) -> dict[str, Any]:
    """Return what would become of a call."""
    words = [
        ("find", "pass", None, f"{body['caller']} sees {body['tool']}."),
        ("authorize", "pass", None, "A rule decides by the arguments; verify looks at them."),
        ("limit", "pass", None, "It is within all limits of this process now."),
        ("validate", "unknown", None, "Its arguments are checked against the schema when the call is made."),
        ("verify", "unknown", "g_4f1cA09bTq2", PAIR_WORDS["if"]),
        ("equip", "not_reached", None, "The call does not get here."),
    ]
    stages = [{"stage": stage, "state": state, "rule": rule, "words": said} for stage, state, rule, said in words]
    return {"caller": body["caller"], "tool": body["tool"], "verdict": "unknown", "stages": stages, "notes": []}


# --- approvals --------------------------------------------------------------------------------------------------------


def approval(number: int, name: str, caller_name: str, shown: str, left: float, **more: Any) -> dict[str, Any]:
    """Return a question that waits for a person."""
    known = BY_ID[name]
    made = {
        "id": f"a_81c0{number:04d}",
        "state": "pending",
        "how": "approval",
        "tool": name,
        "level": known["effectiveLevel"],
        "effect": known["effect"],
        "caller": caller_name,
        "person": PERSON,
        "actingFor": None,
        "dialect": "mcp@2026-07-28",
        "shown": shown,
        "shownSha256": digest(300 + number),
        "argumentsSha256": digest(320 + number),
        "definitionSha256": digest(340 + number),
        "codeSha256": digest(360 + number),
        "createdAt": at(300 - left),
        "expiresAt": at(-left),
        "approver": None,
        "method": None,
        "decidedAt": None,
        "mayApprove": True,
        "url": f"/approve/a_81c0{number:04d}",
        "reason": None,
        "differences": None,
    }
    return made | more


WAITING = [
    approval(
        1,
        "Harbour.scrap_ship@1.1.0",
        "support-bot",
        '{\n  "ship": "B\u0430rge 7",\n  "why": "it leaks since Monday",\n  "inform": ["owner", "harbour office"]\n}',
        192,
        differences={
            "since": at(2 * DAY),
            "changes": [
                {"path": "/ship", "before": "Argo", "after": "B\u0430rge 7"},
                {"path": "/inform/1", "before": None, "after": "harbour office"},
            ],
        },
    ),
    approval(2, "Harbour.close_harbour@1.1.0", "ci", '{\n  "harbour": "Leith",\n  "days": 2\n}', 251),
    approval(3, "Harbour.scrap_ship@1.1.0", "claude-code", '{\n  "ship": "Argo"\n}', 285, actingFor="bob"),
]
DECIDED = [
    approval(
        4,
        "Harbour.close_harbour@1.1.0",
        "support-bot",
        '{\n  "harbour": "Oban"\n}',
        -40,
        state="consumed",
        approver=PERSON,
        method="totp",
        decidedAt=at(261),
    ),
    approval(
        5,
        "Harbour.scrap_ship@1.1.0",
        "ci",
        '{\n  "ship": "Fram"\n}',
        -3_000,
        state="denied",
        approver="bob",
        method="passkey",
        decidedAt=at(3_100),
        reason="she is in a museum",
    ),
    approval(6, "Harbour.scrap_ship@1.1.0", "ci", '{\n  "ship": "Vega"\n}', -7_000, state="expired"),
]

# --- what tools need, and who runs them -------------------------------------------------------------------------------


def secret(name: str, user: str | None, used_by: list[str], used: str | None, *, usable: bool = True) -> dict[str, Any]:
    """Return a secret, without its value."""
    return {
        "name": name,
        "user": user,
        "hint": "3f9a",
        "usable": usable,
        "createdAt": at(60 * DAY),
        "changedAt": at(8 * DAY),
        "by": "alice",
        "usedBy": used_by,
        "usedAt": used,
    }


SECRETS = [
    secret("HARBOUR_KEY", None, ["Harbour.close_harbour@1.1.0", "Harbour.open_lock@1.1.0"], at(21)),
    secret("TIDE_API_KEY", None, ["Harbour.get_tide@1.1.0"], at(4)),
    secret("SMS_TOKEN", "bob", [], None, usable=False),
]
ACCOUNTS = [
    {
        "id": f"acc_5e1d{number}",
        "provider": "google",
        "providerName": "Google",
        "issuer": "https://accounts.google.com",
        "user": user,
        "person": user,
        "scopes": ["openid", "https://www.googleapis.com/auth/gmail.readonly"],
        "state": state,
        "linkedAt": at(17 * DAY),
        "refreshedAt": at(HOUR),
        "expiresAt": at(-HOUR),
        "usedAt": at(52) if state == "connected" else at(3 * DAY),
        "usedBy": ["Mail.search@3.0.0", "Mail.send@3.0.0", "Mail.search@2.2.0"],
    }
    for number, (user, state) in enumerate([("alice", "connected"), ("bob", "broken")])
]
PROVIDERS = [
    {
        "name": name,
        "displayName": shown,
        "issuer": f"https://{name}.example",
        "redirect_uri": "http://localhost:8000/oauth/callback",
        "scopes": scopes,
    }
    for name, shown, scopes in [("google", "Google", ["openid"]), ("github", "GitHub", [])]
]


def replica(number: int, **more: Any) -> dict[str, Any]:
    """Return a replica of a tool server."""
    made = {
        "id": digest(500 + number)[:32],
        "state": "healthy",
        "since": at(6 * HOUR + number * 900),
        "leaseEndsAt": at(-11),
        "callsInFlight": 2 - number,
        "lastProbeAt": at(7),
        "lastProbeOk": True,
        "breaker": "closed",
        "version": "1.4.0",
        "transport": "http",
        "address": f"http://10.0.0.{7 + number}:9000",
        "draining": False,
    }
    return made | more


SERVERS: list[dict[str, Any]] = [
    {
        "name": "depot",
        "state": "degraded",
        "toolkits": ["Depot"],
        "caller": "depot-key",
        "replicas": [replica(0), replica(1, state="degraded", breaker="half_open", lastProbeOk=False)],
    },
    {
        "name": "weather",
        "state": "healthy",
        "toolkits": ["Weather"],
        "caller": "weather-key",
        "replicas": [replica(2, transport="websocket", address=None, callsInFlight=0)],
    },
    {"name": "archive", "state": "gone", "toolkits": ["Archive"], "caller": "archive-key", "replicas": []},
]
LIMITS = {
    "perCaller": {"rate": 50, "burst": 100},
    "perTool": {"rate": 200, "burst": 400},
    "perPair": None,
    "concurrency": {"perCaller": 128, "perTool": 192, "total": 256},
    "costs": {"Mail.*": 5},
    "fullest": [
        {"key": "support-bot", "kind": "caller", "fill": 0.94},
        {"key": "ci", "kind": "caller", "fill": 0.38},
        {"key": "Mail.search@3.0.0", "kind": "tool", "fill": 0.21},
    ],
    "refused": [{"caller": "support-bot", "calls": 23, "lastAt": at(121)}],
    "processes": {"running": 1, "seen": 1},
}


def setting(name: str, value: Any, default: Any, description: str, source: str = "default", **more: Any) -> Any:
    """Return a setting and where it is stated."""
    where = {"file": "toolhall.toml", "environment": f"TOOLHALL_{name.upper()}", "option": f"--{name}"}.get(source)
    made = {"name": name, "value": value, "default": default, "source": source, "where": where, "secret": False}
    return made | {"description": description} | more


SETTINGS = {
    "settings": [
        setting("name", "harbour", "toolhall", "how the hall introduces itself to clients", "file"),
        setting("profile", "local", "local", "`local`: callers on this machine; `server`: needs credentials"),
        setting("port", 8000, 8000, "the port; 0 picks a free one"),
        setting("data", "/srv/harbour", None, "the data folder: records, keys, grants, secrets", "environment"),
        setting("calls_per_second", 50, 50_000, "the limit for each caller", "file"),
        setting("call_burst", 100, 50_000, "how many of them at once", "file"),
        setting("tool_limit", {"per_second": 200, "burst": 400}, None, "a limit for each tool", "file"),
        setting("pair_limit", None, None, "a limit for each caller and tool"),
        setting("costs", {"Mail.*": 5}, {}, 'how many calls one counts for: `{"Image.*" = 10}`', "file"),
        setting("call_timeout", 60, 60, "seconds until a tool that states no timeout is stopped"),
        setting("vault_key", None, None, "the key that seals secrets", "environment", secret=True),
        setting("log_level", "info", "warning", "what is logged", "option"),
    ],
    "versions": {"toolhall": "0.1.0", "python": "3.13.1", "sqlite": "3.50.4"},
    "data": "/srv/harbour",
    "startedAt": at(30 * HOUR),
    "process": 4711,
    "workers": 1,
    "disk": {"freeBytes": 52_428_800_000, "totalBytes": 107_374_182_400},
}
HEALTH = {
    "status": "degraded",
    "uptime": 30 * HOUR,
    "tools": 11,
    "components": {
        "core": "healthy",
        "tools": {"Calendar": "healthy", "Depot": "degraded", "Harbour": "healthy", "Mail": "healthy"},
    },
}
NEEDS: dict[str, Any] = {
    "approvals": {"count": len(WAITING), "firstEndsAt": min(each["expiresAt"] for each in WAITING)},
    "review": {"count": sum(each["state"] == "quarantined" for each in TOOLS)},
    "servers": {"count": len(SERVERS), "unwell": [each["name"] for each in SERVERS if each["state"] != "healthy"]},
    "upstreams": [
        {"name": each["name"], "waiting": each["waiting"], "link": False} for each in UPSTREAMS if each["waiting"]
    ],
    "accounts": {"count": 1, "first": {"person": "bob", "providerName": "Google"}},
    "deprecations": [
        {"id": each["id"], "sunset": each["sunset"], "callers": [caller["caller"] for caller in each["callers"]]}
        for each in CONTRACTS["deprecations"]
    ],
    "audit": {"failing": False, "problem": None, "verifiedAt": AUDIT_STATE["verified"]["at"]},
}
ME = {
    "caller": "alice",
    "person": PERSON,
    "proof": "key",
    "scopes": ["admin", "approve", "tools:*"],
    "may": {"manage": True, "observe": True, "approve": True},
    "hall": "harbour",
    "version": "0.1.0",
    "profile": "server",
    "publicUrl": "https://tools.example.com",
    "traceUrl": None,
    "processes": {"running": 1, "seen": 1},
    "endpoints": {
        kind: f"https://tools.example.com/{kind}" for kind in ("mcp", "oxp", "machine", "rest", "health", "hub")
    },
    "token": "the-token-of-the-session",
    "sessionEndsAt": at(-900),
    "provenAt": None,
    "hasFactor": True,
    "firstRun": False,
    "docs": "https://tools.example.com/openapi.json",
    "oidc": False,
}


def task(number: int, tool: str, caller_name: str, state: str, ago: float, **more: Any) -> dict[str, Any]:
    """Return a call that outlives its connection."""
    made: dict[str, Any] = {
        "id": f"t_5c0de{number:04d}",
        "tool": tool,
        "caller": caller_name,
        "actingFor": None,
        "dialect": "mcp@2026-07-28",
        "state": state,
        "questions": [],
        "attempts": 1,
        "createdAt": at(ago),
        "updatedAt": at(ago / 3),
        "expiresAt": at(ago - HOUR),
    }
    return made | more


TASKS = [
    task(1, "Depot.move_container@1.4.0", "ci", "working", 41),
    task(2, "Harbour.open_lock@1.1.0", "claude-code", "input_required", 190, questions=["Which gate do you open?"]),
    task(3, "Depot.weigh_container@1.4.0", "ci", "completed", 800),
    task(4, "Mail.search@3.0.0", "support-bot", "failed", 1_300, actingFor="bob", attempts=2),
    task(5, "Depot.move_container@1.4.0", "ci", "cancelled", 2_400),
]


def task_detail(task_id: str) -> dict[str, Any]:
    """Return one of them."""
    found = next(each for each in TASKS if each["id"] == task_id)
    return found | {"error": "unavailable" if found["state"] == "failed" else None}


def approvals(query: dict[str, str]) -> dict[str, Any]:
    """Return the questions that wait, or those that were decided."""
    return {"approvals": DECIDED if query.get("state") == "decided" else WAITING}


def tool_callers(_: str) -> dict[str, Any]:
    """Return who calls a tool."""
    return {"callers": [each | {"versions": ["2.2.0"], "dialects": ["mcp@2026-07-28"]} for each in STILL], "others": 0}


def tool_history(tool_id: str) -> dict[str, Any]:
    """Return what happened to a tool."""
    return {"events": [each for each in HISTORY["events"] if tool_id in (each["id"], each["id"].partition("@")[0])]}


def tool_losses(_: str) -> dict[str, Any]:
    """Return what each dialect cannot say of a tool."""
    loss = {"path": "/level", "reason": "openai@strict has no levels"}
    exact = {"dialect": "mcp@2026-07-28", "exact": True, "refused": None, "losses": []}
    return {"dialects": [exact, {"dialect": "openai@strict", "exact": False, "refused": None, "losses": [loss]}]}


TOKEN = {"token": "scene", "expiresAt": at(-300)}
SCENE: dict[str, Any] = {
    "/api/me": ME,
    "/api/overview": overview,
    "/api/needs": NEEDS,
    "/api/audit": {"records": RECORDS},
    "/api/audit/state": AUDIT_STATE,
    "/api/approvals": approvals,
    "/api/callers": {"callers": CALLERS},
    "/api/grants": {"grants": GRANTS},
    "/api/access": access,
    "/api/secrets": {"secrets": SECRETS},
    "/api/accounts": {"accounts": ACCOUNTS},
    "/api/providers": {"providers": PROVIDERS},
    "/api/servers": {"servers": SERVERS},
    "/api/upstreams": {"upstreams": UPSTREAMS},
    "/api/contracts": CONTRACTS,
    "/api/limits": LIMITS,
    "/api/settings": SETTINGS,
    "/api/history": HISTORY,
    "/api/tasks": {"tasks": TASKS},
    "/api/tools": tool_page,
    "/health": HEALTH,
    "/tools": tool_listing,
}
"""Answers by path; a function gets the query."""

BELOW: dict[str, Any] = {
    "/api/calls/{}": call_detail,
    "/api/tasks/{}": task_detail,
    "/api/tools/{}": tool_detail,
    "/api/upstreams/{}": upstream_detail,
    "/api/upstreams/{}/review": review_of,
    "/api/tools/{}/diff": tool_diff,
    "/api/tools/{}/callers": tool_callers,
    "/api/tools/{}/history": tool_history,
    "/api/tools/{}/losses": tool_losses,
}
"""Answers below an id."""
