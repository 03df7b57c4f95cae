"""Long calls in REST: the state of a task as JSON, the answers to its questions, and their OpenAPI paths."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from toolhall.dialects.error_details import error_text, result_json
from toolhall.dialects.mcp.input_requests import read_input_response, write_input_request
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28
from toolhall.dialects.openapi.builders import (
    TEXT,
    TIMESTAMP,
    array_schema,
    json_response,
    nullable,
    object_schema,
    path_parameter,
    query_parameter,
    request_body,
)
from toolhall.dialects.openapi.errors import write_error
from toolhall.model.errors import Malformed, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import TASK_STATES, Answered, CompletedCall, Question, TaskView


def write_task(view: TaskView) -> JsonObject:
    """The whole state of a task; its `result` is what the call would have returned, its `error` likewise."""
    state: JsonObject = {
        "id": view.id,
        "tool": view.tool,
        "state": view.state,
        "createdAt": _timestamp(view.created_at),
        "updatedAt": _timestamp(view.updated_at),
        "expiresAt": _timestamp(view.expires_at),
        "pollSeconds": view.poll,
        "status": view.status,
    }
    if view.questions:
        state["questions"] = {
            key: write_input_request(question, REVISION_2026_07_28) for key, question in view.questions.items()
        }
    outcome = view.outcome
    if isinstance(outcome, CompletedCall) and outcome.result.is_error:
        outcome = ToolFailed(error_text(outcome))
    if isinstance(outcome, CompletedCall):
        value = outcome.result.encoded
        state["result"] = msgspec.Raw(result_json(outcome) if value is None else value)
    elif outcome is not None:
        state["error"] = msgspec.json.decode(write_error(outcome).body)["error"]
    return state


def read_answers(body: Json, questions: Mapping[str, Question]) -> dict[str, Answered]:
    """The answers in a body to these questions; keys of others are left out."""
    if not isinstance(body, dict):
        raise Malformed("the body must be an object with an answer for each key of the questions")
    return {key: read_input_response(each, body[key], key) for key, each in questions.items() if key in body}


def task_paths() -> JsonObject:
    """The operations on the caller's own long calls."""
    identified = path_parameter("id", TEXT, "The id of a task.")
    state = json_response("The state of the task.", _TASK)
    listed = json_response("A page.", object_schema(tasks=array_schema(_TASK), nextCursor=nullable(TEXT)))
    cursor = query_parameter("cursor", TEXT, "The `nextCursor` of the previous page.")
    answers: JsonObject = {
        "type": "object",
        "propertyNames": {"pattern": r"^[^\u0000]*$", "maxLength": 256},
        "description": "By key of a question: `action` (accept, decline or cancel), and the `content` of a form.",
        "additionalProperties": {"type": "object"},
    }
    seen, cancelled = "Look at a long call.", "Cancel a long call, unless it has ended."
    answered = _operation("answerTask", "Answer questions of a long call.", {"200": state}, [identified])
    answered["responses"] |= {
        code: {"$ref": f"#/components/responses/{name}"}
        for code, name in {"413": "TooLarge", "415": "WrongType"}.items()
    }
    return {
        "/tasks": {"get": _operation("tasks", "List the caller's own long calls.", {"200": listed}, [cursor])},
        "/tasks/{id}": {
            "get": _operation("task", seen, {"200": state}, [identified]),
            "delete": _operation("cancelTask", cancelled, {"200": state}, [identified]),
        },
        "/tasks/{id}/input": {"post": {**answered, "requestBody": request_body(answers)}},
    }


_TASK: JsonObject = {
    "type": "object",
    "properties": {
        "id": TEXT,
        "tool": {**TEXT, "description": "With its version."},
        "state": {"enum": list(TASK_STATES)},
        "createdAt": TIMESTAMP,
        "updatedAt": TIMESTAMP,
        "expiresAt": TIMESTAMP,
        "pollSeconds": {"type": "number", "description": "How long to wait before the next look."},
        "status": {**nullable(TEXT), "description": "What the tool said last about its progress."},
        "questions": {"type": "object", "description": "By key; answer them at /tasks/{id}/input."},
        "result": {"description": "What the call returned, once it is completed."},
        "error": {"type": "object", "description": "Why the call failed, as the call would have said it."},
    },
    "required": ["id", "tool", "state", "createdAt", "updatedAt", "expiresAt", "pollSeconds", "status"],
}


_ERRORS = {"400": "Malformed", "401": "Unauthenticated", "404": "NotFound", "429": "Limited", "503": "Unavailable"}


def _operation(name: str, description: str, responses: JsonObject, parameters: list[JsonObject]) -> JsonObject:
    return {
        "operationId": f"hall.{name}",
        "tags": ["hall"],
        "summary": description.partition(",")[0].rstrip("."),
        "description": description,
        "parameters": parameters,
        "responses": responses | {code: {"$ref": f"#/components/responses/{name}"} for code, name in _ERRORS.items()},
    }


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
