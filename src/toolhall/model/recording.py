"""One recorded call: what was asked and what came back, without its secrets."""

import hashlib
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.content import Audio, Content, Image, Resource, ResourceLink, Result, Text
from toolhall.model.errors import ToolFailed
from toolhall.model.json import Json, JsonObject

FILE_NAME = "recordings.jsonl"
VALUE_LIMIT = 64 * 1024  # bytes; a larger value is left out

Outcome: TypeAlias = Literal["ok", "tool_error"]


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the recordings; pointers lead from its top (`/arguments/password`, `/answer/value`)."""

    time: float
    tool: str  # its id, with the version that answered
    dialect: str
    outcome: Outcome
    arguments: Json
    answer: Json
    redacted: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()  # too large: null stands there


def outcome_of(ended: Result | ToolFailed) -> Outcome:
    """Whether the tool could do it; it may say that it could not in two ways, which callers read alike."""
    return "tool_error" if isinstance(ended, ToolFailed) or ended.is_error else "ok"


def answer_of(ended: Result | ToolFailed) -> JsonObject:
    """What callers are answered: the value if there is one, and the content as texts."""
    if isinstance(ended, ToolFailed):
        return {"content": [ended.message]}
    answer: JsonObject = {} if ended.encoded is None else {"value": msgspec.json.decode(ended.encoded)}
    if ended.content or ended.encoded is None:
        answer["content"] = [_as_text(block) for block in ended.content]
    return answer


def size_of(ended: Result | ToolFailed) -> int:
    """How many bytes the answer takes, about."""
    if isinstance(ended, ToolFailed):
        return len(ended.message.encode(errors="replace"))
    return len(ended.encoded or b"") + sum(map(_size, ended.content))


def _size(block: Content) -> int:
    match block:
        case Text(text) | Resource(content=str(text)):
            return len(text.encode(errors="replace"))
        case _:
            return 0  # bytes are recorded as a digest


def _as_text(block: Content) -> str:
    match block:
        case Text(text) | Resource(content=str(text)):
            return text
        case Image(data, mime_type) | Audio(data, mime_type):
            return _digest(mime_type, data)
        case Resource(content=bytes(data)):
            return _digest(block.mime_type or block.uri, data)
        case ResourceLink():
            return block.uri
        case _:
            raise TypeError(f"{type(block).__name__} is no content")


def _digest(what: str, data: bytes) -> str:
    return f"[{what}, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"
