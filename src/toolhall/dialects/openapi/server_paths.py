"""OpenAPI paths of tool servers, and of the settings of the hall."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    REMOVED,
    TEXT,
    TIMESTAMP,
    array_schema,
    management_operation,
    nullable,
    object_schema,
    ok,
    path_parameter,
    reference,
    request_body,
)
from toolhall.model.json import JsonObject

_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_FLAG: JsonObject = {"type": "boolean"}
_REPLICA = object_schema(
    id=TEXT,
    state={"enum": ["healthy", "degraded", "unhealthy", "draining"]},
    since={**TIMESTAMP, "description": "When it joined."},
    leaseEndsAt={**nullable(TIMESTAMP), "description": "When it is removed if nothing is heard of it."},
    callsInFlight=_COUNT,
    lastProbeAt=nullable(TIMESTAMP),
    lastProbeOk=nullable(_FLAG),
    breaker={"enum": ["closed", "open", "half_open"], "description": "`open`: it failed again and again."},
    version={**nullable(TEXT), "description": "Of its toolkits, if they have the same."},
    transport={"enum": ["http", "websocket"]},
    address={**nullable(TEXT), "description": "Where it listens; null for one that opened a WebSocket."},
    draining={**_FLAG, "description": "It gets no new calls."},
)
SERVER_SCHEMAS: JsonObject = {
    "ToolServer": object_schema(
        name=TEXT,
        state={
            "enum": ["healthy", "degraded", "unhealthy", "gone"],
            "description": "`gone`: none of its replicas is joined.",
        },
        toolkits=array_schema(TEXT),
        caller={**TEXT, "description": "The caller that joined it."},
        replicas=array_schema(_REPLICA),
    ),
}


_SETTING = object_schema(
    name=TEXT,
    value={"description": "The value; null for a secret, and without what looks like one."},
    default={},
    source={"enum": ["default", "file", "environment", "option", "code"]},
    where={**nullable(TEXT), "description": "The file, the variable or the option that states it."},
    secret=_FLAG,
    description=TEXT,
)
_SETTINGS = object_schema(
    settings=array_schema(_SETTING),
    versions={"type": "object", "additionalProperties": TEXT},
    data={**nullable(TEXT), "description": "The data folder."},
    startedAt=TIMESTAMP,
    process={**_COUNT, "description": "The id of the process that answers."},
    workers={**_COUNT, "description": "The number of processes that serve the hall."},
    disk={**nullable(object_schema(freeBytes=_COUNT, totalBytes=_COUNT)), "description": "That of the data folder."},
)


def server_paths() -> JsonObject:
    """Operations on tool servers, and the settings of the hall."""
    server = reference("ToolServer")
    name = path_parameter("name", {**TEXT, "minLength": 1})
    return {
        "/api/servers": {
            "get": management_operation(
                "servers",
                "List all tool servers with their replicas; also those that are gone.",
                ok("The list of tool servers.", object_schema(servers=array_schema(server))),
            )
        },
        "/api/servers/{name}/drain": {
            "post": management_operation(
                "drainServer",
                "Give a tool server no new calls; its replicas take calls again once they join again.",
                ok("The tool server.", server),
                name,
                body=request_body(EMPTY_BODY, required=False),
            )
        },
        "/api/servers/{name}": {
            "delete": management_operation(
                "removeServer",
                "Forget a tool server that is gone, and remove the tools that only it declared.",
                ok("The name of the tool server.", REMOVED),
                name,
            )
        },
        "/api/settings": {
            "get": management_operation(
                "settings",
                "List every setting with its value and origin; secrets are left out.",
                ok("All settings, and facts about the process that answers.", _SETTINGS),
            )
        },
    }
