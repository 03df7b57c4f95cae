"""What an MCP client gets back: ToolDefinition, ResourceDefinition, PromptDefinition, ToolResult, TaskStatus.

The definitions show what most programs want; `document` is the whole of it as the server wrote it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias, TypeVar, overload

import msgspec

from toolhall.dialects.mcp.client_results import ToolCallResult
from toolhall.model.content import Content, Text
from toolhall.model.errors import BadOutput, Malformed, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.schema.types import bytes_decoder_of

T = TypeVar("T")
TaskState: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
_STATES: Mapping[str, TaskState] = {
    "working": "working",
    "input_required": "input_required",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


class ToolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a server lists."""

    name: str
    title: str | None
    description: str | None
    input_schema: JsonObject
    output_schema: JsonObject | None
    document: JsonObject

    @property
    def reads_only(self) -> bool:
        """Whether the server says that it changes nothing; a server may lie."""
        return _object(self.document.get("annotations")).get("readOnlyHint") is True


class ResourceDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that a server lists, or a template of many: then `uri` has variables in braces."""

    uri: str
    is_template: bool
    name: str
    title: str | None
    description: str | None
    mime_type: str | None
    document: JsonObject


class PromptDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that a server lists; `arguments` are all names, `required` those that it must get."""

    name: str
    title: str | None
    description: str | None
    arguments: tuple[str, ...]
    required: tuple[str, ...]
    document: JsonObject


class ToolResult(msgspec.Struct, frozen=True):
    """The result of a tool: blocks for a model, and the value for a program, if the tool has one."""

    content: tuple[Content, ...]
    value: Json = msgspec.UNSET
    meta: JsonObject | None = None

    @property
    def has_value(self) -> bool:
        """Whether there is a value; it may be None."""
        return self.value is not msgspec.UNSET

    @property
    def text(self) -> str:
        """All text blocks, one under the other."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


class TaskStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task as the server tells it; `poll_seconds` is how long to wait before asking again."""

    id: str
    state: TaskState
    message: str | None = None
    created_at: datetime | None = None
    poll_seconds: float = 1.0

    @property
    def has_ended(self) -> bool:
        """Whether it has a result, or never will."""
        return self.state in ("completed", "failed", "cancelled")


@overload
def convert_result(result: ToolCallResult, returns: None) -> ToolResult: ...
@overload
def convert_result(result: ToolCallResult, returns: type[T]) -> T: ...
def convert_result(result: ToolCallResult, returns: type[T] | None) -> "ToolResult | T":
    """The result for a program, or its value as this type; raises ToolFailed for an error, BadOutput for another type.

    A server without structured results may answer with JSON in one text block: that is read as well.
    """
    if result.is_error:
        text = "\n".join(block.text for block in result.content if isinstance(block, Text))
        raise ToolFailed(text or None)
    if returns is None:
        value: Json = msgspec.UNSET if result.structured is None else msgspec.json.decode(result.structured)
        return ToolResult(result.content, value, result.meta)
    texts = [block.text for block in result.content if isinstance(block, Text)]
    if result.structured is None and returns is str and len(texts) == 1:
        return texts[0]  # type: ignore[return-value]  # T is str
    return _typed_value(result.structured, texts, returns)


def _typed_value(structured: msgspec.Raw | None, texts: list[str], returns: type[T]) -> T:
    candidates: list[bytes] = []
    if structured is not None:
        candidates.append(bytes(structured))
        wrapped = msgspec.json.decode(structured)
        if isinstance(wrapped, dict) and wrapped.keys() == {"result"}:  # a value that is no object is wrapped in one
            candidates.append(msgspec.json.encode(wrapped["result"]))
    elif len(texts) == 1:
        candidates.append(texts[0].encode())
    decode = bytes_decoder_of(returns)
    problem = "it has no value"
    for candidate in candidates:
        try:
            value: T = decode(candidate)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = str(error)
        else:
            return value
    raise BadOutput(f"the tool's result is no {getattr(returns, '__name__', returns)}: {problem[:300]}")


def read_tool(document: JsonObject) -> ToolDefinition | None:
    """The definition of a tool; None if it has no name or schema."""
    match document:
        case {"name": str(name), "inputSchema": dict(schema)}:
            output = document.get("outputSchema")
            return ToolDefinition(
                name=name,
                title=_text(document.get("title")) or _text(_object(document.get("annotations")).get("title")),
                description=_text(document.get("description")),
                input_schema=schema,
                output_schema=output if isinstance(output, dict) else None,
                document=document,
            )
        case _:
            return None


def read_resource_definition(document: JsonObject) -> ResourceDefinition | None:
    """The definition of a resource or a template; None if it has no URI."""
    template = document.get("uriTemplate")
    uri = document.get("uri") if template is None else template
    if not isinstance(uri, str):
        return None
    return ResourceDefinition(
        uri=uri,
        is_template=template is not None,
        name=_text(document.get("name")) or uri,
        title=_text(document.get("title")),
        description=_text(document.get("description")),
        mime_type=_text(document.get("mimeType")),
        document=document,
    )


def read_prompt_definition(document: JsonObject) -> PromptDefinition | None:
    """The definition of a prompt; None if it has no name."""
    name, listed = document.get("name"), document.get("arguments")
    if not isinstance(name, str):
        return None
    arguments = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return PromptDefinition(
        name=name,
        title=_text(document.get("title")),
        description=_text(document.get("description")),
        arguments=tuple(str(each.get("name", "")) for each in arguments),
        required=tuple(str(each.get("name", "")) for each in arguments if each.get("required") is True),
        document=document,
    )


def read_task_status(document: JsonObject) -> TaskStatus:
    """The state of a task, in the form of either revision; raises Malformed."""
    match document:
        case {"taskId": str(task_id), "status": str(state)} if state in _STATES:
            poll = document.get("pollIntervalMs", document.get("pollInterval"))
            return TaskStatus(
                id=task_id,
                state=_STATES[state],
                message=_text(document.get("statusMessage")),
                created_at=_time(document.get("createdAt")),
                poll_seconds=min(max(poll / 1000, 0.01), 60.0) if isinstance(poll, int | float) else 1.0,
            )
        case _:
            raise Malformed("the server answered with something that is no task")


def _time(value: Json) -> datetime | None:
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
