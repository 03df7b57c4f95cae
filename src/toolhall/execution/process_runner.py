"""`ProcessRunner`: runs a tool in a worker process, which is killed when the call is cancelled or times out.

One call has one worker at a time. The runner sends `RunCall`, relays events and questions to the client, and turns the
worker's final message, or its exit code, into the result or an error.
"""

import logging
import math
import signal
from collections.abc import Awaitable

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.client_link import client_features
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
    WorkerToolError,
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
from toolhall.model.messages import (
    Call,
    CallEvent,
    InputRequiredSignal,
    LogEvent,
    ProgressEvent,
    ResourceChanged,
    memory_of,
)
from toolhall.model.tool import Tool

_EGRESS = LazyEgressClient()
_log = logging.getLogger("toolhall.run")


class ProcessRunner:
    """Runs one function in workers of a pool."""

    __slots__ = ("_code_sha256", "_complete", "_default_timeout", "_egress", "_ref", "_worker_pool")

    def __init__(
        self,
        ref: FunctionRef,
        worker_pool: WorkerPool,
        default_timeout: float,
        egress: LazyEgressClient = _EGRESS,
        code_sha256: str = "",
        complete: str = "",
    ) -> None:
        """With `complete`, it runs the function that completes this argument instead."""
        self._ref = ref
        self._complete = complete
        self._code_sha256 = code_sha256  # of the function that was registered; "": any version of it runs
        self._worker_pool = worker_pool
        self._egress = egress
        self._default_timeout = default_timeout  # for tools that state no timeout

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Run the function in a worker; the awaitable gives its return value."""
        return self._run(tool, call, arguments, deadline)

    def completion_runner(self, argument: str) -> "ProcessRunner":
        """The runner of the function that completes an argument of this one."""
        return ProcessRunner(
            self._ref, self._worker_pool, self._default_timeout, self._egress, self._code_sha256, argument
        )

    async def _run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> object:
        name, healthy = str(tool.id), False
        cpu_seconds = math.ceil(tool.timeout or self._default_timeout) + 1
        worker = await self._worker_pool.acquire(self._ref, name, deadline)
        worker.output.tool = name
        try:
            if call.credentials is not None:
                worker.output.hide_secrets(call.credentials.secret_values)
            await worker.send(
                RunCall(
                    self._ref,
                    tool.name,
                    arguments,
                    caller_for_tool(call),
                    client_features(call.link),
                    cpu_seconds,
                    credentials_to_payload(call.credentials),
                    self._egress.allow,
                    self._code_sha256,
                    self._complete,
                    memory_of(call.link).task_id,
                )
            )
            final, input_required = await _relay_messages(worker, call, deadline)
            healthy = not isinstance(final, ExceptionReport) or not final.spent
        except ProtocolViolation as error:
            raise WorkerToolError("its process sends messages that no worker sends") from error
        except WorkerExited:
            raise await _crash_error(worker, name, cpu_seconds) from None
        finally:
            self._worker_pool.release(worker, self._ref, name, healthy=healthy)
        if isinstance(final, InputRequiredReport) and input_required is not None:
            raise input_required
        return _unwrap_result(final, name, self._worker_pool.limits)


async def _relay_messages(
    worker: WorkerHandle, call: Call, deadline: PausableDeadline
) -> tuple[FinalMessage, InputRequiredSignal | None]:
    """Relay events and questions of the tool to the client until its final message.

    Also returns the signal of a question that the client answers with a later call.
    """
    input_required: InputRequiredSignal | None = None
    while True:
        report = await worker.receive()
        match report:
            case EventReport():
                call.link.emit(_to_event(report))
            case QuestionRequest():
                reply, input_required = await _ask_client(report, call, deadline)
                await worker.send(reply)
            case WorkerReady() | ImportFailure():
                raise ProtocolViolation  # these only come once, in the handshake
            case _:
                return report, input_required


def _to_event(report: EventReport) -> CallEvent:
    if report.changed is not None:
        return ResourceChanged(report.changed)
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
        if questions.once is not None:
            return await _use_memory(questions, questions.once, call), None
        decoded = from_typed_values(questions.asked)
        with deadline.hold():
            return QuestionReply(questions.number, to_typed_values(await call.link.ask(decoded))), None
    except InputRequiredSignal as required:
        return QuestionReply(questions.number, later=True), required
    except ToolhallError as error:
        return QuestionReply(questions.number, error=encode_error(error)), None
    except (msgspec.ValidationError, ValueError) as error:
        raise ProtocolViolation from error


async def _use_memory(request: QuestionRequest, key: str, call: Call) -> QuestionReply:
    """Look up or remember a result of `ctx.once`."""
    memory = memory_of(call.link)
    if request.result is not None:
        await memory.remember(key, request.result)
        return QuestionReply(request.number)
    return QuestionReply(request.number, found=await memory.recall(key))


def _unwrap_result(final: FinalMessage, tool: str, limits: WorkerLimits) -> object:
    match final:
        case ResultReport():
            return decode_result(final)
        case ErrorReport():
            raise decode_error(final)
        case UnserializableResult():
            _log.error("tool %s returned what cannot be written as JSON:\n%s", tool, final.trace)
            raise BadOutput("the tool returned something that cannot be written as JSON")
        case OversizedResult():
            _log.error("tool %s returned %d bytes", tool, final.size)
            raise BadOutput(f"the tool returned {final.size} bytes; that is more than is passed on")
        case ExceptionReport(memory=True):
            _log.error("tool %s used up its memory:\n%s", tool, final.trace)
            raise Crashed(f"the tool was stopped: it used more than {_format_bytes(limits.memory)} of memory")
        case ExceptionReport():
            raise WorkerToolError(final.trace)
        case InputRequiredReport():
            raise WorkerToolError("the tool ended as if it had asked a question, but it had not")


async def _crash_error(worker: WorkerHandle, tool: str, cpu_seconds: int) -> Crashed:
    code = await worker.wait_exit_code()
    if code is None:
        cause = "it no longer answers"
    elif code == -signal.SIGXCPU:
        cause = f"it used more than {cpu_seconds} seconds of CPU"
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
