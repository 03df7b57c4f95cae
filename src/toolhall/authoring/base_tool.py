"""`BaseTool`: a tool with methods, as the hub's own specification writes it; what a tool server is made of."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from toolhall.authoring.context import Context
from toolhall.model.content import CONTENT_TYPES, Reply
from toolhall.model.errors import ToolError, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.schema.types import to_json

_RESPONSE = {"type", "id", "result", "error"}


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a tool: the method that is called, and its parameters."""

    method: str
    params: JsonObject = {}
    tool: str = ""
    id: str | int | None = None
    type: Literal["tool_request"] = "tool_request"
    context: Context = msgspec.field(default_factory=Context)  # progress, questions, secrets: the way to the caller


class ToolResponse(msgspec.Struct, frozen=True):
    """What a tool answers: a result, or an error; its type and id are filled in by whoever sends it."""

    result: Json = None
    error: JsonObject | str | ToolFailed | None = None
    id: str | int | None = None
    type: Literal["tool_response"] = "tool_response"


class BaseTool:
    """A tool with methods: write `handle_request`; `capabilities` or coroutines `_handle_NAME` say which there are."""

    capabilities: ClassVar[Mapping[str, Any] | None] = None  # {"methods": [...], "resources": [...]}: names, or objects

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        """Answer one request; only methods that the tool has come here."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_request")

    async def health_check(self) -> dict[str, Any]:
        """How the tool is: `status` is healthy, degraded or unhealthy."""
        return {"status": "healthy"}


def result_of(answered: object) -> object:
    """The value of a response, whether the tool made a ToolResponse, a dict that is one, or only the value itself.

    Raises the ToolError that the response holds.
    """
    match answered:
        case ToolResponse(result, None):
            return result
        case ToolResponse(_, error):
            raise _raised(error)
        case {"type": "tool_error"}:
            raise _raised(answered)
        case dict() if _RESPONSE.issuperset(answered) and not {"result", "error"}.isdisjoint(answered):
            return result_of(ToolResponse(answered.get("result"), answered.get("error")))
        case _:
            return answered


def object_from(value: object) -> object:
    """The result of a hub tool is an object: nothing is an empty one, and what else is none is wrapped."""
    if isinstance(value, Reply):
        return msgspec.structs.replace(value, value=object_from(None if value.value is msgspec.UNSET else value.value))
    listed = value if isinstance(value, list | tuple) else (value,)
    blocks = tuple(each for each in listed if isinstance(each, CONTENT_TYPES))
    if blocks and len(blocks) == len(listed):
        return Reply(blocks, {})
    if value is None:
        return {}
    return value if isinstance(value, dict) or to_json(value).startswith(b"{") else {"result": value}


def _raised(error: object) -> ToolFailed:
    """Whatever an author puts where an error belongs."""
    match error:
        case ToolFailed():
            return error
        case dict():
            message, code, details = (error.get(name) for name in ("message", "code", "details"))
            told = ToolError(message if isinstance(message, str) else None)
            told.code = code if isinstance(code, str) else told.code
            told.details = details if isinstance(details, dict) else {}
            return told
        case _:
            return ToolError(str(error))
