"""Checks messages against the official JSON schema of their MCP revision."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.harness.mcp_messages import MODERN

SCHEMAS = Path(__file__).parent / "schema"

# The definition that a result to each method must fit.
_RESULTS = {
    "completion/complete": "CompleteResult",
    "initialize": "InitializeResult",
    "logging/setLevel": "EmptyResult",
    "ping": "EmptyResult",
    "prompts/get": "GetPromptResult",
    "prompts/list": "ListPromptsResult",
    "resources/directory/read": "ListResourcesResult",
    "resources/list": "ListResourcesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/unsubscribe": "EmptyResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tools/call": "CallToolResult",
    "tools/list": "ListToolsResult",
}
# Tasks: a part of 2025-11-25, an extension of the newest revision with a schema of its own.
_CORE_TASKS = "2025-11-25"
_CORE_TASK_RESULTS = {
    "tasks/cancel": "CancelTaskResult",
    "tasks/get": "GetTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/result": "CallToolResult",
}
_EXTENSION = "tasks-extension"
_SKILLS = "skills-extension"
_EXTENSION_RESULTS = {
    "skills/get": (_SKILLS, "GetSkillResult"),
    "skills/list": (_SKILLS, "ListSkillsResult"),
    "tasks/cancel": (_EXTENSION, "Acknowledged"),
    "tasks/get": (_EXTENSION, "GetTaskResult"),
    "tasks/update": (_EXTENSION, "Acknowledged"),
}
_NOTIFICATIONS = {
    "notifications/cancelled": "CancelledNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/progress": "ProgressNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
}
_REQUESTS = {
    "elicitation/create": "ElicitRequest",
    "ping": "PingRequest",
    "roots/list": "ListRootsRequest",
    "sampling/createMessage": "CreateMessageRequest",
}
# Errors that have a definition of their own in the newest revision.
_ERRORS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}


class SchemaMismatch(AssertionError):
    """A message that its revision's schema forbids."""


def check(message: Any, revision: str, method: str | None = None) -> str:
    """The definition that a server message matches, or SchemaMismatch; `method` is that of the answered request."""
    if not isinstance(message, dict):
        raise SchemaMismatch(f"not a message: {message!r}")
    if "method" in message:
        return _check_call(message, revision)
    if "error" in message:
        return _check_error(message, revision)
    return _check_result(message, revision, method)


def _check_call(message: dict[str, Any], revision: str) -> str:
    if message["method"] == "notifications/tasks" and revision == MODERN:
        _fit(message, revision, "JSONRPCNotification")
        return _fit(message, _EXTENSION, "TasksNotification")
    known = _REQUESTS if "id" in message else _NOTIFICATIONS
    if message["method"] not in known:
        raise SchemaMismatch(f"the server may not send {message['method']!r}")
    if "id" in message and revision == MODERN:
        raise SchemaMismatch(f"in {MODERN} the server sends no requests, but sent {message['method']!r}")
    _fit(message, revision, "JSONRPCRequest" if "id" in message else "JSONRPCNotification")
    return _fit(message, revision, known[message["method"]])


def _check_error(message: dict[str, Any], revision: str) -> str:
    # The schema of 2025-06-18 has no form for an error to a message whose id could not be read; that of 2025-11-25 has.
    if revision == "2025-06-18" and "id" in message:
        _fit(message, revision, "JSONRPCError")
    else:
        _fit(message, max(revision, "2025-11-25"), "JSONRPCErrorResponse")
    code = message["error"]["code"]
    if revision == MODERN and code in _ERRORS:
        return _fit(message, revision, _ERRORS[code])
    return "error"


def _check_result(message: dict[str, Any], revision: str, method: str | None) -> str:
    _fit(message, revision, "JSONRPCResponse" if revision == "2025-06-18" else "JSONRPCResultResponse")
    result = message["result"]
    if revision == MODERN and method in _EXTENSION_RESULTS:
        return _fit(result, *_EXTENSION_RESULTS[method])
    if revision == MODERN and method == "tools/call" and result.get("resultType") == "task":
        return _fit(result, _EXTENSION, "CreatedTask")
    if revision == _CORE_TASKS and method in _CORE_TASK_RESULTS:
        return _fit(result, revision, _CORE_TASK_RESULTS[method])
    if revision == _CORE_TASKS and method == "tools/call" and "task" in result:
        return _fit(result, revision, "CreateTaskResult")
    if method not in _RESULTS:
        raise SchemaMismatch(f"a result came, though {method!r} has none")
    if revision == MODERN and result.get("resultType") == "input_required":
        if method not in ("tools/call", "resources/read", "prompts/get"):
            raise SchemaMismatch(f"{method} may not be answered by input_required")
        return _fit(result, revision, "InputRequiredResult")
    return _fit(result, revision, _RESULTS[method])


def _fit(value: Any, revision: str, definition: str) -> str:
    errors = list(_validator(revision, definition).iter_errors(value))
    if errors:
        found = "; ".join(f"{error.instance_path}: {error.message}" for error in errors[:3])
        raise SchemaMismatch(f"not a {definition} of {revision}: {found}"[:2000])
    return definition


@cache
def _document(revision: str) -> dict[str, Any]:
    name = revision if revision in (_EXTENSION, _SKILLS) else f"mcp-{revision}"
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return found


@cache
def _validator(revision: str, definition: str) -> jsonschema_rs.Validator:
    document = _document(revision)
    home = "definitions" if "definitions" in document else "$defs"
    return jsonschema_rs.validator_for({**document, "$ref": f"#/{home}/{definition}"})
