"""What a hall and a tool server say to each other about one call; each function is one side's, the other reads it."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.dialects.hub.blocks import read_answers, read_questions, write_asked
from toolhall.dialects.hub.messages import CoreRequest, RequestId
from toolhall.model.caller import Caller, Proof
from toolhall.model.errors import Malformed
from toolhall.model.exchange import LogLevel
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.question import Answered, Question
from toolhall.schema.types import to_json

CANCEL, HEALTH = "cancel", "health_check"

# --- from the hall ---------------------------------------------------------------------------------------------------


class LentToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """An account's token, for one call."""

    token: str
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None

    def __repr__(self) -> str:
        return "LentToken(...)"


class SeenCaller(msgspec.Struct, frozen=True, omit_defaults=True):
    """The caller, as far as a tool may know it."""

    id: str
    person: str | None = None
    proof: Proof = "none"
    scopes: tuple[str, ...] = ()
    acting_for: str | None = None

    @property
    def caller(self) -> Caller:
        """As the tool's context has it."""
        return Caller(
            self.id,
            proof=self.proof,
            person=self.person,
            scopes=frozenset(self.scopes),
            acting_for=self.acting_for,
        )


class CallContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call brings beside its parameters: exactly what the tool declared, for this call only."""

    call: str = ""  # the hall's id of the call, for logs
    timeout: float | None = None  # seconds; stands still while a person is asked
    caller: SeenCaller | None = None
    can: tuple[str, ...] = ()  # what the caller's program can do
    user_id: str | None = None
    secrets: dict[str, str] = {}
    accounts: dict[str, LentToken] = {}

    def __repr__(self) -> str:
        return f"CallContext(call={self.call!r})"


class _Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    version: str | None = None


class RemoteCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_request", omit_defaults=True):
    """Run a method of a tool, there."""

    id: str
    tool: str
    method: str
    params: JsonObject
    metadata: _Metadata = _Metadata()
    context: CallContext = CallContext()

    @property
    def version(self) -> str | None:
        """Which version of the tool is meant; None: any."""
        return self.metadata.version


class _Answer(msgspec.Struct, frozen=True, tag_field="type", tag="tool_answer", omit_defaults=True):
    id: str
    number: int
    answers: dict[str, Json] = {}
    error: "ErrorSaid | None" = None
    later: bool = False


class Answering(msgspec.Struct, frozen=True):
    """What came of a question: replies by key, an error, or that they come with a later call."""

    id: str
    number: int
    answers: Mapping[str, Answered] = {}
    error: "ErrorSaid | None" = None
    later: bool = False


class _Request(msgspec.Struct, frozen=True, tag_field="type", tag="request"):
    method: str
    id: RequestId = None
    params: JsonObject = {}


Order: TypeAlias = RemoteCall | Answering | CoreRequest

# --- from the tool server --------------------------------------------------------------------------------------------


class ErrorSaid(msgspec.Struct, frozen=True):
    """A tool_error, without its type."""

    code: str
    message: str = ""
    details: JsonObject | None = None


class ToldProgress(msgspec.Struct, frozen=True, tag_field="type", tag="tool_progress", omit_defaults=True):
    """How far a call has come."""

    id: str
    progress: float
    total: float | None = None
    message: str | None = None


class ToldLog(msgspec.Struct, frozen=True, tag_field="type", tag="tool_log", omit_defaults=True):
    """Something for the caller to read."""

    id: str
    level: LogLevel
    data: Json = None
    logger: str | None = None


class _Question(msgspec.Struct, frozen=True, tag_field="type", tag="tool_question", omit_defaults=True):
    id: str
    number: int
    questions: dict[str, Json] = {}
    retry_ms: int | None = None


class ToldQuestion(msgspec.Struct, frozen=True):
    """Put these to the caller; none at all: let it hang up for so long."""

    id: str
    number: int
    questions: Mapping[str, Question] = {}
    retry_ms: int | None = None


class ToolEnd(msgspec.Struct, frozen=True, tag_field="type", tag="tool_response"):
    """The one last word; `dialects/hub/endings` says what it means."""

    id: str = ""
    result: Json = None
    error: ErrorSaid | None = None
    wrapped: bool = False
    nothing: bool = False
    content: list[Json] | None = None
    meta: JsonObject | None = None
    is_error: bool = False


class _BareError(msgspec.Struct, frozen=True, tag_field="type", tag="tool_error"):
    code: str
    message: str = ""
    details: JsonObject | None = None
    id: str = ""


class Responded(msgspec.Struct, frozen=True, tag_field="type", tag="response"):
    """The reply to a request of the hall's own: how the server is, or that a call was cancelled."""

    id: RequestId = None
    result: Json = None
    error: ErrorSaid | None = None


Told: TypeAlias = ToldProgress | ToldLog | ToldQuestion
Report: TypeAlias = Told | ToolEnd | Responded

_read_report: Callable[[bytes], ToldProgress | ToldLog | _Question | ToolEnd | _BareError | Responded] = (
    msgspec.json.Decoder(ToldProgress | ToldLog | _Question | ToolEnd | _BareError | Responded).decode
)
_read_order: Callable[[bytes], RemoteCall | _Answer | _Request] = msgspec.json.Decoder(
    RemoteCall | _Answer | _Request
).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


# --- the hall's side -------------------------------------------------------------------------------------------------


def remote_call(call_id: str, names: tuple[str, str, str], params: JsonObject, context: CallContext) -> RemoteCall:
    """A call of (tool, method, version)."""
    tool, method, version = names
    return RemoteCall(call_id, tool, method, params, _Metadata(version), context)


write_call: Callable[[RemoteCall], bytes] = encode


def write_request(request_id: str, method: str, params: JsonObject) -> bytes:
    """Something that the hall wants for itself: a call to be cancelled, or to know how the server is."""
    return encode(_Request(method, request_id, params))


def write_answer(
    call_id: str,
    number: int,
    answers: Mapping[str, Answered] | None = None,
    error: ErrorSaid | None = None,
    *,
    later: bool = False,
) -> bytes:
    """What came of a question."""
    return encode(_Answer(call_id, number, write_asked(answers or {}), error, later))


def read_report(body: bytes) -> Report:
    """Whatever a tool server says; Malformed for what it must not say."""
    try:
        report = _read_report(body)
    except _UNREADABLE as error:
        raise Malformed(f"the tool server's message cannot be read: {error}") from None
    match report:
        case _Question():
            return ToldQuestion(report.id, report.number, read_questions(report.questions), report.retry_ms)
        case _BareError():
            return ToolEnd(report.id, error=ErrorSaid(report.code, report.message, report.details))
        case _:
            return report


# --- the tool server's side ------------------------------------------------------------------------------------------


def read_order(body: bytes) -> Order:
    """Whatever a hall says; Malformed says what to change."""
    try:
        order = _read_order(body)
    except _UNREADABLE as error:
        raise Malformed(f"the message cannot be read: {error}") from None
    match order:
        case RemoteCall():
            return order
        case _Answer():
            return Answering(order.id, order.number, read_answers(order.answers), order.error, order.later)
        case _Request():
            return CoreRequest(order.id, order.method, order.params)


def write_progress(call_id: str, done: float, total: float | None, message: str | None) -> bytes:
    """How far a call has come."""
    return to_json(ToldProgress(call_id, done, total, message))


def write_log(call_id: str, level: LogLevel, data: Json, logger: str | None) -> bytes:
    """Something for the caller to read."""
    return to_json(ToldLog(call_id, level, data, logger))


def write_question(call_id: str, number: int, questions: Mapping[str, Question], retry_ms: int | None = None) -> bytes:
    """Put these to the caller."""
    return encode(_Question(call_id, number, write_asked(questions), retry_ms))
