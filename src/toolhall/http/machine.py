"""Machine Context Protocol: `MachineHandler` answers messages, `MachineHttp` serves `/machine` and `/machine/tools`."""

import sys
import time
from collections.abc import Awaitable, Callable

from toolhall.auth.authenticator import AuthenticationFailed, AuthResult, MessageAuthenticator, resolve_caller
from toolhall.dialects import strict_json
from toolhall.dialects.machine import catalog, messages
from toolhall.http.authentication import UnauthenticatedAudit, call_for_path
from toolhall.http.call_context import NO_INTERACTION, CallKey, CancellableCalls, cancel_on_disconnect, impersonate
from toolhall.http.dialect_definitions import DialectDefinitions
from toolhall.http.errors import MessageIds, busy_error, with_invalid_token
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
from toolhall.http.request_slots import NoSlot
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Malformed, NotFound, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Answer, CallTool, CompletedCall, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.service import RegistrationService

if sys.platform != "win32":
    import resource
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_ACCEPTED = WireResponse(b"", 202)


class MemoryGauge:
    """The peak memory of the process; the memory of one call in a shared process cannot be measured."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._next = 0.0
        self._bytes = 0

    def peak_bytes(self) -> int:
        """Return the peak in bytes, at most a second old; 0 on platforms that do not report it."""
        now = self._timer()
        if now >= self._next:
            self._next = now + 1
            if sys.platform != "win32":
                self._bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        return self._bytes


class MachineHandler:
    """Answers Machine Context messages from HTTP or stdio."""

    def __init__(self, dispatcher: Dispatcher, registration: RegistrationService) -> None:
        self._dispatcher = dispatcher
        self._definitions = DialectDefinitions(dispatcher, registration, catalog)
        self._running_calls = CancellableCalls()
        self._memory = MemoryGauge(time.monotonic)
        self.unauthenticated_audit = UnauthenticatedAudit(dispatcher, time.monotonic)
        self.new_stamp = MessageIds(time.time).new

    async def answer(
        self,
        body: bytes | None,
        caller: Caller,
        connection: str = "",
        authenticate: Callable[[str | None], AuthResult] | None = None,
    ) -> WireResponse:
        """Return the response to a message (None: too large), empty for one-way messages.

        `connection` names the stream that many messages share; `authenticate` finds the caller of the message's token.
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
                caller = await resolve_caller(authenticate(message.token))
            except AuthenticationFailed as failure:
                self.unauthenticated_audit.record(_audited_call(message.payload, size), caller, failure.error)
                wire = messages.write_error(message.header, failure.error, self.new_stamp())
                return with_invalid_token(wire) if failure.credential_sent else wire
            except NoSlot:
                return messages.write_error(message.header, busy_error(), self.new_stamp())
        return await self._answer(message, caller, connection, size)

    async def _answer(
        self, message: messages.MachineMessage, caller: Caller, connection: str, size: int
    ) -> WireResponse:
        """Answer an authenticated message."""
        payload = message.payload
        if isinstance(payload, messages.ExecuteRequest):
            keys = _cancel_keys(message.id, payload, caller, connection)
            return await self._execute(message.header, payload, keys, self._run(payload, caller, size))
        if isinstance(payload, messages.CancelNotification):
            self._running_calls.cancel((caller.id, connection, payload.request_id))
            return _ACCEPTED
        if isinstance(payload, messages.MalformedExecution):
            refused = self._dispatcher.refuse(_audited_call(payload, size), caller, payload.error)
            return messages.write_error(message.header, refused, self.new_stamp())
        return await self._manage(message.header, payload, caller)

    async def _execute(
        self,
        header: messages.MachineHeader,
        execute: messages.ExecuteRequest,
        keys: tuple[CallKey, ...],
        work: Awaitable[Answer],
    ) -> WireResponse:
        started, cpu_started = time.perf_counter(), time.thread_time()
        try:
            answer = await self._running_calls.run(keys, work)
        except ToolhallError as error:
            answer = error
        elapsed, cpu_seconds = time.perf_counter() - started, time.thread_time() - cpu_started
        return self._execution_response(
            header, execute, answer, messages.ExecutionUsage(elapsed, cpu_seconds, self._memory.peak_bytes())
        )

    def _execution_response(
        self,
        header: messages.MachineHeader,
        execute: messages.ExecuteRequest,
        answer: Answer,
        usage: messages.ExecutionUsage,
    ) -> WireResponse:
        if isinstance(answer, CompletedCall):
            return messages.write_execution(header, execute, answer, self.new_stamp(), usage)
        if isinstance(answer, ToolhallError):
            return messages.write_failure(header, execute, answer, self.new_stamp(), usage)
        raise TypeError("this dialect has no way to ask a caller back")

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

    async def _run(self, execute: messages.ExecuteRequest, sender: Caller, size: int) -> Answer:
        try:
            caller = impersonate(sender, execute.user_id)
        except (Denied, Malformed) as error:
            return self._dispatcher.refuse(_named_call(execute, size), sender, error)
        entry = self._dispatcher.registry.dialect_names.find(catalog.name, (execute.tool, execute.capability))
        if entry is not None and self._dispatcher.find(entry.id, caller):
            return await self._dispatcher.answer(
                CallTool(entry.id, execute.parameters, catalog.name, size), caller, NO_INTERACTION
            )
        answer = await self._dispatcher.answer(_named_call(execute, size), caller, NO_INTERACTION)
        if type(answer) is not NotFound:
            return answer
        return NotFound(f"{answer.message}; list the tools with payload.discover")


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

    async def message(self, request: HttpRequest) -> None:
        """`POST /machine`."""
        body = await self._validator.read_body(request.headers, request.receive)
        caller, authenticator = request.caller, self._message_authenticator

        async def authenticate(token: str | None) -> Caller:
            if authenticator is None:
                return caller
            sender = await resolve_caller(
                authenticator.authenticate_message(token, caller, request.scope, request.headers)
            )
            await request.switch_caller(sender)  # from the anonymous slots to its own
            return sender

        wire = await cancel_on_disconnect(request, self._machine.answer(body, caller, authenticate=authenticate))
        if wire is not None:
            await request.reply(wire)

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
        body = await self._validator.read_body(request.headers, request.receive)
        try:
            registered = await self._machine.register(strict_json.decode(body), request.caller)
            wire = WireResponse(encode({"registered": registered}), 201)
        except ToolhallError as error:
            wire = messages.write_error(messages.UNKNOWN_HEADER, error, self._machine.new_stamp())
        await request.reply(wire)


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
