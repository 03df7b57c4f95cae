"""The worker process: imports one module, then runs its tools one call after the other, until the hall goes away."""

import asyncio
import errno
import io
import math
import os
import queue
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

from toolhall.authoring.code import code_sha256, file_sha256
from toolhall.authoring.context import Context
from toolhall.authoring.definition import Body, definitions_of
from toolhall.egress.outside import Outside
from toolhall.model.errors import ToolhallError, Unavailable
from toolhall.model.exchange import Asking, Event, Log
from toolhall.model.question import Answered, Question
from toolhall.runners.address import Address, load_function, load_module
from toolhall.runners.carried import all_tagged, all_untagged, done, own_frames, raised, told
from toolhall.runners.confine import allow_cpu, confine, end_group
from toolhall.runners.discretion import hush, keep_discreet, unhush
from toolhall.runners.inside import enter
from toolhall.runners.lifespan import LEAVE_SECONDS, Lifespans
from toolhall.runners.redactor import Redactor, redactor_for
from toolhall.runners.sandbox import enter_sandbox
from toolhall.runners.supervisor import supervise
from toolhall.runners.supply import equipment_from
from toolhall.runners.wire import (
    LENGTH_BYTES,
    End,
    Questions,
    Raised,
    Ready,
    Replied,
    Report,
    Said,
    Start,
    TooLarge,
    Unfit,
    Unwound,
    Unwritable,
    Work,
    frame,
    length_of,
    read_order,
)

_SPENT = {errno.EMFILE, errno.ENFILE, errno.EAGAIN}  # what a worker does not get over by itself
_CHANGED = "the tool's code changed since it was registered; restart the hall to serve it as it is now"
_SHOWN_FRAMES = -50  # the innermost: a deep recursion must not fill the log


class Line:
    """The way to the hall; a tool may write from any thread."""

    def __init__(self, end: socket.socket, most: int) -> None:
        self._end = end
        self._most = most
        self._turn = threading.Lock()

    def say(self, report: Report) -> None:
        """Send a message; what cannot be written raises here."""
        self.send(frame(report))

    def send(self, sent: bytes) -> None:
        """Send a frame; one that is too large is only named."""
        if len(sent) > self._most:
            sent = frame(TooLarge(len(sent)))
        with self._turn:
            self._end.sendall(sent)


class HallLink:
    """The caller, as seen from the worker: the hall passes everything on."""

    def __init__(self, line: Line, work: Work, pending: "dict[int, asyncio.Future[Replied]]") -> None:
        self._line = line
        self._can = work.can
        self._pending = pending
        self._number = 0

    def emit(self, event: Event) -> None:
        """Hand an event to the hall."""
        if isinstance(event, Log):
            self._line.say(Said(level=event.level, data=event.data, logger=event.logger))
        else:
            self._line.say(Said(event.done, event.total, event.message))

    def can(self, feature: str) -> bool:
        """As the hall said."""
        return feature in self._can

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Let the hall ask."""
        return all_untagged((await self._put(all_tagged(questions), None)).replies)

    async def detach(self, retry_ms: int) -> None:
        """Let the hall hang up."""
        await self._put({}, retry_ms)

    async def _put(self, asked: dict[str, Any], retry_ms: int | None) -> Replied:
        self._number += 1
        reply: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        self._pending[self._number] = reply
        self._line.say(Questions(self._number, asked, retry_ms))
        replied = await reply
        if replied.error is not None:
            raise raised(replied.error)
        if replied.later:
            raise Asking({})
        return replied


class Worker:
    """Runs what it is told, in its main thread; a second thread listens, and ends everything when the hall is gone."""

    def __init__(self, end: socket.socket, start: Start) -> None:
        self._end = end
        self._line = Line(end, start.limits.result_bytes)
        self._orders: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lifespans: dict[int, Lifespans] = {}  # of toolkits that were entered here, by their identity
        self._idle = threading.Event()
        self._pending: dict[int, asyncio.Future[Replied]] = {}
        self._made: dict[tuple[str, ...], Any] = {}
        self._bodies: dict[Address, Body] = {}
        self._files: dict[str, bytes] = {}  # digests of source files, as they were when this process imported them

    def run(self, address: Address, missing: tuple[str, ...]) -> None:
        """Import, say so, and work until the process is ended."""
        threading.Thread(target=self._listen, name="toolhall-worker", daemon=True).start()
        try:
            load_module(address)
            self._files[address.file] = file_sha256(address.file)
        except BaseException:  # noqa: BLE001 - a module may raise anything while it is imported
            self._line.say(Unfit(traceback.format_exc()))
            return
        keep_discreet()
        self._line.say(Ready(missing))
        with asyncio.Runner() as runner:
            self._idle.set()
            while (work := self._orders.get()) is not None:
                self._idle.clear()
                allow_cpu(work.cpu_seconds)
                hushed = hush(_redactor(work))  # what it logs comes to the hall's log
                self._finish(self._outcome(work, runner))
                unhush(hushed)
                self._pending.clear()
                self._idle.set()
            allow_cpu(math.ceil(LEAVE_SECONDS))
            for lifespans in reversed(self._lifespans.values()):
                runner.run(lifespans.leave())
        end_group()

    def _listen(self) -> None:
        try:
            while (order := receive(self._end)) is not None:
                if isinstance(order, Work):
                    self._orders.put(order)
                elif isinstance(order, Replied) and (reply := self._pending.pop(order.number, None)):
                    reply.get_loop().call_soon_threadsafe(reply.set_result, order)
            if self._lifespans and self._idle.is_set():
                self._orders.put(None)
                time.sleep(LEAVE_SECONDS)  # the main thread ends the process before that, unless a toolkit hangs
        finally:
            end_group()

    def _outcome(self, work: Work, runner: asyncio.Runner) -> End:
        try:
            body = self._body(work, runner)
            given = (self._context(work),) if body.takes_context else ()
            bound = body.bind(work.arguments)
            value = body.function(*given, **bound)
            if body.is_async:
                value = runner.run(value, context=copy_context())  # its own is older than this call
        except Asking:
            return Unwound()
        except ToolhallError as error:
            return told(error)
        except BaseException as error:  # noqa: BLE001 - it fails this call only
            return _raised(error)
        return self._written(value)

    def _context(self, work: Work) -> Context:
        link, equipment = HallLink(self._line, work, self._pending), equipment_from(work.supply)
        return Context(link, work.caller, work.tool, equipment=equipment, outside=Outside(work.allow))

    def _written(self, value: object) -> End:
        try:
            return done(value)
        except MemoryError as error:
            return _raised(error)
        except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError):
            return Unwritable(traceback.format_exc())

    def _finish(self, end: End) -> None:
        try:
            sent = frame(end)
        except Exception:  # noqa: BLE001 - notes or advice that JSON cannot say
            sent = frame(Unwritable(traceback.format_exc()))
        self._line.send(sent)

    def _body(self, work: Work, runner: asyncio.Runner) -> Body:
        """The function to call, if it is the one that was registered.

        It is compared once in this process, before its toolkit is entered and before the first call of any tool of it.
        """
        address = work.address
        if address not in self._bodies:
            definition = next(definitions_of(load_function(address, self._made)))
            if work.code_sha256 not in ("", code_sha256(definition.body.function, self._files)):
                raise Unavailable(_CHANGED, detail=f"{address.file} is not what the hall registered {work.tool} from")
            if definition.context is not None and id(definition.context) not in self._lifespans:
                self._enter(definition.tool.id.toolkit, definition.context, runner)
            self._bodies[address] = definition.body
        return self._bodies[address]

    def _enter(self, name: str, context: AbstractAsyncContextManager[Any], runner: asyncio.Runner) -> None:
        """Raises LifespanFailed, which fails the call and names the toolkit in the log; the next call tries again."""
        lifespans = Lifespans()
        lifespans.add(f"toolkit '{name}'", lambda: context)
        runner.run(lifespans.enter())
        self._lifespans[id(context)] = lifespans


def _redactor(work: Work) -> Redactor | None:
    equipment = equipment_from(work.supply)
    return None if equipment is None else redactor_for(None, equipment.hidden)


def _raised(error: BaseException) -> Raised:
    number = error.errno if isinstance(error, OSError) else None
    memory = isinstance(error, MemoryError) or number == errno.ENOMEM
    told = traceback.format_exception(type(error), error, own_frames(error), limit=_SHOWN_FRAMES)
    return Raised("".join(told), memory, memory or number in _SPENT)


def receive(end: socket.socket) -> Start | Work | Replied | None:
    """The next order; None when the hall is gone."""
    head = _exactly(end, LENGTH_BYTES)
    body = None if head is None else _exactly(end, length_of(head))
    return None if body is None else read_order(body)


def _exactly(end: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = end.recv(min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def main(descriptor: int) -> None:
    """Take orders from this socket, as `runners/child` starts it."""
    with socket.socket(fileno=descriptor) as end:
        end.set_inheritable(False)
        start = receive(end)
        if isinstance(start, Start):
            channel = supervise(start.parent, descriptor)
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(line_buffering=True)  # what it prints is not lost when it is killed
            sys.path[:] = start.path
            enter()
            confine(start.limits)
            with channel:
                missing = enter_sandbox(start.hidden, (start.parent, os.getppid()), channel=channel)
            Worker(end, start).run(start.address, missing)
