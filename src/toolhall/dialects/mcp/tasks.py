"""MCP tasks on the wire: the core feature of 2025-11-25, and the extension of 2026-07-28.

They differ in who decides that a call is a task (the client; the server), in the shape of a task (nested, `ttl`; flat,
`ttlMs`), in how its end is told (`tasks/result`; inlined into `tasks/get`), and in what a tool's own error is
(`failed`; `completed`). Both are views of the same TaskView.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec

from toolhall.dialects.mcp.input_requests import read_input_response, write_input_request
from toolhall.dialects.mcp.protocol import (
    TASKS_EXTENSION,
    JsonRpcRequest,
    McpRefusal,
    RequestId,
    invalid_params,
    missing_capability,
)
from toolhall.dialects.mcp.requests import RequestMeta
from toolhall.dialects.mcp.responses import McpEncoder
from toolhall.model.errors import Cancelled
from toolhall.model.json import JsonObject
from toolhall.model.messages import Answered, CompletedCall, Question, TaskView, WireResponse

EXTENSION_METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
CORE_METHODS = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
RELATED_TASK_KEY = "io.modelcontextprotocol/related-task"
MAX_WATCHED = 1_000  # tasks of one listen stream
_decode: Callable[[bytes], JsonObject] = msgspec.json.Decoder(dict).decode


def check_extension(meta: RequestMeta) -> None:
    """Raise McpRefusal (-32021) for a request that does not declare the extension: nothing else counts."""
    if not meta.takes_tasks:
        raise missing_capability({"extensions": {TASKS_EXTENSION: {}}})


def read_task_id(request: JsonRpcRequest) -> str:
    """The id in the params of every method of tasks."""
    task_id = request.params.get("taskId")
    if type(task_id) is not str:
        raise invalid_params("params.taskId must be the id of a task")
    return task_id


def read_task_ids(requested: JsonObject) -> list[str]:
    """The tasks that a listen stream wants to hear of."""
    ids = requested.get("taskIds", [])
    if not isinstance(ids, list) or not all(type(each) is str for each in ids):
        raise invalid_params("params.notifications.taskIds must be a list of ids of tasks")
    if len(ids) > MAX_WATCHED:
        raise invalid_params(f"params.notifications.taskIds may have {MAX_WATCHED} ids at most")
    return list(dict.fromkeys(ids))


def read_answers(request: JsonRpcRequest, questions: Mapping[str, Question]) -> dict[str, Answered]:
    """The answers of `tasks/update` to these questions; keys of others are left out. Raises McpRefusal."""
    responses = request.params.get("inputResponses")
    if not isinstance(responses, dict):
        raise invalid_params("params.inputResponses must be an object")
    return {
        key: read_input_response(question, responses[key], key)
        for key, question in questions.items()
        if key in responses
    }


def read_task_metadata(request: JsonRpcRequest) -> float | None:
    """The seconds for which a client of 2025-11-25 wants its task to be kept; None if it does not say."""
    match request.params.get("task"):
        case {"ttl": int(ttl)} if type(ttl) is int and ttl > 0:
            return ttl / 1000
        case dict(metadata) if metadata.get("ttl") is None:
            return None
        case _:
            raise invalid_params("params.task must be an object, and its ttl a whole number of milliseconds")


# --- 2026-07-28 -------------------------------------------------------------------------------------------------------


def write_created(view: TaskView) -> JsonObject:
    """The result of a call that became a task."""
    return {"resultType": "task", **_extension_members(view, view.state)}


def write_task(view: TaskView, encoder: McpEncoder) -> JsonObject:
    """The whole state of a task, as `tasks/get` and `notifications/tasks` have it."""
    if not view.has_ended:
        members = _extension_members(view, view.state)
        if view.questions:
            members["inputRequests"] = {
                key: write_input_request(question, encoder.revision) for key, question in view.questions.items()
            }
        return members
    if view.state == "cancelled":
        return _extension_members(view, view.state)
    outcome = _decode(write_outcome(0, view, encoder).body)
    if "error" in outcome:
        return {**_extension_members(view, "failed"), "error": outcome["error"]}
    return {**_extension_members(view, "completed"), "result": outcome["result"]}


def _extension_members(view: TaskView, status: str) -> JsonObject:
    members: JsonObject = {
        "taskId": view.id,
        "status": status,
        "createdAt": _timestamp(view.created_at),
        "lastUpdatedAt": _timestamp(view.updated_at),
        "ttlMs": _ttl_ms(view),
        "pollIntervalMs": _poll_ms(view),
    }
    return members if view.status is None else {**members, "statusMessage": view.status}


# --- 2025-11-25 -------------------------------------------------------------------------------------------------------


def write_core_task(view: TaskView) -> JsonObject:
    """A task as 2025-11-25 has it."""
    members: JsonObject = {
        "taskId": view.id,
        "status": view.state,
        "createdAt": _timestamp(view.created_at),
        "lastUpdatedAt": _timestamp(view.updated_at),
        "ttl": _ttl_ms(view),
        "pollInterval": _poll_ms(view),
    }
    return members if view.status is None else {**members, "statusMessage": view.status}


def write_task_payload(request_id: RequestId, view: TaskView, encoder: McpEncoder) -> WireResponse:
    """The response to `tasks/result`: what the call would have given, marked as the task's."""
    response = write_outcome(request_id, view, encoder)
    message = _decode(response.body)
    if "result" not in message:
        return WireResponse(response.body)
    result = message["result"]
    return encoder.response(request_id, {**result, "_meta": {**result.get("_meta", {}), **related_task(view.id)}})


def write_outcome(request_id: RequestId, view: TaskView, encoder: McpEncoder) -> WireResponse:
    """The response that the call would have had; an error for a task that was cancelled."""
    outcome = view.outcome or Cancelled("the task was cancelled")
    if isinstance(outcome, CompletedCall):
        return encoder.call_result(request_id, outcome)
    return encoder.error(request_id, outcome)


def related_task(task_id: str) -> JsonObject:
    """The member of `_meta` that ties a message to a task."""
    return {RELATED_TASK_KEY: {"taskId": task_id}}


def cannot_cancel(view: TaskView) -> McpRefusal:
    """2025-11-25: a task that has ended cannot be cancelled."""
    return invalid_params(f"the task has ended already: it is {view.state}")


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ttl_ms(view: TaskView) -> int:
    return max(1, round((view.expires_at - view.created_at) * 1000))


def _poll_ms(view: TaskView) -> int:
    return max(1, round(view.poll * 1000))
