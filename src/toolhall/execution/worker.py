"""Entry point of a worker process (`main`): a supervisor, and below it the `Worker` that runs the calls of one module.

`main` forks. The parent is the supervisor: a subreaper, so that whatever below it loses its parent becomes its child,
wherever it has moved, and is killed when the worker is gone (a process with a session of its own is in no process group
that could be killed). The supervisor then exits as the worker did, so that the hall reads the worker's exit code from
it. It runs nothing of the tool; a tool cannot signal it, and the worker is killed with it if something else does.

The child is the worker: it limits and sandboxes itself, imports one module, then runs calls one after the other in its
main thread. A second thread receives messages, and kills everything when the hall is gone.
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
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from pathlib import Path
from typing import Any

import msgspec

from toolhall.authoring.code_digest import code_sha256, file_sha256
from toolhall.authoring.context import Context
from toolhall.authoring.definition import FunctionBody, definitions_of
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
from toolhall.model.messages import CallEvent, InputRequiredSignal, LogEvent
from toolhall.model.questions import Answered, Question
from toolhall.redaction.log_redaction import install_log_redaction, start_redaction, stop_redaction
from toolhall.redaction.redactor import Redactor, redactor_for

_PARENT_DEATH_SIGNAL = signal.SIGUSR2  # from the kernel: a thread of the hall has ended, or the hall itself
_WAITED_SIGNALS = {signal.SIGCHLD, KILL_WORKER_SIGNAL, _PARENT_DEATH_SIGNAL}
_BLOCKED_SIGNALS = {
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
}  # to a whole service; the hall decides when a worker ends
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_PROC = Path("/proc")


def supervise(hall_pid: int, socket_fd: int) -> socket.socket:
    """Fork, and return in the worker only; the parent waits for it, and holds neither `line` nor an output open.

    By the socket that is returned the worker may send a listener for its signals, which the parent then judges.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_SIGNALS | _BLOCKED_SIGNALS)
    supervisor = os.getpid()
    channel, judging = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        judging.close()
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        signal.signal(signal.SIGTERM, _ignore_signal)  # not SIG_IGN, which the programs that it starts would inherit
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAITED_SIGNALS | _BLOCKED_SIGNALS)
        return channel
    try:
        prctl(_PR_SET_PDEATHSIG, _PARENT_DEATH_SIGNAL)
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        channel.close()
        _close_descriptors(socket_fd)
        threading.Thread(target=supervise_signals, args=(judging,), daemon=True).start()
        status = _wait_for_worker(worker, hall_pid)
        _kill_descendants()
        _exit_like(status)
    finally:
        os._exit(1)


def _wait_for_worker(worker: int, hall_pid: int) -> int:
    """Wait for the worker's end, and bring it about when the hall says so or is gone; its wait status."""
    told = os.getppid() != hall_pid
    while True:
        if told:
            os.kill(worker, signal.SIGKILL)
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == worker:
                return status
            if pid == 0:
                break
        number = signal.sigwait(_WAITED_SIGNALS)
        told = told or number == KILL_WORKER_SIGNAL or os.getppid() != hall_pid


def _kill_descendants() -> None:
    """Kill what has become a child of this process until nothing is left; children of the killed come next."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)  # it is ours to wait for, so that nobody else can have its id
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    own = os.getpid()
    try:
        yield from map(int, (_PROC / f"{own}/task/{own}/children").read_text().split())
    except FileNotFoundError:  # a kernel without this list
        for each in _PROC.glob("[0-9]*/stat"):
            try:
                parent = each.read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == own:
                yield int(each.parent.name)


def _exit_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(os.getpid(), -code)


def _close_descriptors(socket_fd: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    os.close(socket_fd)


def _ignore_signal(*_: object) -> None:
    """Do nothing, and wake up who waits."""


_UNRECOVERABLE_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.EAGAIN}  # what a worker does not get over by itself
_CODE_CHANGED = "the tool's code changed since it was registered; restart the hall to serve it as it is now"
_TRACEBACK_LIMIT = -50  # the innermost: a deep recursion must not fill the log


class WorkerChannel:
    """The way to the hall; a tool may write from any thread."""

    def __init__(self, sock: socket.socket, max_bytes: int) -> None:
        self._socket = sock
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def send(self, message: WorkerMessage) -> None:
        """Send a message; what cannot be written raises here."""
        self.send_frame(encode_frame(message))

    def send_frame(self, message: bytes) -> None:
        """Send a frame; one that is too large is only named."""
        if len(message) > self._max_bytes:
            message = encode_frame(OversizedResult(len(message)))
        with self._lock:
            self._socket.sendall(message)


class WorkerLink:
    """The caller, as seen from the worker: the hall passes everything on."""

    def __init__(
        self, channel: WorkerChannel, call: RunCall, pending: "dict[int, asyncio.Future[QuestionReply]]"
    ) -> None:
        self._channel = channel
        self._features = call.can
        self._pending = pending
        self._last_number = 0

    def emit(self, event: CallEvent) -> None:
        """Hand an event to the hall."""
        if isinstance(event, LogEvent):
            self._channel.send(EventReport(level=event.level, data=event.data, logger=event.logger))
        else:
            self._channel.send(EventReport(event.done, event.total, event.message))

    def can(self, feature: str) -> bool:
        """As the hall said."""
        return feature in self._features

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Let the hall ask."""
        return from_typed_values((await self._request(to_typed_values(questions), None)).replies)

    async def detach(self, retry_ms: int) -> None:
        """Let the hall hang up."""
        await self._request({}, retry_ms)

    async def _request(self, asked: dict[str, Any], retry_ms: int | None) -> QuestionReply:
        self._last_number += 1
        reply: asyncio.Future[QuestionReply] = asyncio.get_running_loop().create_future()
        self._pending[self._last_number] = reply
        self._channel.send(QuestionRequest(self._last_number, asked, retry_ms))
        replied = await reply
        if replied.error is not None:
            raise decode_error(replied.error)
        if replied.later:
            raise InputRequiredSignal({})
        return replied


class Worker:
    """Runs what it is told, in its main thread; a second thread listens, and ends everything when the hall is gone."""

    def __init__(self, sock: socket.socket, start: StartWorker) -> None:
        self._socket = sock
        self._channel = WorkerChannel(sock, start.limits.result_bytes)
        self._calls: queue.SimpleQueue[RunCall | None] = queue.SimpleQueue()
        self._lifespans: dict[int, Lifespans] = {}  # of toolkits that were entered here, by their identity
        self._idle = threading.Event()
        self._pending: dict[int, asyncio.Future[QuestionReply]] = {}
        self._instances: dict[tuple[str, ...], Any] = {}
        self._bodies: dict[FunctionRef, FunctionBody] = {}
        self._file_digests: dict[
            str, bytes
        ] = {}  # digests of source files, as they were when this process imported them

    def run(self, ref: FunctionRef, missing: tuple[str, ...]) -> None:
        """Import, say so, and work until the process is ended."""
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
            while (work := self._calls.get()) is not None:
                self._idle.clear()
                allow_cpu_seconds(work.cpu_seconds)
                hushed = start_redaction(_redactor_for(work))  # what it logs comes to the hall's log
                self._send_final(self._run_call(work, runner))
                stop_redaction(hushed)
                self._pending.clear()
                self._idle.set()
            allow_cpu_seconds(math.ceil(LEAVE_SECONDS))
            for lifespans in reversed(self._lifespans.values()):
                runner.run(lifespans.leave())
        kill_process_group()

    def _receive_messages(self) -> None:
        try:
            while (order := receive_message(self._socket)) is not None:
                if isinstance(order, RunCall):
                    self._calls.put(order)
                elif isinstance(order, QuestionReply) and (reply := self._pending.pop(order.number, None)):
                    reply.get_loop().call_soon_threadsafe(reply.set_result, order)
            if self._lifespans and self._idle.is_set():
                self._calls.put(None)
                time.sleep(LEAVE_SECONDS)  # the main thread ends the process before that, unless a toolkit hangs
        finally:
            kill_process_group()

    def _run_call(self, call: RunCall, runner: asyncio.Runner) -> FinalMessage:
        try:
            body = self._load_body(call, runner)
            given = (self._context(call),) if body.takes_context else ()
            bound = body.bind(call.arguments)
            value = body.function(*given, **bound)
            if body.is_async:
                value = runner.run(value, context=copy_context())  # its own is older than this call
        except InputRequiredSignal:
            return InputRequiredReport()
        except ToolhallError as error:
            return encode_error(error)
        except BaseException as error:  # noqa: BLE001 - it fails this call only
            return _exception_report(error)
        return self._encode_result(value)

    def _context(self, call: RunCall) -> Context:
        link, equipment = WorkerLink(self._channel, call, self._pending), credentials_from_payload(call.supply)
        return Context(link, call.caller, call.tool, equipment=equipment, outside=LazyEgressClient(call.allow))

    def _encode_result(self, value: object) -> FinalMessage:
        try:
            return encode_result(value)
        except MemoryError as error:
            return _exception_report(error)
        except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError):
            return UnserializableResult(traceback.format_exc())

    def _send_final(self, message: FinalMessage) -> None:
        try:
            sent = encode_frame(message)
        except Exception:  # noqa: BLE001 - notes or advice that JSON cannot say
            sent = encode_frame(UnserializableResult(traceback.format_exc()))
        self._channel.send_frame(sent)

    def _load_body(self, call: RunCall, runner: asyncio.Runner) -> FunctionBody:
        """The function to call, if it is the one that was registered.

        It is compared once in this process, before its toolkit is entered and before the first call of any tool of it.
        """
        address = call.address
        if address not in self._bodies:
            definition = next(definitions_of(load_function(address, self._instances)))
            if call.code_sha256 not in ("", code_sha256(definition.body.function, self._file_digests)):
                raise Unavailable(
                    _CODE_CHANGED, detail=f"{address.file} is not what the hall registered {call.tool} from"
                )
            if definition.lifespan is not None and id(definition.lifespan) not in self._lifespans:
                self._enter_toolkit(definition.tool.id.toolkit, definition.lifespan, runner)
            self._bodies[address] = definition.body
        return self._bodies[address]

    def _enter_toolkit(self, name: str, context: AbstractAsyncContextManager[Any], runner: asyncio.Runner) -> None:
        """Raises LifespanFailed, which fails the call and names the toolkit in the log; the next call tries again."""
        lifespans = Lifespans()
        lifespans.add(f"toolkit '{name}'", lambda: context)
        runner.run(lifespans.enter())
        self._lifespans[id(context)] = lifespans


def _redactor_for(call: RunCall) -> Redactor | None:
    equipment = credentials_from_payload(call.supply)
    return None if equipment is None else redactor_for(None, equipment.secret_values)


def _exception_report(error: BaseException) -> ExceptionReport:
    number = error.errno if isinstance(error, OSError) else None
    memory = isinstance(error, MemoryError) or number == errno.ENOMEM
    told = traceback.format_exception(type(error), error, author_traceback(error), limit=_TRACEBACK_LIMIT)
    return ExceptionReport("".join(told), memory, memory or number in _UNRECOVERABLE_ERRNOS)


def receive_message(sock: socket.socket) -> StartWorker | RunCall | QuestionReply | None:
    """The next order; None when the hall is gone."""
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


def main(descriptor: int) -> None:
    """Take orders from this socket, as `runners/child` starts it."""
    with socket.socket(fileno=descriptor) as end:
        end.set_inheritable(False)
        start = receive_message(end)
        if isinstance(start, StartWorker):
            channel = supervise(start.parent, descriptor)
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(line_buffering=True)  # what it prints is not lost when it is killed
            sys.path[:] = start.path
            mark_as_worker()
            apply_resource_limits(start.limits)
            with channel:
                missing = enter_sandbox(start.hidden, (start.parent, os.getppid()), channel=channel)
            Worker(end, start).run(start.address, missing)
