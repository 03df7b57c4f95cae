"""Machine Context Protocol: messages on `POST /machine`, definitions under `/machine/tools`."""

import resource
import time
import uuid
from datetime import UTC, datetime

from toolhall.dialects import strict
from toolhall.dialects.catalogs import documents_of
from toolhall.dialects.machine import catalog, messages
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, ToolhallError, Unavailable
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.model.json import Json, JsonObject, encode
from toolhall.registry.index import Index
from toolhall.registry.registry import Conflict
from toolhall.registry.shelf import Shelf
from toolhall.transports.cancellation import Cancellation
from toolhall.transports.exchange import Exchange
from toolhall.transports.shield import Shield

PAGE = 100
_ACCEPTED = Wire(b"", 202)


class Machine:
    """Answers messages, whatever brings them: HTTP or lines."""

    def __init__(self, hall: Hall, shelf: Shelf) -> None:
        self._hall = hall
        self._shelf = shelf
        self._index = Index(lambda tool: (tool.id.toolkit, tool.id.tool))
        self._cancellation = Cancellation()

    async def answer(self, body: bytes, caller: Caller) -> Wire:
        """The one reply to a message; an empty one where none is due."""
        try:
            message = messages.read_message(body)
        except messages.Unreadable as unreadable:
            return messages.write_error(unreadable.header, unreadable.error, _stamp())
        header = message.header
        try:
            match message.payload:
                case messages.Execute() as execute:
                    return await self._execute(header, execute, caller, len(body))
                case messages.Discover(cursor):
                    return messages.write_response(header, self.page(caller, cursor), _stamp())
                case messages.Register(definition):
                    return messages.write_response(header, {"registered": self.register(definition)}, _stamp())
                case messages.Cancel(request_id):
                    self._cancellation.cancel((caller.id, request_id))
                    return _ACCEPTED
        except ToolhallError as error:
            return messages.write_error(header, error, _stamp())

    def page(self, caller: Caller, cursor: str | None = None) -> JsonObject:
        """A page of definitions: served toolkits, then those that are only registered."""
        documents = documents_of(self._hall.view(caller).tools, catalog) + self._shelf.documents
        start = int(cursor) if cursor and cursor.isdigit() else 0
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(documents) else {}
        return {"tools": documents[start : start + PAGE], **more}

    def register(self, definition: Json) -> JsonObject:
        """Validate a definition and keep it; it is not active until something runs it."""
        tools = catalog.read(definition)
        if any(entry.tool.id.toolkit == tools[0].id.toolkit for entry in self._hall.registry.snapshot.entries):
            raise Malformed(f"{tools[0].id.toolkit!r} is served already; register under another id")
        try:
            self._shelf.put(definition, tools)
        except Conflict as conflict:
            raise Malformed(str(conflict)) from None
        return {"id": tools[0].id.toolkit, "version": tools[0].id.version, "state": "registered"}

    async def _execute(self, header: messages.Header, execute: messages.Execute, caller: Caller, size: int) -> Wire:
        started, cpu = time.perf_counter(), time.thread_time()
        try:
            work = self._run(execute, caller, size)
            answer = await self._cancellation.run((caller.id, header.message_id), work)
        except ToolhallError as error:
            answer = error
        taken = (time.perf_counter() - started) * 1000
        usage = messages.Usage(taken, (time.thread_time() - cpu) * 1000, _memory())
        if isinstance(answer, Finished):
            return messages.write_execution(header, execute, answer, _stamp(), usage)
        if isinstance(answer, ToolhallError):
            return messages.write_failure(header, execute, answer, _stamp(), usage)
        raise TypeError("this dialect has no way to ask a caller back")

    async def _run(self, execute: messages.Execute, caller: Caller, size: int) -> Answer:
        entry = self._index.find(self._hall.registry.snapshot, (execute.tool, execute.capability))
        if entry is None and self._shelf.holds(execute.tool, execute.capability):
            return Unavailable("this tool is registered, but nothing runs it; it is not active")
        name = entry.id if entry else f"{execute.tool}.{execute.capability}"
        return await self._hall.answer(CallTool(name, execute.parameters, catalog.name, size), caller)


class MachineHttp:
    """The three routes of Machine Context over HTTP."""

    def __init__(self, machine: Machine, shield: Shield) -> None:
        self._machine = machine
        self._shield = shield

    async def message(self, exchange: Exchange) -> None:
        """`POST /machine`."""
        if exchange.method != "POST":
            await exchange.refuse(405, "use POST", (b"allow", b"POST"))
            return
        body = await self._shield.body(exchange.headers, exchange.receive)
        await exchange.reply(await self._machine.answer(body, exchange.caller))

    async def tools(self, exchange: Exchange) -> None:
        """`GET /machine/tools` lists definitions, `POST` registers one."""
        if exchange.method == "GET":
            cursor = exchange.parameters.get("cursor")
            await exchange.reply(Wire(encode(self._machine.page(exchange.caller, cursor))))
        elif exchange.method == "POST":
            body = await self._shield.body(exchange.headers, exchange.receive)
            await exchange.reply(self._register(body))
        else:
            await exchange.refuse(405, "use GET or POST", (b"allow", b"GET, POST"))

    def _register(self, body: bytes) -> Wire:
        try:
            return Wire(encode({"registered": self._machine.register(strict.decode(body))}), 201)
        except ToolhallError as error:
            return messages.write_error(None, error, _stamp())


def _stamp() -> messages.Stamp:
    return messages.Stamp(str(uuid.uuid4()), datetime.now(UTC).isoformat())


def _memory() -> int:
    """The most memory this process has held; what one call in a shared process takes cannot be told."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
