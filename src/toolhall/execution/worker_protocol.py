"""Messages between the hall and a worker process: length-prefixed JSON frames, never pickle, and their codecs.

The hall sends `StartWorker`, `RunCall` and `QuestionReply`; the worker sends `WorkerReady` or `ImportFailure` once,
then for each call any number of `EventReport` and `QuestionRequest`, and exactly one `FinalMessage`. Credentials travel
as `CredentialPayload`, to exactly one process for exactly one call. Results, questions and errors are encoded by the
name of their type and decoded to what they were.
"""

import base64
import binascii
import signal
import struct
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeGuard

import msgspec

from toolhall.execution.function_ref import FunctionRef
from toolhall.model import errors
from toolhall.model.caller import Caller
from toolhall.model.content import (
    CONTENT_TYPES,
    Audio,
    Content,
    Image,
    Message,
    Notes,
    Reply,
    Resource,
    ResourceLink,
    Role,
    Text,
)
from toolhall.model.errors import (
    BadArguments,
    BadOutput,
    Limited,
    Problem,
    ToolError,
    ToolFailed,
    ToolhallError,
    Unsupported,
)
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Call, Filled, Form, LogLevel, Rooted, Roots, Sample, Sampled, Visit
from toolhall.model.requirements import AccountToken, ResolvedCredentials
from toolhall.model.secret import Secret
from toolhall.model.tool import Kind
from toolhall.schema.types import to_json

_FRAME_HEADER = struct.Struct(">I")
FRAME_HEADER_BYTES = _FRAME_HEADER.size
# From the hall to a worker's supervisor: kill the worker and everything it started. Windows has neither signal.
KILL_WORKER_SIGNAL: int = getattr(signal, "SIGUSR1", signal.SIGTERM)
_PACKAGE = str(Path(__file__).parents[1])
_EXAMPLES = str(Path(_PACKAGE, "examples"))
_STDLIB = str(Path(traceback.__file__).parent)


class WorkerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Resource limits of a worker process."""

    memory: int = 1024 * 1024 * 1024  # bytes of address space
    files: int = 256
    processes: int = 512  # and threads, besides those that its user has when it starts
    file_bytes: int = 256 * 1024 * 1024
    result_bytes: int = 4 * 1024 * 1024  # of one frame from the worker


class AccountPayload(msgspec.Struct, frozen=True):
    """The token of a linked account."""

    token: str
    scopes: tuple[str, ...]
    expires_at: float | None

    def __repr__(self) -> str:
        return "AccountPayload(...)"


class CredentialPayload(msgspec.Struct, frozen=True):
    """The credentials of a call in JSON types; its repr shows nothing."""

    secrets: dict[str, str]
    accounts: dict[str, AccountPayload]
    user_id: str | None

    def __repr__(self) -> str:
        return "CredentialPayload(...)"


# --- from the hall ---------------------------------------------------------------------------------------------------
class StartWorker(msgspec.Struct, frozen=True, tag="start"):
    """The first message: enter the sandbox, import the module, then send WorkerReady."""

    address: FunctionRef
    path: tuple[str, ...]  # where to import from
    limits: WorkerLimits
    parent: int
    hidden: tuple[str, ...] = ()  # paths that the worker must not be able to open


class RunCall(msgspec.Struct, frozen=True, tag="work"):
    """One call to run."""

    address: FunctionRef
    tool: str
    arguments: JsonObject
    caller: Caller
    can: tuple[str, ...]  # features that the client declared
    cpu_seconds: int
    supply: CredentialPayload | None = None  # the credentials that the tool requires
    allow: tuple[str, ...] = ()  # private hosts that the tool may reach
    code_sha256: str = ""  # of the function as it was registered; the worker runs no other
    complete: str = ""  # instead: complete this argument of it
    task_id: str | None = None  # of the task that the call is


class QuestionReply(msgspec.Struct, frozen=True, tag="replied"):
    """The outcome of a question: replies by key, an error, or `later`: the call is repeated with the replies."""

    number: int
    replies: dict[str, "TypedValue"] = {}
    error: "ErrorReport | None" = None
    later: bool = False
    found: bytes | None = None  # what `ctx.once` remembered under the key


# --- from the worker -------------------------------------------------------------------------------------------------
class WorkerReady(msgspec.Struct, frozen=True, tag="ready"):
    """The module is imported; `missing` lists restrictions that this kernel does not have, one sentence each."""

    missing: tuple[str, ...] = ()


class WorkerToolError(Exception):
    """An exception of the tool that stayed in its process; the message is the traceback, for the log."""


class ImportFailure(msgspec.Struct, frozen=True, tag="unfit"):
    """The module cannot be imported in the worker."""

    trace: str


class EventReport(msgspec.Struct, frozen=True, tag="said"):
    """A progress event (with `done`), a changed resource (with `changed`), or a log event."""

    done: float | None = None
    total: float | None = None
    message: str | None = None
    level: LogLevel = "info"
    data: Json = None
    logger: str | None = None
    changed: str | None = None


class QuestionRequest(msgspec.Struct, frozen=True, tag="questions"):
    """Questions for the client; with `retry_ms` none: detach, and let the client resume after that time.

    With `once` none either: it is the key of a result that the call remembers, or is to remember.
    """

    number: int
    asked: dict[str, "TypedValue"] = {}
    retry_ms: int | None = None
    once: str | None = None
    result: bytes | None = None


class ResultReport(msgspec.Struct, frozen=True, tag="done"):
    """The value that the tool returned."""

    value: Json = msgspec.UNSET
    blocks: tuple["TypedValue", ...] | None = None
    reply: bool = False
    meta: JsonObject | None = None
    is_error: bool = False
    roles: tuple[Role, ...] = ()  # of a prompt's messages, which are `blocks`
    binary: bool = False  # the value is a resource's bytes, in base64


class ErrorReport(msgspec.Struct, frozen=True, tag="told", omit_defaults=True):
    """A ToolhallError that the tool raised, by the name of its class."""

    kind: str
    message: str
    detail: str | None = None
    problems: tuple[Problem, ...] = ()
    feature: str = ""
    retry_after: float | None = None
    can_retry: bool = False
    prompt: str | None = None
    code: str = "TOOL_ERROR"
    details: JsonObject = {}


class ExceptionReport(msgspec.Struct, frozen=True, tag="raised"):
    """Any other exception, for the log; `memory`: the tool ran out of it; `spent`: the worker must be replaced."""

    trace: str
    memory: bool = False
    spent: bool = False


class UnserializableResult(msgspec.Struct, frozen=True, tag="unwritable"):
    """The tool returned a value that cannot be written as JSON."""

    trace: str


class OversizedResult(msgspec.Struct, frozen=True, tag="too_large"):
    """The tool returned more than `WorkerLimits.result_bytes`."""

    size: int


class InputRequiredReport(msgspec.Struct, frozen=True, tag="unwound"):
    """The tool asked a question and was unwound: the answer comes with a later call."""


class TypedValue(msgspec.Struct, frozen=True):
    """A content block, a question or a reply, with the name of its type."""

    kind: str
    fields: Json
    binary: bool = False


HallMessage: TypeAlias = StartWorker | RunCall | QuestionReply
FinalMessage: TypeAlias = (
    ResultReport | ErrorReport | ExceptionReport | UnserializableResult | OversizedResult | InputRequiredReport
)
WorkerMessage: TypeAlias = WorkerReady | ImportFailure | EventReport | QuestionRequest | FinalMessage
decode_hall_message: Callable[[bytes], HallMessage] = msgspec.json.Decoder(HallMessage).decode
decode_worker_message: Callable[[bytes], WorkerMessage] = msgspec.json.Decoder(WorkerMessage).decode


def encode_frame(message: Any) -> bytes:
    """A message with its length prefix; raises where JSON cannot express it."""
    body = to_json(message)
    return _FRAME_HEADER.pack(len(body)) + body


def frame_length(head: bytes) -> int:
    """The length of the message behind this header."""
    length: int = _FRAME_HEADER.unpack(head)[0]
    return length


def caller_for_tool(call: Call) -> Caller:
    """The caller without its credential, which a tool never gets."""
    caller = call.caller
    return caller if caller.credential is None else msgspec.structs.replace(caller, credential=None)


def credentials_to_payload(credentials: ResolvedCredentials | None) -> CredentialPayload | None:
    """The credentials as they are sent to a worker process."""
    if credentials is None:
        return None
    secrets = {name: secret.reveal() for name, secret in credentials.secrets.items()}
    accounts = {
        provider: AccountPayload(account.token.reveal(), account.scopes, account.expires_at)
        for provider, account in credentials.accounts.items()
    }
    return CredentialPayload(secrets, accounts, credentials.user_id)


def credentials_from_payload(payload: CredentialPayload | None) -> ResolvedCredentials | None:
    """The credentials as they were before they were sent."""
    if payload is None:
        return None
    accounts = {
        provider: AccountToken(provider, Secret(account.token), account.scopes, account.expires_at)
        for provider, account in payload.accounts.items()
    }
    return ResolvedCredentials(
        {name: Secret(value) for name, value in payload.secrets.items()}, accounts, payload.user_id
    )


def encode_result(value: object, kind: Kind = "tool") -> ResultReport:
    """Encode what a tool returned, read as the check stage of the pipeline reads it; raises where it is not JSON."""
    if kind == "resource" and isinstance(value, bytes):
        return ResultReport(base64.b64encode(value).decode(), binary=True)
    if kind == "prompt" and (messages := _messages(value)):
        typed = tuple(to_typed_value(each.content) for each in messages)
        return ResultReport(blocks=typed, roles=tuple(each.role for each in messages))
    if isinstance(value, Reply):
        encoded = value.value if value.value is msgspec.UNSET else msgspec.Raw(to_json(value.value))
        return ResultReport(encoded, tuple(map(to_typed_value, value.content)), True, value.meta, value.is_error)
    blocks = [value] if isinstance(value, CONTENT_TYPES) else value
    if isinstance(blocks, list | tuple) and blocks and all(isinstance(each, CONTENT_TYPES) for each in blocks):
        return ResultReport(blocks=tuple(map(to_typed_value, blocks)))
    return ResultReport(msgspec.Raw(to_json(value)))


def _messages(value: object) -> list[Message]:
    """What a prompt returned as messages; the user says what is no Message. Empty if there is anything else."""
    parts = value if isinstance(value, list | tuple) else [value]
    said = [Text(part) if isinstance(part, str) else part for part in parts]
    messages = [part if isinstance(part, Message) else Message.user(part) for part in said if _is_said(part)]
    return messages if len(messages) == len(parts) else []


def _is_said(part: object) -> "TypeGuard[Message | Content]":
    return isinstance(part.content if isinstance(part, Message) else part, CONTENT_TYPES)


def decode_result(result: ResultReport) -> object:
    """Decode the value; raises BadOutput for a content block with a field of the wrong type."""
    try:
        if result.binary:
            return base64.b64decode(str(result.value), validate=True)
        blocks = tuple(map(from_typed_value, result.blocks or ()))
        if result.roles:
            return tuple(Message(role, block) for role, block in zip(result.roles, blocks, strict=True))
    except (msgspec.ValidationError, ValueError, binascii.Error):
        raise BadOutput("the tool returned content that cannot be written") from None
    if result.reply:
        return Reply(blocks, result.value, result.meta, result.is_error)
    return result.value if result.blocks is None else blocks


def encode_error(error: ToolhallError) -> ErrorReport:
    """Encode an error; a subclass of the author's becomes the class of `model.errors` that it descends from."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    fields = {
        name: getattr(error, name) for name in ErrorReport.__struct_fields__ if name != "kind" and hasattr(error, name)
    }
    return ErrorReport(kind.__name__, **fields)


def decode_error(report: ErrorReport) -> ToolhallError:
    """Decode an error to the class that it had."""
    kind = getattr(errors, report.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, ToolhallError)):
        return ToolFailed(report.message, detail=report.detail)
    if issubclass(kind, BadArguments):
        return BadArguments(report.problems, detail=report.detail)
    if issubclass(kind, Unsupported):
        return Unsupported(report.feature, detail=report.detail)
    if issubclass(kind, Limited):
        return Limited(report.retry_after or 0.0, detail=report.detail)
    error: ToolhallError = kind(report.message, detail=report.detail)
    if isinstance(error, ToolError):
        error.code, error.details = report.code, report.details
    if isinstance(error, ToolFailed):
        error.retry_after, error.can_retry, error.prompt = report.retry_after, report.can_retry, report.prompt
    return error


_TYPES_BY_NAME: dict[str, type] = {
    kind.__name__: kind
    for kind in (Text, Image, Audio, ResourceLink, Resource, Form, Visit, Sample, Roots, Filled, Sampled, Rooted)
}


def to_typed_values(values: Mapping[str, Any]) -> dict[str, TypedValue]:
    """Encode questions or replies by key."""
    return {key: to_typed_value(value) for key, value in values.items()}


def from_typed_values(typed: Mapping[str, TypedValue]) -> dict[str, Any]:
    """Decode questions or replies by key."""
    return {key: from_typed_value(value) for key, value in typed.items()}


def to_typed_value(value: Any) -> TypedValue:
    """Encode a content block, a question or a reply; only a resource can hold either text or bytes."""
    return TypedValue(type(value).__name__, value, binary=isinstance(getattr(value, "content", None), bytes))


def from_typed_value(typed: TypedValue) -> Any:
    """Decode what `to_typed_value` encoded; raises msgspec.ValidationError or ValueError for anything else."""
    kind = _TYPES_BY_NAME.get(typed.kind)
    if kind is None:
        raise ValueError(f"unknown type {typed.kind}")
    if kind is not Resource:
        return msgspec.convert(typed.fields, kind)
    fields = msgspec.structs.asdict(msgspec.convert(typed.fields, _EncodedResource))
    if typed.binary:
        fields["content"] = base64.b64decode(fields["content"], validate=True)
    return Resource(**fields)


class _EncodedResource(msgspec.Struct, kw_only=True):
    """A resource whose bytes are base64 text."""

    uri: str
    content: str
    mime_type: str | None = None
    notes: Notes | None = None
    meta: JsonObject | None = None


def author_traceback(error: BaseException) -> TracebackType | None:
    """The traceback from the first frame of the author's code on; the whole traceback if it has none."""
    frame = error.__traceback__
    while frame is not None and _is_internal_file(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    return frame or error.__traceback__


def _is_internal_file(file: str) -> bool:
    """Whether the file belongs to Toolhall or the standard library; the example tools count as an author's code."""
    if file.startswith(_PACKAGE):
        return not file.startswith(_EXAMPLES)
    return file.startswith((_STDLIB, "<frozen")) and "site-packages" not in file


_worker_marks: list[bool] = []


def mark_as_worker() -> None:
    """Make `is_worker_process` true in this process."""
    _worker_marks.append(True)


def is_worker_process() -> bool:
    """Whether this process is a worker process."""
    return bool(_worker_marks)
