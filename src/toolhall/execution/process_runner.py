"""`ProcessRunner`: runs a tool in a worker process, which is killed when the call is cancelled or times out."""

import logging
import math
import signal
from collections.abc import Awaitable

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.function_ref import FunctionRef
from toolhall.execution.worker_pool import WorkerPool
from toolhall.execution.worker_process import ProtocolViolation, WorkerExited, WorkerHandle
from toolhall.execution.worker_protocol import (
    ErrorReport,
    EventReport,
    ExceptionReport,
    FinalMessage,
    ImportFailure,
    InputRequiredReport,
    OversizedResult,
    QuestionReply,
    QuestionRequest,
    ResultReport,
    RunCall,
    UnserializableResult,
    WorkerLimits,
    WorkerReady,
    caller_for_tool,
    credentials_to_payload,
    decode_error,
    decode_result,
    encode_error,
    from_typed_values,
    to_typed_values,
)
from toolhall.model.errors import BadOutput, Crashed, ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, CallEvent, InputRequiredSignal, LogEvent, ProgressEvent
from toolhall.model.tool import Tool

_EGRESS = LazyEgressClient()
_CLIENT_FEATURES = ("elicitation", "elicitation.url", "sampling", "roots")
_log = logging.getLogger("toolhall.run")


class WorkerToolError(Exception):
    """The tool's own exception, which stayed in its process; the message is its traceback."""


class ProcessRunner:
    """One call, one worker; when the call is cancelled or its time is up, the worker is killed."""

    __slots__ = ("_code_sha256", "_default_timeout", "_egress", "_ref", "_worker_pool")

    def __init__(
        self,
        ref: FunctionRef,
        worker_pool: WorkerPool,
        default_timeout: float,
        egress: LazyEgressClient = _EGRESS,
        code_sha256: str = "",
    ) -> None:
        self._ref = ref
        self._code_sha256 = code_sha256  # of the function that was registered; "": whatever is there now runs
        self._worker_pool = worker_pool
        self._egress = egress
        self._default_timeout = default_timeout  # for tools that state no timeout

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """What the function returned, there."""
        return self._run(tool, call, arguments, deadline)

    async def _run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> object:
        name, sound = str(tool.id), False
        seconds = math.ceil(tool.timeout or self._default_timeout) + 1
        child = await self._worker_pool.acquire(self._ref, name, deadline)
        child.output.tool = name
        try:
            if call.credentials is not None:
                child.output.hide_secrets(call.credentials.secret_values)
            can = tuple(filter(call.link.can, _CLIENT_FEATURES))
            supply, allow, code = credentials_to_payload(call.credentials), self._egress.allow, self._code_sha256
            work = RunCall(self._ref, tool.name, arguments, caller_for_tool(call), can, seconds, supply, allow, code)
            await child.send(work)
            end, asking = await _relay_messages(child, call, deadline)
            sound = not isinstance(end, ExceptionReport) or not end.spent
        except ProtocolViolation as error:
            raise WorkerToolError("its process does not speak as a worker does") from error
        except WorkerExited:
            raise await _crash_error(child, name, seconds) from None
        finally:
            self._worker_pool.release(child, self._ref, name, healthy=sound)
        if isinstance(end, InputRequiredReport) and asking is not None:
            raise asking
        return _unwrap_result(end, name, self._worker_pool.limits)


async def _relay_messages(
    worker: WorkerHandle, call: Call, deadline: PausableDeadline
) -> tuple[FinalMessage, InputRequiredSignal | None]:
    """Pass on what the tool says and asks, until it ends."""
    asking: InputRequiredSignal | None = None
    while True:
        report = await worker.receive()
        match report:
            case EventReport():
                call.link.emit(_to_event(report))
            case QuestionRequest():
                replied, asking = await _ask_client(report, call, deadline)
                await worker.send(replied)
            case WorkerReady() | ImportFailure():
                raise ProtocolViolation  # it said so before
            case _:
                return report, asking


def _to_event(report: EventReport) -> CallEvent:
    if report.done is None:
        return LogEvent(report.level, report.data, report.logger)
    return ProgressEvent(report.done, report.total, report.message)


async def _ask_client(
    questions: QuestionRequest, call: Call, deadline: PausableDeadline
) -> tuple[QuestionReply, InputRequiredSignal | None]:
    try:
        if questions.retry_ms is not None:
            await call.link.detach(questions.retry_ms)
            return QuestionReply(questions.number), None
        asked = from_typed_values(questions.asked)
        with deadline.hold():
            return QuestionReply(questions.number, to_typed_values(await call.link.ask(asked))), None
    except InputRequiredSignal as asking:
        return QuestionReply(questions.number, later=True), asking
    except ToolhallError as error:
        return QuestionReply(questions.number, error=encode_error(error)), None
    except (msgspec.ValidationError, ValueError) as error:
        raise ProtocolViolation from error


def _unwrap_result(end: FinalMessage, tool: str, limits: WorkerLimits) -> object:
    match end:
        case ResultReport():
            return decode_result(end)
        case ErrorReport():
            raise decode_error(end)
        case UnserializableResult():
            _log.error("tool %s returned what cannot be written as JSON:\n%s", tool, end.trace)
            raise BadOutput("the tool returned something that cannot be written as JSON")
        case OversizedResult():
            _log.error("tool %s returned %d bytes", tool, end.size)
            raise BadOutput(f"the tool returned {end.size} bytes; that is more than is passed on")
        case ExceptionReport(memory=True):
            _log.error("tool %s used up its memory:\n%s", tool, end.trace)
            raise Crashed(f"the tool was stopped: it used more than {_format_bytes(limits.memory)} of memory")
        case ExceptionReport():
            raise WorkerToolError(end.trace)
        case InputRequiredReport():
            raise WorkerToolError("the tool ended as if it had asked something, and it had not")


async def _crash_error(worker: WorkerHandle, tool: str, seconds: int) -> Crashed:
    code = await worker.wait_exit_code()
    if code is None:
        cause = "it no longer answers"
    elif code == -signal.SIGXCPU:
        cause = f"it used more than {seconds} seconds of CPU"
    elif code == -signal.SIGKILL:
        cause = "the system killed it, most likely for want of memory"
    elif code < 0:
        cause = f"it crashed ({signal.Signals(-code).name})"
    else:
        cause = f"it ended its process with code {code}"
    _log.error("tool %s took its process down: %s", tool, cause)
    return Crashed(f"the tool was stopped: {cause}")


def _format_bytes(size: int) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} bytes"
