"""Entry point of a worker process (`main`): a supervisor, and below it the `Worker` that runs the calls of one module.

Theory of operation
-------------------
The hall starts `python -I` with one end of a socket pair (see `worker_process`) and sends `StartWorker`. `main` forks:

    hall --- socket ---+   supervisor (parent): waits, kills, exits as the worker did
                       |       |
                       +-- worker (child): sandboxed, imports one module, runs calls one after the other
                               |
                               processes that the tool starts

The supervisor exists to kill everything that a tool started. A process with a session of its own is in no process group
that could be killed, so the supervisor is a subreaper: a descendant that loses its parent becomes its child, wherever
it has moved. When the worker has ended, the supervisor kills its children until none is left, and exits with the
worker's exit code or signal, so that the hall reads the worker's end from it. It runs none of the tool's code, holds
neither the socket nor the output pipe, and cannot be signalled by the tool. The hall ends a worker by sending
KILL_WORKER_SIGNAL to the supervisor. If the hall dies, the kernel tells the supervisor (PR_SET_PDEATHSIG); if the
supervisor dies, the kernel kills the worker.

The worker limits and sandboxes itself before it imports the tool's module (`sandbox`), then runs calls in its main
thread. A second thread receives messages: calls, answers to questions, and the end of the socket, on which it lets idle
toolkits be left and kills the process group.
"""

import asyncio
import ctypes
import errno
import io
import math
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Any

import msgspec

from toolhall.authoring.code_digest import code_sha256, file_sha256
from toolhall.authoring.context import Context
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.function_ref import FunctionRef, load_function, load_module
from toolhall.execution.lifespan import LEAVE_SECONDS, Lifespans
from toolhall.execution.sandbox import allow_cpu_seconds, apply_resource_limits, enter_sandbox, kill_process_group
from toolhall.execution.seccomp import supervise_signals
from toolhall.execution.worker_protocol import (
    FRAME_HEADER_BYTES,
    KILL_WORKER_SIGNAL,
    EventReport,
    ExceptionReport,
    FinalMessage,
    ImportFailure,
    InputRequiredReport,
    OversizedResult,
    QuestionReply,
    QuestionRequest,
    RunCall,
    StartWorker,
    UnserializableResult,
    WorkerMessage,
    WorkerReady,
    author_traceback,
    credentials_from_payload,
    decode_error,
    decode_hall_message,
    encode_error,
    encode_frame,
    encode_result,
    frame_length,
    from_typed_values,
    mark_as_worker,
    to_typed_values,
)
from toolhall.model.errors import ToolhallError, Unavailable
from toolhall.model.messages import (
    Answered,
    CallEvent,
    InputRequiredSignal,
    LogEvent,
    ProgressEvent,
    Question,
    ResourceChanged,
)
from toolhall.model.tool import Kind
from toolhall.process_supervisor import exit_like, kill_descendants
from toolhall.redaction.log_redaction import install_log_redaction, start_redaction, stop_redaction
from toolhall.redaction.redactor import Redactor, redactor_for

_PARENT_DEATH_SIGNAL = signal.SIGUSR2  # from the kernel: the thread of the hall that started it has ended, or the hall
_WAITED_SIGNALS = {signal.SIGCHLD, KILL_WORKER_SIGNAL, _PARENT_DEATH_SIGNAL}
# Service managers and terminals send these to a whole service; the hall decides when a worker ends.
_BLOCKED_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_UNRECOVERABLE_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.EAGAIN}  # out of files, processes: replace the worker
_CODE_CHANGED = "the tool's code changed since it was registered; restart the hall to serve it as it is now"
_TRACEBACK_LIMIT = -50  # the innermost frames: a deep recursion must not fill the log


def main(descriptor: int) -> None:
    """Run as a worker that the hall reaches over this socket; `worker_process` starts Python with this function."""
    with socket.socket(fileno=descriptor) as end:
        end.set_inheritable(False)
        start = receive_message(end)
        if isinstance(start, StartWorker):
            channel = supervise(start.parent, descriptor)
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(line_buffering=True)  # so that printed lines survive a kill
            sys.path[:] = start.path
            mark_as_worker()
            apply_resource_limits(start.limits)
            with channel:
                missing = enter_sandbox(start.hidden, (start.parent, os.getppid()), channel=channel)
            Worker(end, start).run(start.address, missing)


class Worker:
    """Runs calls in its main thread; a second thread receives messages, and ends the process when the hall is gone."""

    def __init__(self, sock: socket.socket, start: StartWorker) -> None:
        self._socket = sock
        self._channel = WorkerChannel(sock, start.limits.result_bytes)
        self._calls: queue.SimpleQueue[RunCall | None] = queue.SimpleQueue()
        self._lifespans: dict[int, Lifespans] = {}  # of toolkits that were entered here, by id()
        self._idle = threading.Event()
        self._pending: dict[int, asyncio.Future[QuestionReply]] = {}
        self._instances: dict[tuple[str, ...], Any] = {}
        self._definitions: dict[FunctionRef, Definition] = {}
        self._file_digests: dict[
            str, bytes
        ] = {}  # digests of source files, as they were when this process imported them

    def run(self, ref: FunctionRef, missing: tuple[str, ...]) -> None:
        """Import the module, report that, and run calls until the process is ended."""
        threading.Thread(target=self._receive_messages, name="toolhall-worker", daemon=True).start()
        try:
            load_module(ref)
            self._file_digests[ref.file] = file_sha256(ref.file)
        except BaseException:  # noqa: BLE001 - a module may raise anything while it is imported
            self._channel.send(ImportFailure(traceback.format_exc()))
            return
        install_log_redaction()
        self._channel.send(WorkerReady(missing))
        with asyncio.Runner() as runner:
            self._idle.set()
            while (call := self._calls.get()) is not None:
                self._idle.clear()
                allow_cpu_seconds(call.cpu_seconds)
                redaction = start_redaction(_redactor_for(call))  # its log records end up in the hall's log
                self._send_final(self._run_call(call, runner))
                stop_redaction(redaction)
                self._pending.clear()
                self._idle.set()
            allow_cpu_seconds(math.ceil(LEAVE_SECONDS))
            for lifespans in reversed(self._lifespans.values()):
                runner.run(lifespans.leave())
        kill_process_group()

    def _receive_messages(self) -> None:
        try:
            while (message := receive_message(self._socket)) is not None:
                if isinstance(message, RunCall):
                    self._calls.put(message)
                elif isinstance(message, QuestionReply) and (reply := self._pending.pop(message.number, None)):
                    reply.get_loop().call_soon_threadsafe(reply.set_result, message)
            if self._lifespans and self._idle.is_set():
                self._calls.put(None)
                time.sleep(LEAVE_SECONDS)  # the main thread ends the process before that, unless a toolkit hangs
        finally:
            kill_process_group()

    def _run_call(self, call: RunCall, runner: asyncio.Runner) -> FinalMessage:
        try:
            definition = self._load_definition(call, runner)
            body = definition.completions[call.complete] if call.complete else definition.body
            context = (self._context(call),) if body.takes_context else ()
            bound = body.bind(call.arguments)
            value = body.function(*context, **bound)
            if body.is_async:
                value = runner.run(value, context=copy_context())  # the runner's own context is older than this call
        except InputRequiredSignal:
            return InputRequiredReport()
        except ToolhallError as error:
            return encode_error(error)
        except BaseException as error:  # noqa: BLE001 - it fails this call only
            return _exception_report(error)
        return self._encode_result(value, "tool" if call.complete else definition.tool.kind)

    def _context(self, call: RunCall) -> Context:
        link, credentials = WorkerLink(self._channel, call, self._pending), credentials_from_payload(call.supply)
        return Context(link, call.caller, call.tool, equipment=credentials, outside=LazyEgressClient(call.allow))

    def _encode_result(self, value: object, kind: Kind) -> FinalMessage:
        try:
            return encode_result(value, kind)
        except MemoryError as error:
            return _exception_report(error)
        except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError):
            return UnserializableResult(traceback.format_exc())

    def _send_final(self, message: FinalMessage) -> None:
        try:
            frame = encode_frame(message)
        except Exception:  # noqa: BLE001 - metadata or error details that JSON cannot express
            frame = encode_frame(UnserializableResult(traceback.format_exc()))
        self._channel.send_frame(frame)

    def _load_definition(self, call: RunCall, runner: asyncio.Runner) -> Definition:
        """The definition of the function to call; raises Unavailable if its code is not what was registered.

        The digest is compared once in this process, before the toolkit is entered and before the function's first call.
        """
        ref = call.address
        if ref not in self._definitions:
            definition = next(definitions_of(load_function(ref, self._instances)))
            if call.code_sha256 not in ("", code_sha256(definition.body.function, self._file_digests)):
                raise Unavailable(_CODE_CHANGED, detail=f"{ref.file} is not what the hall registered {call.tool} from")
            if definition.lifespan is not None and id(definition.lifespan) not in self._lifespans:
                self._enter_toolkit(definition.tool.id.toolkit, definition.lifespan, runner)
            self._definitions[ref] = definition
        return self._definitions[ref]

    def _enter_toolkit(self, name: str, context: AbstractAsyncContextManager[Any], runner: asyncio.Runner) -> None:
        """Enter a toolkit's lifespan; LifespanFailed fails this call and is logged, and the next call tries again."""
        lifespans = Lifespans()
        lifespans.add(f"toolkit '{name}'", lambda: context)
        runner.run(lifespans.enter())
        self._lifespans[id(context)] = lifespans


class WorkerChannel:
    """Sends messages to the hall; safe to use from any thread of the tool."""

    def __init__(self, sock: socket.socket, max_bytes: int) -> None:
        self._socket = sock
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def send(self, message: WorkerMessage) -> None:
        """Send a message; raises where JSON cannot express it."""
        self.send_frame(encode_frame(message))

    def send_frame(self, message: bytes) -> None:
        """Send a frame; one that is too large is replaced by OversizedResult."""
        if len(message) > self._max_bytes:
            message = encode_frame(OversizedResult(len(message)))
        with self._lock:
            self._socket.sendall(message)


class WorkerLink:
    """The client link inside a worker: the hall relays events and questions to the client."""

    def __init__(
        self, channel: WorkerChannel, call: RunCall, pending: "dict[int, asyncio.Future[QuestionReply]]"
    ) -> None:
        self._channel = channel
        self._features = call.can
        self._pending = pending
        self._last_number = 0
        self.task_id = call.task_id

    @property
    def memory(self) -> "WorkerLink":
        """The memory of the call, which the hall has."""
        return self

    async def recall(self, key: str) -> bytes | None:
        """Have the hall look up a result of `ctx.once`."""
        return (await self._request({}, None, once=key)).found

    async def remember(self, key: str, value: bytes) -> None:
        """Have the hall remember a result of `ctx.once`."""
        await self._request({}, None, once=key, result=value)

    def emit(self, event: CallEvent) -> None:
        """Send an event to the hall."""
        match event:
            case LogEvent(level, data, logger):
                self._channel.send(EventReport(level=level, data=data, logger=logger))
            case ProgressEvent(done, total, message):
                self._channel.send(EventReport(done, total, message))
            case ResourceChanged(uri):
                self._channel.send(EventReport(changed=uri))

    def can(self, feature: str) -> bool:
        """Whether the client declared this feature."""
        return feature in self._features

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Have the hall ask these questions; returns the answers."""
        return from_typed_values((await self._request(to_typed_values(questions), None)).replies)

    async def detach(self, retry_ms: int) -> None:
        """Have the hall close the response stream until the client resumes it."""
        await self._request({}, retry_ms)

    async def _request(
        self, asked: dict[str, Any], retry_ms: int | None, *, once: str | None = None, result: bytes | None = None
    ) -> QuestionReply:
        self._last_number += 1
        reply: asyncio.Future[QuestionReply] = asyncio.get_running_loop().create_future()
        self._pending[self._last_number] = reply
        self._channel.send(QuestionRequest(self._last_number, asked, retry_ms, once, result))
        outcome = await reply
        if outcome.error is not None:
            raise decode_error(outcome.error)
        if outcome.later:
            raise InputRequiredSignal({})
        return outcome


def _redactor_for(call: RunCall) -> Redactor | None:
    credentials = credentials_from_payload(call.supply)
    return None if credentials is None else redactor_for(None, credentials.secret_values)


def _exception_report(error: BaseException) -> ExceptionReport:
    number = error.errno if isinstance(error, OSError) else None
    memory = isinstance(error, MemoryError) or number == errno.ENOMEM
    lines = traceback.format_exception(type(error), error, author_traceback(error), limit=_TRACEBACK_LIMIT)
    return ExceptionReport("".join(lines), memory, memory or number in _UNRECOVERABLE_ERRNOS)


def receive_message(sock: socket.socket) -> StartWorker | RunCall | QuestionReply | None:
    """The next message; None when the hall is gone."""
    head = _receive_exactly(sock, FRAME_HEADER_BYTES)
    body = None if head is None else _receive_exactly(sock, frame_length(head))
    return None if body is None else decode_hall_message(body)


def _receive_exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def supervise(hall_pid: int, socket_fd: int) -> socket.socket:
    """Fork, and return in the worker only; the parent becomes the supervisor and never returns.

    The supervisor closes `socket_fd` and the output. Over the returned socket the worker may send the listener of its
    seccomp filter; the supervisor then decides about the worker's signals (`seccomp.supervise_signals`).
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_SIGNALS | _BLOCKED_SIGNALS)
    supervisor = os.getpid()
    channel, supervisor_end = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        supervisor_end.close()
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        signal.signal(signal.SIGTERM, _ignore_signal)  # not SIG_IGN, which programs that it starts would inherit
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_SIGNALS | _BLOCKED_SIGNALS)
        return channel
    try:
        prctl(_PR_SET_PDEATHSIG, _PARENT_DEATH_SIGNAL)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        channel.close()
        _close_descriptors(socket_fd)
        threading.Thread(target=supervise_signals, args=(supervisor_end,), daemon=True).start()
        status = _wait_for_worker(worker, hall_pid)
        kill_descendants()
        exit_like(status)
    finally:
        os._exit(1)


def _wait_for_worker(worker: int, hall_pid: int) -> int:
    """Wait for the worker, and kill it when the hall asks for that or is gone; returns its wait status."""
    must_kill = os.getppid() != hall_pid
    while True:
        if must_kill:
            os.kill(worker, signal.SIGKILL)
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == worker:
                return status
            if pid == 0:
                break
        number = signal.sigwait(_WAITED_SIGNALS)
        must_kill = must_kill or number == KILL_WORKER_SIGNAL or os.getppid() != hall_pid


def _close_descriptors(socket_fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    os.close(socket_fd)


def _ignore_signal(*_: object) -> None:
    """Handle a signal by doing nothing."""
