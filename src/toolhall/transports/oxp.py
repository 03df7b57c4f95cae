"""OXP 1.0 over HTTP: health, tools, call."""

import hashlib
import time
from collections.abc import Callable
from functools import partial

import msgspec

from toolhall.dialects.catalogs import documents_of
from toolhall.dialects.oxp import catalog, messages
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound, ToolhallError
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.transports.acting import REFUSAL, acting
from toolhall.transports.asgi import Headers
from toolhall.transports.exchange import Exchange
from toolhall.transports.health import UNHEALTHY, sound
from toolhall.transports.plain_link import PLAIN
from toolhall.transports.presence import WhilePresent
from toolhall.transports.repeats import Repeats
from toolhall.transports.shield import Shield

_READY = Wire(b'{"status":"ok"}')
_NOT_READY = Wire(b'{"status":"unavailable"}', 503)


class OxpHttp:
    """The three operations of OXP; each call goes through the hall like any other."""

    def __init__(
        self, hall: Hall, shield: Shield, *, new_id: Callable[[], str], state: Callable[[], str] = sound
    ) -> None:
        self._hall = hall
        self._shield = shield
        self._new_id = new_id
        self._state = state
        self._repeats = Repeats(time.monotonic)

    async def health(self, exchange: Exchange) -> None:
        """200 while calls are taken."""
        await exchange.reply(_NOT_READY if self._state() == UNHEALTHY else _READY)

    async def tools(self, exchange: Exchange) -> None:
        """Every definition this caller may see."""
        try:
            if _has_body(exchange.headers):
                messages.check_list(await self._shield.body(exchange.headers, exchange.receive))
            wire = Wire(self._list(exchange.caller))
        except ToolhallError as error:
            wire = messages.write_error(None, error)
        await exchange.reply(wire)

    def _list(self, caller: Caller) -> bytes:
        view = self._hall.view(caller)
        body = view.encoded.get(catalog.name)
        if body is None:
            documents = documents_of(view.tools, catalog)
            body = view.encoded[catalog.name] = messages.write_list(documents)
        return body

    async def call(self, exchange: Exchange) -> None:
        """Run one tool."""
        body = await self._shield.body(exchange.headers, exchange.receive)
        try:
            request = messages.read_call(body)
            if request.call_id is None:
                wire = await WhilePresent(exchange, self._answer(request, exchange.caller, len(body)))
            else:
                # Whoever comes back with the same id wants this answer, so it does not end with the connection.
                key = (exchange.caller.id, request.call_id)
                work = partial(self._answer, request, exchange.caller, len(body))
                wire = await self._repeats.once(key, _digest(request), work)
        except ToolhallError as error:
            wire = messages.write_error(None, error)
        if wire is not None:
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

    async def _run(self, request: messages.CallRequest, sender: Caller, size: int) -> Answer:
        caller = acting(sender, request.user_id)
        if caller is None:
            call = CallTool(request.tool_id, request.input, catalog.name, size)
            return self._hall.refuse(call, sender, Malformed(REFUSAL))
        name = (request.toolkit, request.tool)
        entry = self._hall.registry.published.find(catalog.name, name, request.version)
        if entry is not None and self._hall.find(entry.id, caller):
            return await self._hall.answer(CallTool(entry.id, request.input, catalog.name, size), caller, PLAIN)
        answer = await self._hall.answer(CallTool(request.tool_id, request.input, catalog.name, size), caller, PLAIN)
        return NotFound(f"{answer.message}; GET /oxp/tools lists them") if type(answer) is NotFound else answer


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _digest(request: messages.CallRequest) -> bytes:
    """The same for the same call, however it is spaced and ordered; only its trace may be another."""
    asked = (request.tool_id, request.input, request.context)
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).digest()
