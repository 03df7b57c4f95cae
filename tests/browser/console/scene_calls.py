"""The calls of the scene: their records and stages, the figures of an hour, and the state of the audit."""

from typing import Any

from tests.browser.console.scene_tools import BY_ID, DAY, HISTORY, HOUR, TOOLS, at, digest
from toolhall.model.call_records import CALL_STAGES, outcome_kind

# --- calls: seconds ago, outcome, stage, tool, caller, dialect, microseconds -----------------------------------------

CALL_ROWS: list[tuple[float, str, str, str, str, str, int]] = [
    (4, "ok", "audit", "Harbour.get_tide@1.1.0", "ci", "mcp@2026-07-28", 1_840),
    (9, "ok", "audit", "Calendar.list_events@2.1.0", "claude-code", "mcp@2026-07-28", 41_200),
    (15, "NeedsVerification", "verify", "Harbour.scrap_ship@1.1.0", "support-bot", "mcp@2026-07-28", 2_310),
    (21, "Denied", "verify", "Harbour.open_lock@1.1.0", "ci", "openapi", 610),
    (33, "ok", "audit", "Depot.move_container@1.4.0", "ci", "openapi", 88_400),
    (47, "BadArguments", "validate", "Calendar.add_event@2.1.0", "claude-code", "mcp@2026-07-28", 420),
    (52, "ok", "audit", "Mail.search@3.0.0", "support-bot", "mcp@2026-07-28", 230_000),
    (66, "TimedOut", "run", "Depot.weigh_container@1.4.0", "ci", "oxp", 5_000_000),
    (80, "ok", "audit", "create key night-shift", "alice", "http/management", 3_200),
    (95, "ok", "audit", "Mail.search@2.2.0", "support-bot", "mcp@2026-07-28", 198_000),
    (121, "Limited", "limit", "Mail.search@3.0.0", "support-bot", "mcp@2026-07-28", 95),
    (140, "NotFound", "find", "Harbour.get_tides", "claude-code", "mcp@2026-07-28", 80),
    (163, "tool_error", "audit", "Calendar.add_event@2.1.0", "claude-code", "mcp@2026-07-28", 12_300),
    (190, "NeedsRequirement", "equip", "Mail.send@3.0.0", "night-shift", "openapi", 1_100),
    (222, "ok", "audit", "Harbour.get_tide@1.1.0", "ci", "openapi", 1_720),
    (260, "ok", "audit", "Harbour.close_harbour@1.1.0", "support-bot", "mcp@2026-07-28", 9_400),
    (301, "BadOutput", "check", "Depot.weigh_container@1.4.0", "ci", "openapi", 21_000),
    (340, "ok", "audit", "Calendar.list_events@2.1.0", "claude-code", "mcp@2026-07-28", 39_000),
]
SHARES = (2, 5, 1, 6, 9, 3, 62, 4, 5, 3)


def record(place: int) -> dict[str, Any]:
    """Return the record of one call."""
    ago, outcome, stage, name, caller, dialect, took = CALL_ROWS[place]
    known = BY_ID.get(name)
    last = CALL_STAGES.index(stage)
    reached = SHARES[: last + 1]
    times = [took * share // sum(reached) for share in reached] + [0] * (len(CALL_STAGES) - last - 1)
    made: dict[str, Any] = {
        "log": "20261116-080000-1f2e3d4c",
        "number": 4_180 - 2 * place,
        "at": at(ago),
        "call": f"c0ffee{4_180 - place:06x}-{place}",
        "caller": caller,
        "dialect": dialect,
        "tool": name,
        "outcome": outcome,
        "durationUs": took,
        "bytesIn": 64 + 7 * place,
        "bytesOut": 220 + 31 * place,
        "stage": stage,
        "argumentsSha256": digest(900 + place),
    }
    if known is not None:
        made |= {"level": known["effectiveLevel"], "definitionSha256": digest(700 + place), "stagesUs": times}
        made["verdict"] = "deny" if outcome == "Denied" else "verify" if outcome == "NeedsVerification" else "allow"
        made |= {"grant": "g_4f1cA09bTq2"} if known["effectiveLevel"] >= 4 and outcome != "NeedsVerification" else {}
        made |= {"server": known["server"]} if known["server"] and outcome not in {"Denied", "Limited"} else {}
    if outcome == "Denied":
        made["reason"] = "forbidden by a grant for these arguments"
    return made


RECORDS = [record(place) for place in range(len(CALL_ROWS))]
DENIED = next(each for each in RECORDS if each["outcome"] == "Denied")


GRANT = {
    "id": "g_4f1cA09bTq2",
    "effect": "permit",
    "callers": "ci",
    "tools": "Harbour.open_lock",
    "conditions": [{"path": "/lock", "oneOf": ["north", "south"]}],
    "createdAt": at(21 * DAY),
    "by": "alice",
    "calls": 318,
}


def call_detail(call: str) -> dict[str, Any]:
    """Return one call with its stages."""
    found = next(each for each in RECORDS if each["call"] == call)
    kind = outcome_kind(found["outcome"])
    ended = CALL_STAGES.index(found["stage"])
    whole = kind in {"ok", "tool_error"}
    rows = [
        {
            "stage": stage,
            "state": "passed" if whole or place < ended else "stopped" if place == ended else "not_reached",
            "us": found.get("stagesUs", [None] * 10)[place] if whole or place <= ended else None,
            "reason": None,
            "fix": None,
        }
        for place, stage in enumerate(CALL_STAGES)
    ]
    if not whole:
        rows[ended]["reason"] = f"Forbidden by a grant for these arguments. The tool has level {found.get('level')}."
        rows[ended]["fix"] = "Change the rule that decided, or call as somebody whom it permits."
    return {
        "call": call,
        "kind": kind,
        "intent": None,
        "end": found,
        "stages": rows,
        "grant": GRANT if "grant" in found else None,
        "approval": None,
        "tool": BY_ID.get(found["tool"]),
    }


OUTCOMES = {
    "ok": 1_642,
    "tool_error": 18,
    "Denied": 41,
    "BadArguments": 57,
    "NotFound": 12,
    "Limited": 23,
    "NeedsVerification": 9,
    "NeedsRequirement": 6,
    "TimedOut": 4,
    "BadOutput": 3,
}
STOPPED = {"find": 12, "authorize": 29, "limit": 23, "validate": 57, "verify": 21, "equip": 6, "run": 4, "check": 3}


def buckets(count: int, seconds: int) -> list[dict[str, Any]]:
    """Return figures that rise and fall like those of a day."""
    shape = [22 + (place * 37) % 19 + (9 if place % 17 < 5 else 0) for place in range(count)]
    return [
        {
            "at": at((count - place) * seconds + 8),
            "ok": ok,
            "refused": (place * 7) % 5,
            "failed": 1 if place % 13 == 4 else 0,
            "asked": 1 if place % 9 == 2 else 0,
        }
        for place, ok in enumerate(shape)
    ]


def overview(query: dict[str, str]) -> dict[str, Any]:
    """Return the figures of a time."""
    window = query.get("window", "1h")
    count, seconds = {"15m": (15, 60), "1h": (60, 60), "24h": (96, 900), "7d": (168, 3_600)}[window]
    return {
        "window": window,
        "bucketSeconds": seconds,
        "from": at(count * seconds + 8),
        "to": at(0),
        "processes": {"running": 1, "seen": 1},
        "calls": sum(OUTCOMES.values()),
        "running": 2,
        "outcomes": OUTCOMES,
        "stopped": {stage: STOPPED.get(stage, 0) for stage in CALL_STAGES},
        "buckets": buckets(count, seconds),
        "durations": [
            {"le": 1_000, "calls": 380},
            {"le": 10_000, "calls": 900},
            {"le": 100_000, "calls": 420},
            {"le": None, "calls": 115},
        ],
        "p50Us": 4_210,
        "p99Us": 412_000,
        "addedUs": 164,
        "topTools": [
            {"tool": "Harbour.get_tide@1.1.0", "calls": 612, "failed": 0},
            {"tool": "Calendar.list_events@2.1.0", "calls": 401, "failed": 2},
            {"tool": "Mail.search@3.0.0", "calls": 288, "failed": 1},
            {"tool": "Mail.search@2.2.0", "calls": 226, "failed": 0},
            {"tool": "Depot.move_container@1.4.0", "calls": 97, "failed": 4},
        ],
        "topCallers": [
            {"caller": "ci", "calls": 801, "refused": 61},
            {"caller": "support-bot", "calls": 634, "refused": 48},
            {"caller": "claude-code", "calls": 371, "refused": 53},
            {"caller": "night-shift", "calls": 9, "refused": 6},
        ],
        "tools": sum(each["state"] == "active" for each in TOOLS),
        "changes": HISTORY["events"],
    }


AUDIT_STATE: dict[str, Any] = {
    "logs": [{"log": "20261116-080000-1f2e3d4c", "records": 4_181, "head": digest(1)}],
    "lastCheckpointAt": at(128),
    "verified": {"at": at(3 * HOUR), "records": 3_610, "problem": None},
    "verifying": None,
    "failing": False,
    "behind": False,
}
