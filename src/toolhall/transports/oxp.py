"""OXP 1.0 over HTTP: health, tools, call."""

import hashlib
import time
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from toolhall.dialects.catalogs import documents_of
from toolhall.dialects.oxp import catalog, messages
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Malformed, NotFound, ToolhallError
from toolhall.model.exchange import Answer, CallTool, Finished, Wire
from toolhall.model.requirements import Brought
from toolhall.model.secret import Secret
from toolhall.runners.checkup import UNHEALTHY
from toolhall.transports.acting import acting
from toolhall.transports.asgi import Headers
from toolhall.transports.exchange import Exchange
from toolhall.transports.health import sound
from toolhall.transports.plain_link import PLAIN
from toolhall.transports.presence import WhilePresent
from toolhall.transports.repeats import Repeats, Reused
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
        wire: Wire | None
        try:
            request = messages.read_call(body)
            if request.call_id is None:
                wire = await WhilePresent(exchange, self._answer(request, exchange.caller, len(body)))
            else:
                # Whoever comes back with the same id wants this answer, so it does not end with the connection.
                wire = await self._once(request, exchange.caller, len(body))
        except messages.Unreadable as unreadable:
            call = CallTool(unreadable.tool_id, {}, catalog.name, len(body))
            wire = messages.write_error(None, self._hall.refuse(call, exchange.caller, unreadable.error))
        except ToolhallError as error:
            wire = messages.write_error(None, error)
        if wire is not None:
            await exchange.reply(wire)

    async def _once(self, request: messages.CallRequest, caller: Caller, size: int) -> Wire:
        """The answer under its id, for this caller with a credential that may do the same."""
        key = (caller.account, caller.scopes, request.call_id)
        work, again = partial(self._answer, request, caller, size), partial(self._again, request, caller, size)
        try:
            return await self._repeats.once(key, _digest(request), work, again)
        except Reused:
            call = CallTool(request.tool_id, request.input, catalog.name, size)
            error = Malformed("this call_id was used for another request; use a new one")
            return messages.write_error(request.call_id, self._hall.refuse(call, caller, error))

    async def _again(self, request: messages.CallRequest, sender: Caller, size: int) -> None:
        """A known answer is only for whoever would still get a new one, and is recorded like one."""
        try:
            caller = acting(sender, request.user_id)
        except (Denied, Malformed):
            caller = sender  # the known answer is that refusal
        error = await self._hall.repeat(self._called(request, caller, size), caller)
        if error is not None:
            raise _told(error)

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
        try:
            caller = acting(sender, request.user_id)
        except (Denied, Malformed) as error:
            call = CallTool(request.tool_id, request.input, catalog.name, size)
            refused = self._hall.refuse(call, sender, error)
            return Malformed(refused.message) if isinstance(refused, Denied) else refused  # 400: the context is wrong
        answer = await self._hall.answer(self._called(request, caller, size), caller, PLAIN)
        return _told(answer) if isinstance(answer, ToolhallError) else answer

    def _called(self, request: messages.CallRequest, caller: Caller, size: int) -> CallTool:
        """By the id of the tool that is meant; one that the caller does not see is called as it was named."""
        name = (request.toolkit, request.tool)
        entry = self._hall.registry.published.find(catalog.name, name, request.version)
        meant = entry.id if entry is not None and self._hall.find(entry.id, caller) else request.tool_id
        # OXP: a tool without requirements is called without extra information; what comes all the same is left aside.
        brought = request.brought if entry is None or entry.needs is not None else None
        return CallTool(meant, request.input, catalog.name, size, brought)


def _told(error: ToolhallError) -> ToolhallError:
    """The same, and where to look instead."""
    return NotFound(f"{error.message}; GET /oxp/tools lists them") if type(error) is NotFound else error


def _has_body(headers: Headers) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _digest(request: messages.CallRequest) -> bytes:
    """The same for the same call, however it is spaced and ordered; only its trace may be another."""
    brought = request.brought or Brought()
    credentials = (_digests(brought.secrets), _digests(brought.tokens))
    asked = (request.tool_id, request.input, request.context, credentials)
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).digest()


def _digests(secrets: Mapping[str, Secret]) -> dict[str, str]:
    return {name: hashlib.sha256(secret.reveal().encode()).hexdigest() for name, secret in secrets.items()}
