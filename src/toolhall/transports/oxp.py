"""OXP 1.0 over HTTP: health, tools, call."""

import time
from collections.abc import Callable

from toolhall.dialects.catalogs import documents_of
from toolhall.dialects.oxp import catalog, messages
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.registry.index import Index
from toolhall.transports.exchange import Exchange
from toolhall.transports.repeats import Repeats
from toolhall.transports.shield import Shield

_READY = Wire(b'{"status":"ok"}')


class OxpHttp:
    """The three operations of OXP; each call goes through the hall like any other."""

    def __init__(self, hall: Hall, shield: Shield, *, new_id: Callable[[], str]) -> None:
        self._hall = hall
        self._shield = shield
        self._new_id = new_id
        self._repeats = Repeats(time.monotonic)
        self._index = Index(lambda tool: (catalog.part(tool.id.toolkit), catalog.part(tool.id.tool)))

    async def health(self, exchange: Exchange) -> None:
        """200 while calls are taken."""
        await exchange.reply(_READY)

    async def tools(self, exchange: Exchange) -> None:
        """Every definition this caller may see."""
        if exchange.method != "GET":
            await exchange.refuse(405, "use GET", (b"allow", b"GET"))
            return
        view = self._hall.view(exchange.caller)
        body = view.encoded.get(catalog.name)
        if body is None:
            documents = documents_of(view.tools, catalog)
            body = view.encoded[catalog.name] = messages.write_list(documents)
        await exchange.reply(Wire(body))

    async def call(self, exchange: Exchange) -> None:
        """Run one tool."""
        if exchange.method != "POST":
            await exchange.refuse(405, "use POST", (b"allow", b"POST"))
            return
        body = await self._shield.body(exchange.headers, exchange.receive)
        try:
            request = messages.read_call(body)
            if request.call_id is None:
                wire = await self._answer(request, exchange.caller, len(body))
            else:
                key = (exchange.caller.id, request.call_id)
                wire = await self._repeats.once(key, body, lambda: self._answer(request, exchange.caller, len(body)))
        except ToolhallError as error:
            wire = messages.write_error(None, error)
        await exchange.reply(wire)

    async def _answer(self, request: messages.CallRequest, caller: Caller, size: int) -> Wire:
        call_id = request.call_id or self._new_id()
        started = time.perf_counter()
        answer = await self._run(request, caller, size)
        duration_ms = (time.perf_counter() - started) * 1000
        if isinstance(answer, Finished):
            return messages.write_result(call_id, answer, duration_ms)
        if isinstance(answer, ToolhallError):
            return messages.write_error(call_id, answer, duration_ms)
        raise TypeError("OXP has no way to ask a caller back")

    async def _run(self, request: messages.CallRequest, caller: Caller, size: int) -> Answer:
        entry = self._index.find(self._hall.registry.snapshot, (request.toolkit, request.tool), request.version)
        name = entry.id if entry else request.tool_id
        return await self._hall.answer(CallTool(name, request.input, catalog.name, size), caller)
