"""The upstreams of the scene: one of each state that a person meets, and what waits for a look."""

from typing import Any

from tests.browser.console.scene_tools import DAY, HOUR, at, digest


def upstream(name: str, state: str, target: str, **more: Any) -> dict[str, Any]:
    """Return an upstream as the list has it."""
    made: dict[str, Any] = {
        "name": name,
        "state": state,
        "reason": None,
        "target": target,
        "settings": {"url": target},
        "source": "store",
        "where": "alice",
        "era": "modern",
        "revision": "2026-07-28",
        "server": {"name": f"{name.lower()}-mcp", "version": "2.4.1"},
        "tools": 12,
        "waiting": 0,
        "since": at(3 * HOUR),
        "lastSync": at(240),
        "nextTry": None,
        "sessions": 1,
        "children": 0,
        "restarts": 0,
        "lostCalls": 0,
        "parkedCalls": 0,
    }
    return made | more


UPSTREAMS: list[dict[str, Any]] = [
    upstream(
        "Charts",
        "ready",
        "https://charts.example.com/mcp",
        settings={
            "url": "https://charts.example.com/mcp",
            "headers": {"X-Api-Key": "${secret:CHARTS_KEY}"},
            "level": 2,
        },
        waiting=2,
    ),
    upstream(
        "Files",
        "ready",
        "npx -y @scope/server-files@2026.1.14 ./data",
        settings={"command": "npx", "args": ["-y", "@scope/server-files@2026.1.14", "./data"]},
        source="file",
        where="/srv/hall/toolhall.toml",
        era="legacy",
        revision="2025-11-25",
        children=1,
        tools=9,
    ),
    upstream(
        "Tickets",
        "away",
        "https://tickets.example.com/mcp",
        reason="tickets.example.com refused the connection; its tools stay listed, and calls are answered at once",
        nextTry=at(-40),
        since=at(2 * DAY),
        lostCalls=1,
        sessions=0,
        tools=4,
    ),
    upstream(
        "Wiki",
        "waiting",
        "https://wiki.example.com/mcp",
        reason="the secret WIKI_TOKEN has not been set: 'toolhall secret set WIKI_TOKEN' does that",
        era=None,
        revision=None,
        server=None,
        lastSync=None,
        sessions=0,
        tools=0,
    ),
]
REVIEW: dict[str, Any] = {
    "name": "Charts",
    "digest": f"sha256-{digest(81)}",
    "tools": [
        {
            "id": "Charts.draw@1.1.0",
            "kind": "tool",
            "refused": False,
            "was": "Charts.draw@1.0.0",
            "changes": [
                {"kind": "feature", "path": "/input/properties/scale", "reason": "an optional member was added"}
            ],
            "findings": [],
            "document": {
                "name": "draw",
                "description": "Draw the chart of a harbour.",
                "inputSchema": {
                    "type": "object",
                    "properties": {"harbour": {"type": "string"}, "scale": {"type": "integer"}},
                    "required": ["harbour"],
                },
            },
        },
        {
            "id": "Charts.share@1.0.0",
            "kind": "tool",
            "refused": False,
            "was": None,
            "changes": [],
            "findings": [
                {
                    "path": "/description",
                    "rule": "poison/other-tool",
                    "fix": "the text names another tool; look whether it steers the model there",
                    "severity": "warning",
                }
            ],
            "document": {
                "name": "share",
                "description": "Share a chart. Use Mail_send to tell people.",
                "inputSchema": {"type": "object", "properties": {"chart": {"type": "string"}}},
            },
        },
    ],
    "withheld": [{"tool": "print", "reason": "its input schema is no object"}],
}


def review_of(name: str) -> dict[str, Any]:
    """Return what of an upstream waits for a look."""
    return REVIEW if name == "Charts" else {**REVIEW, "name": name, "tools": [], "withheld": []}


def upstream_detail(name: str) -> dict[str, Any]:
    """Return one of them."""
    return next(each for each in UPSTREAMS if each["name"] == name)
