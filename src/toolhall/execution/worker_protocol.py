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
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from toolhall.execution.function_ref import FunctionRef
from toolhall.model import errors
from toolhall.model.caller import Caller
from toolhall.model.content import CONTENT_TYPES, Audio, Image, Notes, Reply, Resource, ResourceLink, Text
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
from toolhall.model.messages import Call, LogLevel
from toolhall.model.questions import Filled, Form, Rooted, Roots, Sample, Sampled, Visit
from toolhall.model.requirements import AccountToken, ResolvedCredentials
from toolhall.model.secret import Secret
from toolhall.schema.types import to_json


class AccountPayload(msgspec.Struct, frozen=True):
    """An account's token."""

    token: str
    scopes: tuple[str, ...]
    expires_at: float | None

    def __repr__(self) -> str:
        return "AccountPayload(...)"


class CredentialPayload(msgspec.Struct, frozen=True):
    """The equipment as JSON can carry it; never printed."""

    secrets: dict[str, str]
    accounts: dict[str, AccountPayload]
    user_id: str | None

    def __repr__(self) -> str:
        return "CredentialPayload(...)"


def caller_for_tool(call: Call) -> Caller:
    """The caller as the tool knows it: what it was proven by is nothing to a tool."""
    caller = call.caller
    return caller if caller.credential is None else msgspec.structs.replace(caller, credential=None)


def credentials_to_payload(credentials: ResolvedCredentials | None) -> CredentialPayload | None:
    """Ready to be sent."""
    if credentials is None:
        return None
    secrets = {name: secret.reveal() for name, secret in credentials.secrets.items()}
    accounts = {
        provider: AccountPayload(account.token.reveal(), account.scopes, account.expires_at)
        for provider, account in credentials.accounts.items()
    }
    return CredentialPayload(secrets, accounts, credentials.user_id)


def credentials_from_payload(payload: CredentialPayload | None) -> ResolvedCredentials | None:
    """As it was before it was sent."""
    if payload is None:
        return None
    accounts = {
        provider: AccountToken(provider, Secret(lent.token), lent.scopes, lent.expires_at)
        for provider, lent in payload.accounts.items()
    }
    return ResolvedCredentials(
        {name: Secret(value) for name, value in payload.secrets.items()}, accounts, payload.user_id
    )


_FRAME_HEADER = struct.Struct(">I")
FRAME_HEADER_BYTES = _FRAME_HEADER.size
# From the hall to a worker's supervisor: kill the worker and all that it started. Windows has neither.
KILL_WORKER_SIGNAL: int = getattr(signal, "SIGUSR1", signal.SIGTERM)
MAX_HALL_MESSAGE_BYTES = 64 * 1024 * 1024  # what the hall itself says; a worker has a cap of its own


class WorkerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process may use."""

    memory: int = 1024 * 1024 * 1024  # bytes of address space
    files: int = 256
    processes: int = 512  # more than its user has when it starts
    file_bytes: int = 256 * 1024 * 1024
    result_bytes: int = 4 * 1024 * 1024  # of one frame that it sends


# --- from the hall ---------------------------------------------------------------------------------------------------
class StartWorker(msgspec.Struct, frozen=True, tag="start"):
    """Confine yourself, import the module, and say when you are ready."""

    address: FunctionRef
    path: tuple[str, ...]  # where to import from
    limits: WorkerLimits
    parent: int
    hidden: tuple[str, ...] = ()  # paths that it must not be able to open


class RunCall(msgspec.Struct, frozen=True, tag="work"):
    """Run this."""

    address: FunctionRef
    tool: str
    arguments: JsonObject
    caller: Caller
    can: tuple[str, ...]  # what the caller's program can do
    cpu_seconds: int
    supply: CredentialPayload | None = None  # what the tool requires
    allow: tuple[str, ...] = ()  # private hosts that it may reach
    code_sha256: str = ""  # of the function as it was registered; another one is not run


class QuestionReply(msgspec.Struct, frozen=True, tag="replied"):
    """What came of a question: replies by key, or an error, or that the call comes again later with the replies."""

    number: int
    replies: dict[str, "TypedValue"] = {}
    error: "ErrorReport | None" = None
    later: bool = False


# --- from the worker -------------------------------------------------------------------------------------------------
class WorkerReady(msgspec.Struct, frozen=True, tag="ready"):
    """The module is imported; `missing` are the restrictions that this kernel does not have."""

    missing: tuple[str, ...] = ()


class ImportFailure(msgspec.Struct, frozen=True, tag="unfit"):
    """The module cannot be imported here."""

    trace: str


class EventReport(msgspec.Struct, frozen=True, tag="said"):
    """Progress, or something for the caller to read."""

    done: float | None = None
    total: float | None = None
    message: str | None = None
    level: LogLevel = "info"
    data: Json = None
    logger: str | None = None


class QuestionRequest(msgspec.Struct, frozen=True, tag="questions"):
    """Put these to the caller; none at all: let it hang up for so long."""

    number: int
    asked: dict[str, "TypedValue"] = {}
    retry_ms: int | None = None


class ResultReport(msgspec.Struct, frozen=True, tag="done"):
    """What the tool returned."""

    value: Json = msgspec.UNSET
    blocks: tuple["TypedValue", ...] | None = None
    reply: bool = False
    meta: JsonObject | None = None
    is_error: bool = False


class ErrorReport(msgspec.Struct, frozen=True, tag="told", omit_defaults=True):
    """An error of the tree, raised by the tool."""

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
    """Any other exception, for the log; `spent` says that the worker should be replaced."""

    trace: str
    memory: bool = False
    spent: bool = False


class UnserializableResult(msgspec.Struct, frozen=True, tag="unwritable"):
    """It returned what JSON cannot say."""

    trace: str


class OversizedResult(msgspec.Struct, frozen=True, tag="too_large"):
    """It returned more than may be passed on."""

    size: int


class InputRequiredReport(msgspec.Struct, frozen=True, tag="unwound"):
    """It asked, and ended because the answer comes with a later call."""


class TypedValue(msgspec.Struct, frozen=True):
    """A block, a question or a reply, with the name of its type."""

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
    """A message, ready to be sent."""
    body = to_json(message)
    return _FRAME_HEADER.pack(len(body)) + body


def frame_length(head: bytes) -> int:
    """How long the message behind this head is."""
    length: int = _FRAME_HEADER.unpack(head)[0]
    return length


_TYPES_BY_NAME: dict[str, type] = {
    kind.__name__: kind
    for kind in (Text, Image, Audio, ResourceLink, Resource, Form, Visit, Sample, Roots, Filled, Sampled, Rooted)
}
_PACKAGE = str(Path(__file__).parents[1])
_EXAMPLES = str(Path(_PACKAGE, "examples"))
_STDLIB = sysconfig.get_path("stdlib")


def to_typed_value(value: Any) -> TypedValue:
    """A block, a question or a reply; of those only a resource can hold either text or bytes."""
    return TypedValue(type(value).__name__, value, binary=isinstance(getattr(value, "content", None), bytes))


def from_typed_value(typed: TypedValue) -> Any:
    """The same again; raises msgspec.ValidationError or ValueError where it is none."""
    kind = _TYPES_BY_NAME.get(typed.kind)
    if kind is None:
        raise ValueError(f"there is no {typed.kind}")
    if kind is not Resource:
        return msgspec.convert(typed.fields, kind)
    fields = msgspec.structs.asdict(msgspec.convert(typed.fields, _EncodedResource))
    if typed.binary:
        fields["content"] = base64.b64decode(fields["content"], validate=True)
    return Resource(**fields)


class _EncodedResource(msgspec.Struct, kw_only=True):
    """A resource whose bytes were written as text."""

    uri: str
    content: str
    mime_type: str | None = None
    notes: Notes | None = None
    meta: JsonObject | None = None


def encode_result(value: object) -> ResultReport:
    """What a tool returned, read as `pipeline/check` would read it; raises where JSON cannot say it."""
    if isinstance(value, Reply):
        given = value.value if value.value is msgspec.UNSET else msgspec.Raw(to_json(value.value))
        return ResultReport(given, tuple(map(to_typed_value, value.content)), True, value.meta, value.is_error)
    blocks = [value] if isinstance(value, CONTENT_TYPES) else value
    if isinstance(blocks, list | tuple) and blocks and all(isinstance(each, CONTENT_TYPES) for each in blocks):
        return ResultReport(blocks=tuple(map(to_typed_value, blocks)))
    return ResultReport(msgspec.Raw(to_json(value)))


def decode_result(result: ResultReport) -> object:
    """The value again; BadOutput where a block has a part of the wrong type."""
    try:
        blocks = tuple(map(from_typed_value, result.blocks or ()))
    except (msgspec.ValidationError, ValueError, binascii.Error):
        raise BadOutput("the tool returned content that cannot be written") from None
    if result.reply:
        return Reply(blocks, result.value, result.meta, result.is_error)
    return result.value if result.blocks is None else blocks


def encode_error(error: ToolhallError) -> ErrorReport:
    """An error of ours; one of the author's own kind is told as what it descends from."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    fields = {
        name: getattr(error, name) for name in ErrorReport.__struct_fields__ if name != "kind" and hasattr(error, name)
    }
    return ErrorReport(kind.__name__, **fields)


def decode_error(report: ErrorReport) -> ToolhallError:
    """The error again."""
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


def to_typed_values(values: Mapping[str, Any]) -> dict[str, TypedValue]:
    """Questions or replies by their keys."""
    return {key: to_typed_value(value) for key, value in values.items()}


def from_typed_values(typed: Mapping[str, TypedValue]) -> dict[str, Any]:
    """The same again."""
    return {key: from_typed_value(value) for key, value in typed.items()}


def author_traceback(error: BaseException) -> TracebackType | None:
    """The traceback from the first frame of the author's code; the whole one where there is none."""
    frame = error.__traceback__
    while frame is not None and _is_internal_file(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    return frame or error.__traceback__


def _is_internal_file(file: str) -> bool:
    """Whether a file is the hall's or the standard library's; the example tools are an author's."""
    if file.startswith(_PACKAGE):
        return not file.startswith(_EXAMPLES)
    return file.startswith((_STDLIB, "<frozen")) and "site-packages" not in file


_worker_marks: list[bool] = []


def mark_as_worker() -> None:
    """This process is a worker from now on."""
    _worker_marks.append(True)


def is_worker_process() -> bool:
    """Whether it is one."""
    return bool(_worker_marks)
