"""OpenAPI paths of the hall itself: its root, the list of its tools, and its health."""

from collections.abc import Sequence

from toolhall.dialects.openapi.builders import json_response, query_parameter
from toolhall.dialects.openapi.tasks import task_paths
from toolhall.model.json import JsonObject

HALL_TAG: JsonObject = {"name": "hall", "description": "The hall itself: its tools and its health."}
_TEXT: JsonObject = {"type": "string"}
_HEALTH_STATE: JsonObject = {"enum": ["healthy", "degraded", "unhealthy"]}
_TOOL_LISTING: JsonObject = {
    "type": "object",
    "properties": {
        "dialect": _TEXT,
        "tools": {"type": "array", "items": {"type": "object"}},
        "nextCursor": {"type": "string", "description": "Send it as `cursor` to get the next page."},
        "losses": {
            "type": "array",
            "description": "What the dialect cannot express of a tool: a JSON pointer, and the reason.",
            "items": {
                "type": "object",
                "properties": {"tool": _TEXT, "path": _TEXT, "reason": _TEXT},
                "required": ["tool", "path", "reason"],
            },
        },
        "refused": {
            "type": "array",
            "description": "Tools that this dialect cannot express without changing them, and why.",
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
        "status": _HEALTH_STATE,
        "components": {
            "type": "object",
            "properties": {
                "core": _HEALTH_STATE,
                "tools": {"type": "object", "additionalProperties": _HEALTH_STATE},
                "upstreams": {
                    "type": "object",
                    "description": "Servers of somebody else whose tools are offered, if there are any.",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {
                            "state": _TEXT,
                            "reason": {"type": "string", "description": "For administrators."},
                        },
                        "required": ["state"],
                    },
                },
                "tasks": {
                    "type": "object",
                    "description": "The long calls that are open, if there are any.",
                    "properties": {
                        "state": _HEALTH_STATE,
                        "working": {"type": "integer"},
                        "inputRequired": {"type": "integer"},
                        "oldestSeconds": {"type": ["number", "null"]},
                    },
                },
            },
            "required": ["core", "tools"],
        },
        "uptime": {"type": "number", "description": "Seconds."},
        "tools": {"type": "integer", "description": "The number of tools."},
    },
    "required": ["status", "uptime"],  # the others are returned only to callers with management rights
}


_ROOT_EXAMPLE: JsonObject = {
    "name": "harbour",
    "version": "0.1.0",
    "endpoints": {"mcp": "https://hall.example/mcp", "rest": "https://hall.example/tools"},
    "docs": "https://hall.example/openapi.json",
}
_ROOT: JsonObject = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "version": _TEXT,
        "endpoints": {"type": "object", "additionalProperties": {"type": "string", "format": "uri"}},
        "docs": {"type": "string", "format": "uri"},
    },
    "required": ["name", "version", "endpoints", "docs"],
}
_ROOT_OPERATION: JsonObject = {
    "operationId": "hall.describe",
    "summary": "The hall's name and version, and where clients connect",
    "description": "Whoever prefers `text/html` is sent to the console instead.",
    "tags": ["hall"],
    "security": [],
    "responses": {
        "200": {
            "description": "For programs.",
            "content": {"application/json": {"schema": _ROOT, "example": _ROOT_EXAMPLE}},
        },
        "303": {"description": "For people: the console."},
    },
}


def hall_paths(dialects: Sequence[str]) -> JsonObject:
    """Operations that need no management rights: the first page, the tools in any of these dialects, and health."""
    return {
        "/": {"get": _ROOT_OPERATION},
        "/tools": {"get": _tools_operation(dialects)},
        **task_paths(),
        "/health": {
            "get": _health_operation(
                "health",
                "The health of the hall and its components.",
                json_response("Healthy or degraded.", _HEALTH),
                json_response("A component is unhealthy.", _HEALTH),
            )
        },
        "/health/live": {
            "get": _health_operation(
                "live",
                "Whether the process responds.",
                json_response("The process responds.", _status_schema("alive")),
                json_response("The process does not respond.", _status_schema("alive")),
            )
        },
        "/health/ready": {
            "get": _health_operation(
                "ready",
                "Whether the hall accepts calls.",
                json_response("The hall accepts calls.", _status_schema("ready", "stopping")),
                json_response("The hall is stopping.", _status_schema("ready", "stopping")),
            )
        },
    }


def _tools_operation(dialects: Sequence[str]) -> JsonObject:
    text: JsonObject = {"type": "string"}
    return {
        "operationId": "hall.tools",
        "tags": [HALL_TAG["name"]],
        "summary": "List tools",
        "description": "List or search tool definitions in any dialect, in pages.",
        "parameters": [
            query_parameter(
                "dialect", {"enum": list(dialects), "default": "mcp"}, "The dialect of the returned definitions."
            ),
            query_parameter(
                "query", text, "Words in names, descriptions, parameters and tags; the best match comes first."
            ),
            query_parameter("toolkit", text, "Only tools of this toolkit."),
            query_parameter("tool", text, "Only this tool: its published name, or its id with or without the version."),
            query_parameter("tag", text, "Only tools with this tag."),
            query_parameter("cursor", text, "The `nextCursor` of the previous page."),
        ],
        "responses": {
            "200": json_response("One page of tools.", _TOOL_LISTING),
            "400": {"$ref": "#/components/responses/Malformed"},
            "404": {"$ref": "#/components/responses/NotFound"},
        },
    }


def _health_operation(name: str, description: str, healthy: JsonObject, unhealthy: JsonObject) -> JsonObject:
    return {
        "operationId": f"hall.{name}",
        "tags": [HALL_TAG["name"]],
        "description": description,
        "responses": {"200": healthy, "503": unhealthy},
    }


def _status_schema(*states: str) -> JsonObject:
    return {"type": "object", "properties": {"status": {"enum": list(states)}}, "required": ["status"]}
