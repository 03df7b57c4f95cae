"""What a call leaves behind: its AuditRecord, and its Recording without secrets for replay."""

import hashlib
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.content import Audio, Content, Image, Resource, ResourceLink, Result, Text
from toolhall.model.errors import ToolFailed
from toolhall.model.json import Json, JsonObject


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Written once for every call, also for a refused one; never holds an argument or a result."""

    time: float
    call: str
    caller: str
    dialect: str
    tool: str  # its id with its version; of a tool that was not found, what it was called
    outcome: str  # "ok", "tool_error", "asked", "repeated", or the error's name; "intent" before a side effect
    grant: str | None = None  # what the verdict rests on
    arguments_sha256: str | None = None
    duration_us: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    definition_sha256: str | None = None
    level: int | None = None
    verdict: Literal["allow", "deny", "verify"] | None = None
    reason: str | None = None  # of a no
    approval: str | None = None  # a person's yes to this call, or the question that it asked
    person: str | None = None  # who answers for the caller, where that is another name
    acting_for: str | None = None
    redactions: int = 0
    phase: Literal["intent"] | None = None  # left out once the call has ended


class RecordSource(Protocol):
    """What a record can be made of later, by whoever writes it."""

    def record(self) -> AuditRecord:
        """The record."""
        ...


RECORDINGS_FILE = "recordings.jsonl"
MAX_VALUE_BYTES = 64 * 1024  # bytes; a larger value is left out
RecordedOutcome: TypeAlias = Literal["ok", "tool_error"]


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the recordings; pointers lead from its top (`/arguments/password`, `/answer/value`)."""

    time: float
    tool: str  # its id, with the version that answered
    dialect: str
    outcome: RecordedOutcome
    arguments: Json
    answer: Json
    redacted: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()  # too large: null stands there


def recorded_outcome(result: Result | ToolFailed) -> RecordedOutcome:
    """Whether the tool could do it; it may say that it could not in two ways, which callers read alike."""
    return "tool_error" if isinstance(result, ToolFailed) or result.is_error else "ok"


def recorded_answer(result: Result | ToolFailed) -> JsonObject:
    """What callers are answered: the value if there is one, and the content as texts."""
    if isinstance(result, ToolFailed):
        return {"content": [result.message]}
    answer: JsonObject = {} if result.encoded is None else {"value": msgspec.json.decode(result.encoded)}
    if result.content or result.encoded is None:
        answer["content"] = [_block_as_text(block) for block in result.content]
    return answer


def recorded_size(result: Result | ToolFailed) -> int:
    """How many bytes the answer takes, about."""
    if isinstance(result, ToolFailed):
        return len(result.message.encode(errors="replace"))
    return len(result.encoded or b"") + sum(map(_block_size, result.content))


def _block_size(block: Content) -> int:
    match block:
        case Text(text) | Resource(content=str(text)):
            return len(text.encode(errors="replace"))
        case _:
            return 0  # bytes are recorded as a digest


def _block_as_text(block: Content) -> str:
    match block:
        case Text(text) | Resource(content=str(text)):
            return text
        case Image(data, mime_type) | Audio(data, mime_type):
            return _describe_bytes(mime_type, data)
        case Resource(content=bytes(data)):
            return _describe_bytes(block.mime_type or block.uri, data)
        case ResourceLink():
            return block.uri
        case _:
            raise TypeError(f"{type(block).__name__} is no content")


def _describe_bytes(what: str, data: bytes) -> str:
    return f"[{what}, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"
