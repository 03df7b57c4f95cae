"""Machine Context Protocol: messages on `POST /machine`, definitions under `/machine/tools`."""

import time
from collections.abc import Awaitable, Callable

from toolhall.dialects import strict
from toolhall.dialects.machine import catalog, messages
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Malformed, NotFound, ToolhallError
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.model.json import Json, JsonObject, encode
from toolhall.registrar.registrar import Registrar
from toolhall.transports.acting import acting
from toolhall.transports.busy import no_place
from toolhall.transports.cancellation import Cancellation, Key
from toolhall.transports.challenges import said_invalid
from toolhall.transports.exchange import Exchange
from toolhall.transports.identity.base import Proven, Speakers, Unproven, proven
from toolhall.transports.memory import Memory
from toolhall.transports.overload import NoSlot
from toolhall.transports.plain_link import PLAIN
from toolhall.transports.presence import WhilePresent
from toolhall.transports.registering import Registering
from toolhall.transports.shield import Shield
from toolhall.transports.stamps import Stamps
from toolhall.transports.strangers import Strangers, asked_at

_ACCEPTED = Wire(b"", 202)


class Machine:
    """Answers messages, whatever brings them: HTTP or lines."""

    def __init__(self, hall: Hall, registrar: Registrar) -> None:
        self._hall = hall
        self._registering = Registering(hall, registrar, catalog)
        self._cancellation = Cancellation()
        self._memory = Memory(time.monotonic)
        self.strangers = Strangers(hall, time.monotonic)
        self.stamp = Stamps(time.time).new

    async def answer(
        self, body: bytes | None, caller: Caller, line: str = "", prove: Callable[[str | None], Proven] | None = None
    ) -> Wire:
        """The one reply to a message (None: too large), empty where none is due; `line` is what many came on.

        `prove` tells who sends it, where that depends on the token inside.
        """
        size = len(body or b"")
        try:
            message = messages.read_message(body)
        except messages.Unreadable as unreadable:
            # HTTP always replies; on a line, what is one-way gets nothing back.
            if line and unreadable.header.one_way:
                return _ACCEPTED
            return messages.write_error(unreadable.header, unreadable.error, self.stamp())
        if prove is not None:
            try:
                caller = await proven(prove(message.token))
            except Unproven as unproven:
                self.strangers.refused(_asked(message.payload, size), caller, unproven.error)
                wire = messages.write_error(message.header, unproven.error, self.stamp())
                return said_invalid(wire) if unproven.sent else wire
            except NoSlot:
                return messages.write_error(message.header, no_place(), self.stamp())
        return await self._answer(message, caller, line, size)

    async def _answer(self, message: messages.Message, caller: Caller, line: str, size: int) -> Wire:
        """The reply to whoever has been proven."""
        asked = message.payload
        if isinstance(asked, messages.Execute):
            keys = _keys(message.id, asked, caller, line)
            return await self._execute(message.header, asked, keys, self._run(asked, caller, size))
        if isinstance(asked, messages.Cancel):
            self._cancellation.cancel((caller.id, line, asked.request_id))
            return _ACCEPTED
        if isinstance(asked, messages.Misread):
            refused = self._hall.refuse(_asked(asked, size), caller, asked.error)
            return messages.write_error(message.header, refused, self.stamp())
        return await self._manage(message.header, asked, caller)

    async def _execute(
        self, header: messages.Header, execute: messages.Execute, keys: tuple[Key, ...], work: Awaitable[Answer]
    ) -> Wire:
        started, cpu = time.perf_counter(), time.thread_time()
        try:
            answer = await self._cancellation.run(keys, work)
        except ToolhallError as error:
            answer = error
        taken, used = time.perf_counter() - started, time.thread_time() - cpu
        return self._executed(header, execute, answer, messages.Usage(taken, used, self._memory.most()))

    def _executed(
        self, header: messages.Header, execute: messages.Execute, answer: Answer, usage: messages.Usage
    ) -> Wire:
        if isinstance(answer, Finished):
            return messages.write_execution(header, execute, answer, self.stamp(), usage)
        if isinstance(answer, ToolhallError):
            return messages.write_failure(header, execute, answer, self.stamp(), usage)
        raise TypeError("this dialect has no way to ask a caller back")

    async def _manage(
        self, header: messages.Header, asked: messages.Discover | messages.Register, caller: Caller
    ) -> Wire:
        try:
            if isinstance(asked, messages.Discover):
                return messages.write_response(header, self.page(caller, asked.cursor), self.stamp())
            registered = await self.register(asked.definition, caller)
            return messages.write_response(header, {"registered": registered}, self.stamp())
        except ToolhallError as error:
            return messages.write_error(header, error, self.stamp())

    def page(self, caller: Caller, cursor: str | None = None) -> JsonObject:
        """A page of definitions of what is served."""
        return self._registering.page(caller, cursor)

    async def register(self, definition: Json, caller: Caller) -> JsonObject:
        """Validate a definition and keep it; somebody must look at it before it is active."""
        kept = await self._registering.register(definition, caller)
        return {"id": kept.toolkit, "version": kept.version, "state": kept.state}

    async def _run(self, execute: messages.Execute, sender: Caller, size: int) -> Answer:
        try:
            caller = acting(sender, execute.user_id)
        except (Denied, Malformed) as error:
            return self._hall.refuse(_called(execute, size), sender, error)
        entry = self._hall.registry.published.find(catalog.name, (execute.tool, execute.capability))
        if entry is not None and self._hall.find(entry.id, caller):
            return await self._hall.answer(CallTool(entry.id, execute.parameters, catalog.name, size), caller, PLAIN)
        answer = await self._hall.answer(_called(execute, size), caller, PLAIN)
        if type(answer) is not NotFound:
            return answer
        return NotFound(f"{answer.message}; list the tools with payload.discover")


class MachineHttp:
    """The three routes of Machine Context over HTTP."""

    def __init__(self, machine: Machine, shield: Shield, speakers: Speakers | None = None) -> None:
        self._machine = machine
        self._shield = shield
        self._speakers = speakers

    async def message(self, exchange: Exchange) -> None:
        """`POST /machine`."""
        body = await self._shield.body(exchange.headers, exchange.receive)
        caller, speakers = exchange.caller, self._speakers

        async def prove(token: str | None) -> Caller:
            if speakers is None:
                return caller
            found = await proven(speakers.speaker(token, caller, exchange.scope, exchange.headers))
            await exchange.admit_as(found)  # a slot of strangers was good until here
            return found

        wire = await WhilePresent(exchange, self._machine.answer(body, caller, prove=prove))
        if wire is not None:
            await exchange.reply(wire)

    async def tools(self, exchange: Exchange) -> None:
        """`GET /machine/tools`: a page of definitions."""
        cursor = exchange.parameters.get("cursor")
        try:
            wire = Wire(encode(self._machine.page(exchange.caller, cursor)))
        except ToolhallError as error:
            wire = messages.write_error(messages.UNKNOWN, error, self._machine.stamp())
        await exchange.reply(wire)

    async def register(self, exchange: Exchange) -> None:
        """`POST /machine/tools`: one definition."""
        body = await self._shield.body(exchange.headers, exchange.receive)
        try:
            registered = await self._machine.register(strict.decode(body), exchange.caller)
            wire = Wire(encode({"registered": registered}), 201)
        except ToolhallError as error:
            wire = messages.write_error(messages.UNKNOWN, error, self._machine.stamp())
        await exchange.reply(wire)


def _called(execute: messages.Execute, size: int) -> CallTool:
    """As the message names it."""
    return CallTool(f"{execute.tool}.{execute.capability}", execute.parameters, catalog.name, size)


def _asked(payload: object, size: int) -> CallTool:
    """What a message wants, for its record."""
    if isinstance(payload, messages.Misread):
        return CallTool(payload.tool, {}, catalog.name, size)
    return _called(payload, size) if isinstance(payload, messages.Execute) else asked_at("/machine")


def _keys(message_id: str, execute: messages.Execute, caller: Caller, line: str) -> tuple[Key, ...]:
    """What a cancellation may name: the message, or the request in its context."""
    named = (caller.id, line, message_id)
    request_id = execute.request_id
    return (named,) if request_id in (None, message_id) else (named, (caller.id, line, request_id))
