"""Records of a call: the AuditRecord of every call, and the Recording of a call for replay, without secrets."""

import hashlib
from typing import Literal, Protocol, TypeAlias, get_args

import msgspec

from toolhall.model import errors
from toolhall.model.content import Audio, Content, Image, Resource, ResourceLink, Result, Text
from toolhall.model.errors import Failed, ToolFailed
from toolhall.model.json import Json, JsonObject

RECORDINGS_FILE = "recordings.jsonl"
MAX_VALUE_BYTES = 64 * 1024  # larger values are left out
RecordedOutcome: TypeAlias = Literal["ok", "tool_error"]
CallStage: TypeAlias = Literal[
    "find", "authorize", "limit", "validate", "verify", "equip", "run", "check", "sanitize", "audit"
]
CallVerdict: TypeAlias = Literal["allow", "deny", "verify"]
CALL_VERDICTS: tuple[CallVerdict, ...] = get_args(CallVerdict)
OutcomeKind: TypeAlias = Literal["ok", "tool_error", "asked", "refused", "failed", "running"]
OUTCOME_GROUPS: frozenset[OutcomeKind] = frozenset({"asked", "refused", "failed"})  # those with several outcomes
CALL_STAGES: tuple[CallStage, ...] = get_args(CallStage)  # in order
CONSOLE_SUFFIX = "/console"  # of the dialect of a call that a person made in the console
MANAGEMENT_SUFFIX = "/management"  # of the dialect in records of changes and other management


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One line of the audit log, written for every call, also for a refused one; no arguments and no results.

    The fields are the stored format: they must not be renamed.
    """

    time: float
    call: str
    caller: str
    dialect: str
    tool: str  # the id with its version; for an unknown tool, the name that the caller sent
    outcome: str  # "ok", "tool_error", "asked", "repeated", or the error's name; "intent" before a side effect
    grant: str | None = None  # the grant or rule that decided
    arguments_sha256: str | None = None
    duration_us: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    definition_sha256: str | None = None
    level: int | None = None
    verdict: CallVerdict | None = None
    reason: str | None = None  # for a denial
    approval: str | None = None  # the id of the approval, given or requested
    person: str | None = None  # who is responsible for the caller, if that is another name
    acting_for: str | None = None
    redactions: int = 0
    phase: Literal["intent"] | None = None  # None for a call that has ended
    stage: CallStage | None = None  # where the call ended: "audit" if it passed all; None for intents and changes
    stages_us: tuple[int, ...] | None = None  # microseconds per stage, which add up to the duration; often not taken
    server: str | None = None  # the tool server that ran it; of several, the last one that got it
    kind: Literal["resource", "prompt"] | None = None  # None for a call of a tool, and for management
    uri: str | None = None  # of a read, cut and without secrets
    argument_names: tuple[str, ...] | None = None  # of a prompt that has arguments

    @property
    def is_management(self) -> bool:
        """Whether it is about managing the hall, and not about a call of a tool."""
        return self.dialect.endswith(MANAGEMENT_SUFFIX)

    @property
    def is_ended_call(self) -> bool:
        """Whether it is the record of a call that has ended; of others, there is an intent before."""
        return self.phase is None and not self.is_management


class RecordSource(Protocol):
    """Builds an AuditRecord when the log writes it, so that the call does not wait for it."""

    def record(self) -> AuditRecord:
        """Build the record."""
        ...


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the recordings file; its pointers start at the recording (`/arguments/password`, `/answer/value`)."""

    time: float
    tool: str  # the id with its version
    dialect: str
    outcome: RecordedOutcome
    arguments: Json
    answer: Json
    redacted: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()  # values that are too large, and null here


_KINDS: dict[str, OutcomeKind] = {
    "ok": "ok",
    "repeated": "ok",
    "tool_error": "tool_error",
    "asked": "asked",
    "NeedsVerification": "asked",  # the caller may try again once a person has agreed
    "intent": "running",
}


def outcome_kind(outcome: str) -> OutcomeKind:
    """Return what kind of ending an outcome is; errors are refusals or failures, as in the error tree."""
    known = _KINDS.get(outcome)
    if known is None:
        error = getattr(errors, outcome, None)
        return "failed" if isinstance(error, type) and issubclass(error, Failed) else "refused"
    return known


def recorded_outcome(result: Result | ToolFailed) -> RecordedOutcome:
    """The outcome of a call: a raised ToolFailed and a result with `is_error` count alike."""
    return "tool_error" if isinstance(result, ToolFailed) or result.is_error else "ok"


def recorded_answer(result: Result | ToolFailed) -> JsonObject:
    """The answer as JSON: the value, if there is one, and the content blocks as texts."""
    if isinstance(result, ToolFailed):
        return {"content": [result.message]}
    answer: JsonObject = {} if result.encoded is None else {"value": msgspec.json.decode(result.encoded)}
    if result.content or result.encoded is None:
        answer["content"] = [_block_as_text(block) for block in result.content]
    return answer


def recorded_size(result: Result | ToolFailed) -> int:
    """The approximate size of the recorded answer in bytes."""
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
            raise TypeError(f"{type(block).__name__} is not a content block")


def _describe_bytes(kind: str, data: bytes) -> str:
    return f"[{kind}, {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"
