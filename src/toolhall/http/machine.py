"""Machine Context Protocol: `MachineHandler` answers messages, `MachineHttp` serves `/machine` and `/machine/tools`."""

import sys
import time
from collections.abc import Awaitable, Callable

from toolhall.auth.authenticator import AuthenticationFailed, AuthResult, MessageAuthenticator, resolve_caller
from toolhall.dialects import strict_json
from toolhall.dialects.machine import catalog, messages
from toolhall.http.authentication import UnauthenticatedAudit, call_for_path
from toolhall.http.call_context import NO_INTERACTION, impersonate
from toolhall.http.cancellation import CallKey, CancellableCalls, cancel_on_disconnect
from toolhall.http.concurrency import NoSlot
from toolhall.http.dialect_definitions import DialectDefinitions
from toolhall.http.errors import MessageIds, busy_error, with_invalid_token
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator
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
    """The most that the whole process has held; what one call takes in a shared process cannot be told."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._next = 0.0
        self._bytes = 0

    def peak_bytes(self) -> int:
        """Bytes, no more than a second old; 0 where the system does not say."""
        now = self._timer()
        if now >= self._next:
            self._next = now + 1
            if sys.platform != "win32":
                self._bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        return self._bytes


class MachineHandler:
    """Answers messages, whatever brings them: HTTP or lines."""

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
        """The one reply to a message (None: too large), empty where none is due; `line` is what many came on.

        `prove` tells who sends it, where that depends on the token inside.
        """
        size = len(body or b"")
        try:
            message = messages.read_message(body)
        except messages.MachineDecodeError as unreadable:
            # HTTP always replies; on a line, what is one-way gets nothing back.
            if connection and unreadable.header.is_one_way:
                return _ACCEPTED
            return messages.write_error(unreadable.header, unreadable.error, self.new_stamp())
        if authenticate is not None:
            try:
                caller = await resolve_caller(authenticate(message.token))
            except AuthenticationFailed as unproven:
                self.unauthenticated_audit.record(_audited_call(message.payload, size), caller, unproven.error)
                wire = messages.write_error(message.header, unproven.error, self.new_stamp())
                return with_invalid_token(wire) if unproven.credential_sent else wire
            except NoSlot:
                return messages.write_error(message.header, busy_error(), self.new_stamp())
        return await self._answer(message, caller, connection, size)

    async def _answer(
        self, message: messages.MachineMessage, caller: Caller, connection: str, size: int
    ) -> WireResponse:
        """The reply to whoever has been proven."""
        asked = message.payload
        if isinstance(asked, messages.ExecuteRequest):
            keys = _cancel_keys(message.id, asked, caller, connection)
            return await self._execute(message.header, asked, keys, self._run(asked, caller, size))
        if isinstance(asked, messages.CancelNotification):
            self._running_calls.cancel((caller.id, connection, asked.request_id))
            return _ACCEPTED
        if isinstance(asked, messages.MalformedExecution):
            refused = self._dispatcher.refuse(_audited_call(asked, size), caller, asked.error)
            return messages.write_error(message.header, refused, self.new_stamp())
        return await self._manage(message.header, asked, caller)

    async def _execute(
        self,
        header: messages.MachineHeader,
        execute: messages.ExecuteRequest,
        keys: tuple[CallKey, ...],
        work: Awaitable[Answer],
    ) -> WireResponse:
        started, cpu = time.perf_counter(), time.thread_time()
        try:
            answer = await self._running_calls.run(keys, work)
        except ToolhallError as error:
            answer = error
        taken, used = time.perf_counter() - started, time.thread_time() - cpu
        return self._execution_response(
            header, execute, answer, messages.ExecutionUsage(taken, used, self._memory.peak_bytes())
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
        """A page of definitions of what is served."""
        return self._definitions.page(caller, cursor)

    async def register(self, definition: Json, caller: Caller) -> JsonObject:
        """Validate a definition and keep it; somebody must look at it before it is active."""
        kept = await self._definitions.register(definition, caller)
        return {"id": kept.toolkit, "version": kept.version, "state": kept.state}

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
    """The three routes of Machine Context over HTTP."""

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
        caller, speakers = request.caller, self._message_authenticator

        async def prove(token: str | None) -> Caller:
            if speakers is None:
                return caller
            found = await resolve_caller(speakers.authenticate_message(token, caller, request.scope, request.headers))
            await request.switch_caller(found)  # a slot of strangers was good until here
            return found

        wire = await cancel_on_disconnect(request, self._machine.answer(body, caller, authenticate=prove))
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
    """As the message names it."""
    return CallTool(f"{execute.tool}.{execute.capability}", execute.parameters, catalog.name, size)


def _audited_call(payload: object, size: int) -> CallTool:
    """What a message wants, for its record."""
    if isinstance(payload, messages.MalformedExecution):
        return CallTool(payload.tool, {}, catalog.name, size)
    return _named_call(payload, size) if isinstance(payload, messages.ExecuteRequest) else call_for_path("/machine")


def _cancel_keys(
    message_id: str, execute: messages.ExecuteRequest, caller: Caller, connection: str
) -> tuple[CallKey, ...]:
    """What a cancellation may name: the message, or the request in its context."""
    named = (caller.id, connection, message_id)
    request_id = execute.request_id
    return (named,) if request_id in (None, message_id) else (named, (caller.id, connection, request_id))
