"""Messages between a hall and a tool server about one call: RemoteCall, progress, logs, questions and the result.

Each function belongs to one side, and the other side has the function that reads what it wrote. HubMessage is
everything that a hall sends, ToolServerMessage everything that a tool server sends.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.dialects.hub.content import read_answers, read_questions, write_questions_or_answers
from toolhall.dialects.hub.messages import HubRequest, RequestId
from toolhall.model.caller import Caller, ProofKind
from toolhall.model.content import Role
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Answered, LogLevel, Question
from toolhall.model.tool import Kind
from toolhall.schema.types import to_json

CANCEL, HEALTH = "cancel", "health_check"
CHANGED = "tool_changed"
MAX_CHANGES = 1_000  # that one call may tell of
REPORTS = (CHANGED,)  # what this hall reads besides progress, logs and questions; a tool server sends nothing else


# --- from the hall ---------------------------------------------------------------------------------------------------
class TokenPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """An account's access token, valid for one call."""

    token: str
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None

    def __repr__(self) -> str:
        return "TokenPayload(...)"


class CallerPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The caller, as far as a tool may know it."""

    id: str
    person: str | None = None
    proof: ProofKind = "none"
    scopes: tuple[str, ...] = ()
    acting_for: str | None = None

    @property
    def caller(self) -> Caller:
        """The caller for the tool's context."""
        return Caller(
            self.id,
            proof=self.proof,
            person=self.person,
            scopes=frozenset(self.scopes),
            acting_for=self.acting_for,
        )


class CallContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call carries besides its params: exactly what the tool declared as required, for this call only."""

    call: str = ""  # the hall's id of the call, for logs
    timeout: float | None = None  # seconds; paused while a person is asked
    caller: CallerPayload | None = None
    can: tuple[str, ...] = ()  # capabilities of the caller's client
    user_id: str | None = None
    secrets: dict[str, str] = {}
    accounts: dict[str, TokenPayload] = {}
    reports: tuple[str, ...] = ()  # types of further messages that the hall reads

    def __repr__(self) -> str:
        return f"CallContext(call={self.call!r})"


class _Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    version: str | None = None


class RemoteCall(msgspec.Struct, frozen=True, tag_field="type", tag="tool_request", omit_defaults=True):
    """A `tool_request` of a hall to a tool server: to run a tool, to read a resource, or to get a prompt.

    With `complete`, it asks for completions of that argument, and `params` are `typed` and `given`.
    """

    id: str
    tool: str
    method: str
    params: JsonObject
    metadata: _Metadata = _Metadata()
    context: CallContext = CallContext()
    kind: Kind = "tool"
    uri: str | None = None  # that is read; `params` are the values of its variables
    complete: str | None = None

    @property
    def version(self) -> str | None:
        """The requested version of the tool; None: any."""
        return self.metadata.version


class _AnswerWire(msgspec.Struct, frozen=True, tag_field="type", tag="tool_answer", omit_defaults=True):
    id: str
    number: int
    answers: dict[str, Json] = {}
    error: "ErrorPayload | None" = None
    later: bool = False


class AnswerMessage(msgspec.Struct, frozen=True):
    """The outcome of a question: answers by key, an error, or `later`, if they come with a later call."""

    id: str
    number: int
    answers: Mapping[str, Answered] = {}
    error: "ErrorPayload | None" = None
    later: bool = False


class _RequestMessage(msgspec.Struct, frozen=True, tag_field="type", tag="request"):
    method: str
    id: RequestId = None
    params: JsonObject = {}


HubMessage: TypeAlias = RemoteCall | AnswerMessage | HubRequest


# --- from the tool server --------------------------------------------------------------------------------------------
class ErrorPayload(msgspec.Struct, frozen=True):
    """A tool_error without its type."""

    code: str
    message: str = ""
    details: JsonObject | None = None


class ProgressMessage(msgspec.Struct, frozen=True, tag_field="type", tag="tool_progress", omit_defaults=True):
    """Progress of a call."""

    id: str
    progress: float
    total: float | None = None
    message: str | None = None


class LogMessage(msgspec.Struct, frozen=True, tag_field="type", tag="tool_log", omit_defaults=True):
    """A log message for the caller."""

    id: str
    level: LogLevel
    data: Json = None
    logger: str | None = None


class ChangedMessage(msgspec.Struct, frozen=True, tag_field="type", tag=CHANGED):
    """What this URI means has changed; sent only to a hall that lists it in `reports`."""

    id: str
    uri: str


class _QuestionWire(msgspec.Struct, frozen=True, tag_field="type", tag="tool_question", omit_defaults=True):
    id: str
    number: int
    questions: dict[str, Json] = {}
    retry_ms: int | None = None


class QuestionMessage(msgspec.Struct, frozen=True):
    """Questions to put to the caller; without any, the client may disconnect for `retry_ms`."""

    id: str
    number: int
    questions: Mapping[str, Question] = {}
    retry_ms: int | None = None


class ToolResponseMessage(msgspec.Struct, frozen=True, tag_field="type", tag="tool_response"):
    """The final message of a call; `dialects/hub/results.py` reads and writes its members."""

    id: str = ""
    result: Json = None
    error: ErrorPayload | None = None
    wrapped: bool = False
    nothing: bool = False
    content: list[Json] | None = None
    meta: JsonObject | None = None
    is_error: bool = False
    roles: tuple[Role, ...] = ()  # of a prompt's messages, which are `content`


class _ErrorMessage(msgspec.Struct, frozen=True, tag_field="type", tag="tool_error"):
    code: str
    message: str = ""
    details: JsonObject | None = None
    id: str = ""


class ResponseMessage(msgspec.Struct, frozen=True, tag_field="type", tag="response"):
    """The response to a request of the hall: a health status, or the confirmation of a cancellation."""

    id: RequestId = None
    result: Json = None
    error: ErrorPayload | None = None


CallEvent: TypeAlias = ProgressMessage | LogMessage | ChangedMessage | QuestionMessage
ToolServerMessage: TypeAlias = CallEvent | ToolResponseMessage | ResponseMessage
_Readable: TypeAlias = (
    ProgressMessage
    | LogMessage
    | ChangedMessage
    | _QuestionWire
    | ToolResponseMessage
    | _ErrorMessage
    | ResponseMessage
)
_decode_tool_server_message: Callable[[bytes], _Readable] = msgspec.json.Decoder(_Readable).decode
_decode_hub_message: Callable[[bytes], RemoteCall | _AnswerWire | _RequestMessage] = msgspec.json.Decoder(
    RemoteCall | _AnswerWire | _RequestMessage
).decode
_DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


# --- the hall's side -------------------------------------------------------------------------------------------------
def remote_call(call_id: str, names: tuple[str, str, str], params: JsonObject, context: CallContext) -> RemoteCall:
    """Build a call of (tool, method, version)."""
    tool, method, version = names
    return RemoteCall(call_id, tool, method, params, _Metadata(version), context)


write_call: Callable[[RemoteCall], bytes] = encode


class CallTemplate:
    """A tool_request without credentials: what all calls of one tool by one caller share, encoded once.

    `write` returns the same bytes as `write_call` of the whole message.
    """

    __slots__ = ("_before_hall_id", "_before_params", "_end")

    def __init__(self, names: tuple[str, str, str], caller: CallerPayload, can: tuple[str, ...]) -> None:
        tool, method, version = names
        self._before_params = b',"tool":%b,"method":%b,"params":' % (encode(tool), encode(method))
        self._before_hall_id = b',"metadata":%b,"context":{"call":' % encode(_Metadata(version))
        known = b',"can":' + encode(can) if can else b""
        self._end = b',"caller":%b%b,"reports":%b}}' % (encode(caller), known, encode(REPORTS))

    def write(self, call_id: str, params: bytes, hall_id: str, timeout: float | None) -> bytes:
        """Encode a call with these params, which are JSON; `hall_id` is the hall's id of the call, not empty."""
        return b'{"type":"tool_request","id":%b%b%b%b%b%b%b' % (
            encode(call_id),
            self._before_params,
            params,
            self._before_hall_id,
            encode(hall_id),
            b"" if timeout is None else b',"timeout":' + encode(timeout),
            self._end,
        )


def write_request(request_id: str, method: str, params: JsonObject) -> bytes:
    """A request of the hall itself: CANCEL or HEALTH."""
    return encode(_RequestMessage(method, request_id, params))


def write_answer(
    call_id: str,
    number: int,
    answers: Mapping[str, Answered] | None = None,
    error: ErrorPayload | None = None,
    *,
    later: bool = False,
) -> bytes:
    """Encode the outcome of a question."""
    return encode(_AnswerWire(call_id, number, write_questions_or_answers(answers or {}), error, later))


def read_tool_server_message(body: bytes) -> ToolServerMessage:
    """Decode any message of a tool server; raises Malformed for anything it must not send."""
    try:
        message = _decode_tool_server_message(body)
    except _DECODE_ERRORS as error:
        raise Malformed(f"the tool server's message cannot be read: {error}") from None
    if type(message) is ToolResponseMessage:  # as nearly always
        return message
    match message:
        case _QuestionWire():
            return QuestionMessage(message.id, message.number, read_questions(message.questions), message.retry_ms)
        case _ErrorMessage():
            return ToolResponseMessage(message.id, error=ErrorPayload(message.code, message.message, message.details))
        case _:
            return message


# --- the tool server's side ------------------------------------------------------------------------------------------
def read_hub_message(body: bytes) -> HubMessage:
    """Decode any message of a hall; raises Malformed, whose message names the fix."""
    try:
        message = _decode_hub_message(body)
    except _DECODE_ERRORS as error:
        raise Malformed(f"the message cannot be read: {error}") from None
    match message:
        case RemoteCall():
            return message
        case _AnswerWire():
            return AnswerMessage(
                message.id, message.number, read_answers(message.answers), message.error, message.later
            )
        case _RequestMessage():
            return HubRequest(message.id, message.method, message.params)


def write_progress(call_id: str, done: float, total: float | None, message: str | None) -> bytes:
    """Encode a ProgressMessage."""
    return to_json(ProgressMessage(call_id, done, total, message))


def write_log(call_id: str, level: LogLevel, data: Json, logger: str | None) -> bytes:
    """Encode a LogMessage."""
    return to_json(LogMessage(call_id, level, data, logger))


def write_changed(call_id: str, uri: str) -> bytes:
    """Encode a ChangedMessage."""
    return encode(ChangedMessage(call_id, uri))


def write_question(call_id: str, number: int, questions: Mapping[str, Question], retry_ms: int | None = None) -> bytes:
    """Encode a QuestionMessage."""
    return encode(_QuestionWire(call_id, number, write_questions_or_answers(questions), retry_ms))
