"""The operations of the hall itself, beside those of its tools."""

from collections.abc import Sequence

from toolhall.model.json import Json, JsonObject

TAG: JsonObject = {"name": "hall", "description": "The hall itself: which tools there are, and how it is."}
_TEXT: JsonObject = {"type": "string"}
_STATE: JsonObject = {"enum": ["healthy", "degraded", "unhealthy"]}
_LISTED: JsonObject = {
    "type": "object",
    "properties": {
        "dialect": _TEXT,
        "tools": {"type": "array", "items": {"type": "object"}},
        "nextCursor": {"type": "string", "description": "Send it as `cursor` to get the next page."},
        "losses": {
            "type": "array",
            "description": "What the dialect cannot say of a tool: a JSON pointer, and why.",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "path": _TEXT, "reason": _TEXT},
                "required": ["tool", "path", "reason"],
            },
        },
        "refused": {
            "type": "array",
            "description": "Tools that this dialect would change, and why.",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "reasons": {"type": "array", "items": _TEXT}},
                "required": ["tool", "reasons"],
            },
        },
    },
    "required": ["dialect", "tools", "losses"],
}
_HEALTH: JsonObject = {
    "type": "object",
    "properties": {
        "status": _STATE,
        "components": {
            "type": "object",
            "properties": {"core": _STATE, "tools": {"type": "object", "additionalProperties": _STATE}},
            "required": ["core", "tools"],
        },
        "uptime": {"type": "number", "description": "Seconds."},
        "tools": {"type": "integer", "description": "How many tools there are."},
    },
    "required": ["status", "uptime"],  # the rest is for whoever may manage the hall
}


def paths(dialects: Sequence[str]) -> JsonObject:
    """Listing in any of these dialects, and health."""
    return {
        "/tools": {"get": _listing(dialects)},
        "/health": {"get": _health("health", "The state of the hall and of its parts.", _HEALTH)},
        "/health/live": {"get": _health("live", "Whether the process answers.", _status("alive"))},
        "/health/ready": {"get": _health("ready", "Whether calls are taken.", _status("ready", "stopping"))},
    }


def _listing(dialects: Sequence[str]) -> JsonObject:
    return {
        "operationId": "hall.tools",
        "tags": [TAG["name"]],
        "summary": "List tools",
        "description": "Definitions in any dialect, searched and paged.",
        "parameters": [
            _parameter("dialect", "Which dialect's documents to give.", {"enum": list(dialects), "default": "mcp"}),
            _parameter("query", "Words in names, descriptions, parameters and tags; the best match comes first."),
            _parameter("toolkit", "Only the tools of this toolkit."),
            _parameter("tool", "Only this tool: its published name, or its id with or without the version."),
            _parameter("tag", "Only tools with this tag."),
            _parameter("cursor", "The `nextCursor` of the page before."),
        ],
        "responses": {
            "200": _answer("One page.", _LISTED),
            "400": {"$ref": "#/components/responses/Malformed"},
            "404": {"$ref": "#/components/responses/NotFound"},
        },
    }


def _parameter(name: str, description: str, schema: Json = None) -> JsonObject:
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


def _health(name: str, description: str, schema: JsonObject) -> JsonObject:
    return {
        "operationId": f"hall.{name}",
        "tags": [TAG["name"]],
        "description": description,
        "responses": {"200": _answer("It is.", schema), "503": _answer("It is not.", schema)},
    }


def _status(*words: str) -> JsonObject:
    return {"type": "object", "properties": {"status": {"enum": list(words)}}, "required": ["status"]}


def _answer(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
