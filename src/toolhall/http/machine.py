"""Machine Context Protocol: `MachineHandler` answers messages, `MachineHttp` serves `/machine` and `/machine/tools`."""

import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

from toolhall.auth.authenticator import AuthenticationFailed, AuthResult, MessageAuthenticator, resolve_caller
from toolhall.dialects import strict_json
from toolhall.dialects.machine import catalog, messages
from toolhall.http.authentication import UnauthenticatedAudit, call_for_path
from toolhall.http.call_context import (
    NO_INTERACTION,
    CallKey,
    CancellableCall,
    CancellableCalls,
    impersonate,
    respond,
    with_hook,
)
from toolhall.http.dialect_definitions import DialectDefinitions
from toolhall.http.errors import MessageIds, busy_error, with_invalid_token
from toolhall.http.repeatable_calls import RepeatableCalls
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.http.request_slots import NoSlot
from toolhall.model.caller import Caller
from toolhall.model.errors import Cancelled, Denied, Malformed, NotFound, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Answer, CallTool, CompletedCall, WireResponse
from toolhall.model.tool import Tool
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.service import RegistrationService

if sys.platform != "win32":
    import resource
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_ACCEPTED = WireResponse(b"", 202)
CPU_RESOLUTION = 0.001  # seconds


class UsageMeter:
    """Measures what an execution uses; the memory is the peak of the process, since calls have no memory of their own.

    The CPU time is that of the event loop's thread. It is never more than the elapsed time, and at most CPU_RESOLUTION
    too much: to read it is a system call, which would cost a quick call more than its tool.
    """

    def __init__(self, timer: Callable[[], float], cpu_timer: Callable[[], float]) -> None:
        self._timer = timer
        self._cpu_timer = cpu_timer
        self._next_cpu = self._next_memory = 0.0
        self._cpu = 0.0
        self._memory_bytes = 0

    def start(self) -> tuple[float, float]:
        """Return the time, and the CPU time as it was at most CPU_RESOLUTION before."""
        now = self._timer()
        if now >= self._next_cpu:
            self._next_cpu = now + CPU_RESOLUTION
            self._cpu = self._cpu_timer()
        return now, self._cpu

    def usage(self, started: tuple[float, float]) -> messages.ExecutionUsage:
        """Return what was used since `start`; no memory on platforms that do not report it."""
        now = self._timer()
        seconds = cpu_seconds = now - started[0]
        if seconds > CPU_RESOLUTION:
            cpu_seconds = min(seconds, max(0.0, self._cpu_timer() - started[1]))  # 0: of another thread
        if now >= self._next_memory:
            self._next_memory = now + 1
            if sys.platform != "win32":
                self._memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        return messages.ExecutionUsage(seconds, cpu_seconds, self._memory_bytes)


class MachineHandler:
    """Answers Machine Context messages from HTTP or stdio."""

    def __init__(self, dispatcher: Dispatcher, registration: RegistrationService) -> None:
        self._dispatcher = dispatcher
        self._definitions = DialectDefinitions(dispatcher, registration, catalog)
        self._running_calls = CancellableCalls()
        self._long_calls = RepeatableCalls(dispatcher, catalog.name)
        self._meter = UsageMeter(time.perf_counter, time.thread_time)
        self.unauthenticated_audit = UnauthenticatedAudit(dispatcher, time.monotonic)
        self.new_stamp = MessageIds(time.time).new

    async def answer(
        self,
        body: bytes | None,
        caller: Caller,
        connection: str = "",
        authenticate: Callable[[str | None], AuthResult] | None = None,
        on_suspend: Callable[[], None] | None = None,
    ) -> WireResponse:
        """Return the response to a message (None: too large), empty for one-way messages.

        `connection` names the stream that many messages share; `authenticate` finds the caller of the message's token.
        `on_suspend` is called when the message first has to wait; it may be called again.
        """
        size = len(body or b"")
        try:
            message = messages.read_message(body)
        except messages.MachineDecodeError as unreadable:
            # HTTP always gets a response; on stdio, a one-way message gets none.
            if connection and unreadable.header.is_one_way:
                return _ACCEPTED
            return messages.write_error(unreadable.header, unreadable.error, self.new_stamp())
        if authenticate is not None:
            try:
                sender = authenticate(message.token)
                caller = sender if isinstance(sender, Caller) else await with_hook(sender, on_suspend)
            except AuthenticationFailed as failure:
                self.unauthenticated_audit.record(_audited_call(message.payload, size), caller, failure.error)
                wire = messages.write_error(message.header, failure.error, self.new_stamp())
                return with_invalid_token(wire) if failure.credential_sent else wire
            except NoSlot:
                return messages.write_error(message.header, busy_error(), self.new_stamp())
        payload = message.payload
        if isinstance(payload, messages.ExecuteRequest):
            keys = _cancel_keys(message.id, payload, caller, connection)
            running = CancellableCall(self._running_calls, keys, on_suspend)
            return await self._execute(message, payload, caller, size, running)
        return await with_hook(self._answer(message.header, payload, caller, connection, size), on_suspend)

    async def _execute(
        self,
        message: messages.MachineMessage,
        execute: messages.ExecuteRequest,
        sender: Caller,
        size: int,
        running: CancellableCall,
    ) -> WireResponse:
        header = message.header
        started = self._meter.start()
        answer: Answer
        try:
            caller = impersonate(sender, execute.user_id)
        except (Denied, Malformed) as error:
            answer = self._dispatcher.refuse(_named_call(execute, size), sender, error)
        else:
            call, tool = self._resolve_call(execute, caller, size)
            if tool is None or tool.task is None:
                work = self._dispatcher.answer(call, caller, NO_INTERACTION, running.start)
            else:
                work = self._long_calls.answer(message.id, call, caller, running.start)
            try:
                answer = await running.run(work)
            except Cancelled as cancelled:
                answer = cancelled
                await self._long_calls.cancel(message.id, caller)
            if tool is None and type(answer) is NotFound:
                answer = NotFound(f"{answer.message}; list the tools with payload.discover")
        usage = self._meter.usage(started)
        if isinstance(answer, CompletedCall):
            return messages.write_execution(header, execute, answer, self.new_stamp(), usage)
        if isinstance(answer, ToolhallError):
            return messages.write_failure(header, execute, answer, self.new_stamp(), usage)
        raise TypeError("this dialect has no way to ask a caller back")

    async def _answer(
        self,
        header: messages.MachineHeader,
        payload: messages.OtherPayload,
        caller: Caller,
        connection: str,
        size: int,
    ) -> WireResponse:
        """Answer an authenticated message that runs nothing."""
        if isinstance(payload, messages.CancelNotification):
            self._running_calls.cancel((caller.id, connection, payload.request_id))
            await self._long_calls.cancel(payload.request_id, caller)
            return _ACCEPTED
        if isinstance(payload, messages.MalformedExecution):
            refused = self._dispatcher.refuse(_audited_call(payload, size), caller, payload.error)
            return messages.write_error(header, refused, self.new_stamp())
        return await self._manage(header, payload, caller)

    async def _manage(
        self,
        header: messages.MachineHeader,
        payload: messages.DiscoverRequest | messages.RegisterRequest,
        caller: Caller,
    ) -> WireResponse:
        try:
            if isinstance(payload, messages.DiscoverRequest):
                return messages.write_response(header, self.page(caller, payload.cursor), self.new_stamp())
            registered = await self.register(payload.definition, caller)
            return messages.write_response(header, {"registered": registered}, self.new_stamp())
        except ToolhallError as error:
            return messages.write_error(header, error, self.new_stamp())

    def page(self, caller: Caller, cursor: str | None = None) -> JsonObject:
        """Return a page of definitions."""
        return self._definitions.page(caller, cursor)

    async def register(self, definition: Json, caller: Caller) -> JsonObject:
        """Register a definition, quarantined until an operator activates it."""
        record = await self._definitions.register(definition, caller)
        return {"id": record.toolkit, "version": record.version, "state": record.state}

    def _resolve_call(
        self, execute: messages.ExecuteRequest, caller: Caller, size: int
    ) -> tuple[CallTool, Tool | None]:
        """Return the call by tool id, and the tool; for one that the caller cannot see, by its name, and None."""
        dispatcher = self._dispatcher
        entry = dispatcher.registry.dialect_names.find(catalog.name, (execute.tool, execute.capability))
        if entry is None or not dispatcher.policy.can_see(caller, entry.tool):
            return _named_call(execute, size), None
        encoded = execute.encoded_parameters
        return CallTool(entry.id, execute.parameters, catalog.name, size, None, None, None, encoded), entry.tool


class MachineHttp:
    """Machine Context over HTTP: `POST /machine`, `GET` and `POST /machine/tools`."""

    def __init__(
        self,
        machine: MachineHandler,
        validator: RequestValidator,
        message_authenticator: MessageAuthenticator | None = None,
    ) -> None:
        self._machine = machine
        self._validator = validator
        self._message_authenticator = message_authenticator

    def message(self, request: HttpRequest) -> Awaitable[None]:
        """`POST /machine`."""
        return respond(request, self._validator, self._answer)

    def _answer(self, request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> Awaitable[WireResponse]:
        return self._machine.answer(body, request.caller, "", partial(self._authenticate, request), on_suspend)

    def _authenticate(self, request: HttpRequest, token: str | None) -> AuthResult:
        """Return the caller of a message, in the slots of its own; AuthenticationFailed, NoSlot."""
        caller = request.caller
        if self._message_authenticator is None:
            return caller
        sender = self._message_authenticator.authenticate_message(token, caller, request.scope, request.headers)
        return caller if sender is caller else _switch_caller(request, sender)

    async def tools(self, request: HttpRequest) -> None:
        """`GET /machine/tools`: a page of definitions."""
        cursor = request.parameters.get("cursor")
        try:
            wire = WireResponse(encode(self._machine.page(request.caller, cursor)))
        except ToolhallError as error:
            wire = messages.write_error(messages.UNKNOWN_HEADER, error, self._machine.new_stamp())
        await request.reply(wire)

    async def register(self, request: HttpRequest) -> None:
        """`POST /machine/tools`: one definition."""
        body = request.body or await self._validator.read_body(request.headers, request.receive)
        try:
            registered = await self._machine.register(strict_json.decode(body), request.caller)
            wire = WireResponse(encode({"registered": registered}), 201)
        except ToolhallError as error:
            wire = messages.write_error(messages.UNKNOWN_HEADER, error, self._machine.new_stamp())
        await request.reply(wire)


async def _switch_caller(request: HttpRequest, result: AuthResult) -> Caller:
    """Move a request from the anonymous slots to those of its sender."""
    sender = await resolve_caller(result)
    await request.switch_caller(sender)
    return sender


def _named_call(execute: messages.ExecuteRequest, size: int) -> CallTool:
    """Return the call by the name in the message."""
    return CallTool(f"{execute.tool}.{execute.capability}", execute.parameters, catalog.name, size)


def _audited_call(payload: object, size: int) -> CallTool:
    """Return the call of a message for its audit record."""
    if isinstance(payload, messages.MalformedExecution):
        return CallTool(payload.tool, {}, catalog.name, size)
    return _named_call(payload, size) if isinstance(payload, messages.ExecuteRequest) else call_for_path("/machine")


def _cancel_keys(
    message_id: str, execute: messages.ExecuteRequest, caller: Caller, connection: str
) -> tuple[CallKey, ...]:
    """Return the keys by which the call can be cancelled: the message id, and the request id of its context."""
    by_message = (caller.id, connection, message_id)
    request_id = execute.request_id
    return (by_message,) if request_id in (None, message_id) else (by_message, (caller.id, connection, request_id))
