"""OpenAPI paths of everybody's long calls, as whoever runs the hall sees them."""

from toolhall.dialects.openapi.builders import (
    EMPTY_BODY,
    ID_SCHEMA,
    TEXT,
    TIMESTAMP,
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
from toolhall.model.json import JsonObject
from toolhall.model.messages import TASK_STATES

OPEN = "open"  # those that have not ended
STATE_FILTERS = (OPEN, *TASK_STATES)
_LIMIT: JsonObject = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
_TASK = {
    "id": TEXT,
    "tool": {**TEXT, "description": "With its version."},
    "caller": {**TEXT, "description": "With the address of one who is not authenticated."},
    "actingFor": {**nullable(TEXT), "description": "The user for whom the caller acts."},
    "dialect": TEXT,
    "state": {"enum": list(TASK_STATES)},
    "questions": {
        **nullable(array_schema(TEXT)),
        "description": "What a person is asked; null if it cannot be decrypted.",
    },
    "attempts": {"type": "integer", "minimum": 0, "description": "How often a process began to run it."},
    "createdAt": TIMESTAMP,
    "updatedAt": TIMESTAMP,
    "expiresAt": {**TIMESTAMP, "description": "When it is deleted, whether it has ended or not."},
}
MANAGED_TASK_SCHEMAS: JsonObject = {
    "ManagedTask": object_schema(**_TASK),
    "ManagedTaskDetails": object_schema(
        **_TASK, error={**nullable(TEXT), "description": "The code of the error, if it has failed."}
    ),
}
_PAGE: JsonObject = {
    "type": "object",
    "properties": {
        "tasks": array_schema(reference("ManagedTask")),
        "nextCursor": {**TEXT, "description": "Send it as `cursor` to get the next page."},
    },
    "required": ["tasks"],
}


def managed_task_paths() -> JsonObject:
    """Operations on everybody's long calls."""
    task, task_id = reference("ManagedTaskDetails"), path_parameter("id", ID_SCHEMA, "The id of a task.")
    return {
        "/api/tasks": {
            "get": management_operation(
                "tasks",
                "List everybody's long calls, the newest first; without their arguments and results.",
                ok("One page of tasks.", _PAGE),
                query_parameter("state", {"enum": list(STATE_FILTERS)}, "`open`: those that have not ended."),
                query_parameter("tool", {"type": "string"}, "An id, or `Toolkit.tool` for all its versions."),
                query_parameter("caller", {"type": "string"}, "Whoever it acts for."),
                query_parameter("limit", _LIMIT),
                query_parameter("cursor", {"type": "string"}, "The `nextCursor` of the previous page."),
            )
        },
        "/api/tasks/{id}": {"get": management_operation("task", "Show a long call.", ok("The task.", task), task_id)},
        "/api/tasks/{id}/cancel": {
            "post": management_operation(
                "cancelTask",
                "Cancel a long call; one that has ended stays as it is.",
                ok("The task.", task),
                task_id,
                body=request_body(EMPTY_BODY, required=False),
            )
        },
    }
