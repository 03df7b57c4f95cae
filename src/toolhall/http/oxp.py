"""OXP over HTTP (OxpEndpoint), with the cache of answers by `call_id` that makes retries safe (IdempotencyCache)."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial

import msgspec

from toolhall.dialects.catalogs import write_documents
from toolhall.dialects.oxp import catalog, messages
from toolhall.execution.health_checks import UNHEALTHY
from toolhall.http.call_context import NO_INTERACTION, impersonate, respond
from toolhall.http.health import always_healthy
from toolhall.http.repeatable_calls import RepeatableCalls
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestValidator, has_body
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Malformed, NotFound, ToolhallError, Unavailable
from toolhall.model.messages import Answer, CallTool, CompletedCall, WireResponse
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import Secret
from toolhall.pipeline.dispatcher import Dispatcher

MAX_KEPT = 10_000
MAX_KEPT_BYTES = 64 * 1024 * 1024
KEPT_SECONDS = 600.0
# The tool ran, or may have run. With any other status it did not, and the call may be retried under the same id.
_FINAL = (200, 500)
_READY = WireResponse(b'{"status":"ok"}')
_NOT_READY = WireResponse(b'{"status":"unavailable"}', 503)


class CallIdReused(Exception):
    """The call id was used for a different request."""


class _CachedResponse(msgspec.Struct, frozen=True):
    """The digest of a request, its response, and when it was given."""

    request: bytes
    wire: WireResponse
    since: float


class IdempotencyCache:
    """Responses by caller and call id, for ten minutes; the same id with a different request is refused."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: dict[Hashable, tuple[bytes, asyncio.Future[WireResponse]]] = {}
        self._finished: OrderedDict[Hashable, _CachedResponse] = OrderedDict()
        self._bytes = 0

    async def run_once(
        self,
        key: Hashable,
        request: bytes,
        answer: Callable[[], Awaitable[WireResponse]],
        authorize_repeat: Callable[[], Awaitable[None]],
    ) -> WireResponse:
        """Return the response of the first call with this key; a repeat waits for it. CallIdReused for another digest.

        `authorize_repeat` runs before each repeat, and raises if the caller may not have the response any more.
        """
        self._evict()
        if running := self._running.get(key):
            _check_same(running[0], request)
            await authorize_repeat()
            return await _wait_for_first(running[1])
        if cached := self._finished.get(key):
            _check_same(cached.request, request)
            await authorize_repeat()
            return cached.wire
        future: asyncio.Future[WireResponse] = asyncio.get_running_loop().create_future()
        self._running[key] = (request, future)
        try:
            wire = await answer()
        except BaseException:
            future.cancel()
            raise
        finally:
            del self._running[key]
        future.set_result(wire)
        if wire.status in _FINAL:
            self._finished[key] = _CachedResponse(request, wire, self._clock())
            self._bytes += len(wire.body)
        return wire

    def _evict(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while self._finished:
            first = next(iter(self._finished.values()))
            if first.since >= oldest and len(self._finished) < MAX_KEPT and self._bytes < MAX_KEPT_BYTES:
                return
            self._finished.popitem(last=False)
            self._bytes -= len(first.wire.body)


def _check_same(known: bytes, request: bytes) -> None:
    if known != request:
        raise CallIdReused


async def _wait_for_first(future: "asyncio.Future[WireResponse]") -> WireResponse:
    """Wait for the first call, which goes on if the waiting request is cancelled."""
    await asyncio.wait([future])
    if future.cancelled():
        raise Unavailable("the first call with this call_id was broken off; send it again")
    return future.result()


class OxpHttp:
    """The operations of OXP over HTTP: health, list and call."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        validator: RequestValidator,
        *,
        new_id: Callable[[], str],
        state: Callable[[], str] = always_healthy,
    ) -> None:
        self._dispatcher = dispatcher
        self._validator = validator
        self._new_id = new_id
        self._state = state
        self._idempotency = IdempotencyCache(time.monotonic)
        self._long_calls = RepeatableCalls(dispatcher, catalog.name)

    async def health(self, request: HttpRequest) -> None:
        """Send 200 while calls are accepted, else 503."""
        await request.reply(_NOT_READY if self._state() == UNHEALTHY else _READY)

    async def tools(self, request: HttpRequest) -> None:
        """Send every definition that the caller may see."""
        try:
            if has_body(request.headers):
                messages.check_list(await self._validator.read_body(request.headers, request.receive))
            wire = WireResponse(self._list(request.caller))
        except ToolhallError as error:
            wire = messages.write_error(None, error)
        await request.reply(wire)

    def _list(self, caller: Caller) -> bytes:
        view = self._dispatcher.visible_snapshot(caller)
        body = view.encoded.get(catalog.name)
        if body is None:
            documents = write_documents(view.tools, catalog)
            body = view.encoded[catalog.name] = messages.write_list(documents)
        return body

    def call(self, request: HttpRequest) -> Awaitable[None]:
        """Run one tool."""
        return respond(request, self._validator, self._answer)

    async def _answer(self, http_request: HttpRequest, body: bytes, on_suspend: Callable[[], None]) -> WireResponse:
        caller, size = http_request.caller, len(body)
        try:
            request = messages.read_call(body)
            if request.call_id is None:
                return await self._run(request, caller, size, on_suspend)
            if self._offers_task(request):  # its row is what a retry finds
                return await self._run(request, caller, size, on_suspend, long_call_id=request.call_id)
            # The client may retry with the same id to get this response, so a disconnect does not cancel the call.
            return await self._once(request, caller, size)
        except messages.OxpDecodeError as unreadable:
            call = CallTool(unreadable.tool_id, {}, catalog.name, size)
            return messages.write_error(None, self._dispatcher.refuse(call, caller, unreadable.error))
        except ToolhallError as error:
            return messages.write_error(None, error)

    async def _once(self, request: messages.OxpCallRequest, caller: Caller, size: int) -> WireResponse:
        """Run the call once per call id, caller and scopes."""
        key = (caller.rate_limit_key, caller.scopes, request.call_id)
        work, authorize_repeat = (
            partial(self._run, request, caller, size),
            partial(self._authorize_repeat, request, caller, size),
        )
        try:
            return await self._idempotency.run_once(key, _digest(request), work, authorize_repeat)
        except CallIdReused:
            call = CallTool(request.tool_id, request.input, catalog.name, size)
            error = Malformed("this call_id was used for another request; use a new one")
            return messages.write_error(request.call_id, self._dispatcher.refuse(call, caller, error))

    async def _authorize_repeat(self, request: messages.OxpCallRequest, sender: Caller, size: int) -> None:
        """Authorize and audit a repeat like a new call, so that a cached response needs the same permission."""
        try:
            caller = impersonate(sender, request.user_id)
        except (Denied, Malformed):
            caller = sender  # the cached response is that refusal
        error = await self._dispatcher.record_repeat(self._resolve_call(request, caller, size), caller)
        if error is not None:
            raise _with_hint(error)

    async def _run(
        self,
        request: messages.OxpCallRequest,
        sender: Caller,
        size: int,
        on_suspend: Callable[[], None] | None = None,
        *,
        long_call_id: str | None = None,
    ) -> WireResponse:
        call_id = request.call_id or self._new_id()
        started = time.perf_counter()
        answer: Answer
        try:
            caller = impersonate(sender, request.user_id)
        except (Denied, Malformed) as error:
            answer = self._refuse_context(request, sender, size, error)
        else:
            call = self._resolve_call(request, caller, size)
            if long_call_id is None:
                answer = await self._dispatcher.answer(call, caller, NO_INTERACTION, on_suspend)
            else:
                answer = await self._long_calls.answer(long_call_id, call, caller, on_suspend)
        duration_ms = (time.perf_counter() - started) * 1000
        if isinstance(answer, CompletedCall):
            return messages.write_result(call_id, answer, duration_ms)
        if isinstance(answer, ToolhallError):
            return messages.write_error(call_id, _with_hint(answer), duration_ms)
        raise TypeError("OXP has no way to ask a caller back")

    def _refuse_context(
        self, request: messages.OxpCallRequest, sender: Caller, size: int, error: Denied | Malformed
    ) -> ToolhallError:
        """Record a call whose context names a user that the sender may not act for; 400, since the context is wrong."""
        call = CallTool(request.tool_id, request.input, catalog.name, size)
        refused = self._dispatcher.refuse(call, sender, error)
        return Malformed(refused.message) if isinstance(refused, Denied) else refused

    def _offers_task(self, request: messages.OxpCallRequest) -> bool:
        names = self._dispatcher.registry.dialect_names
        entry = names.find(catalog.name, (request.toolkit, request.tool), request.version)
        return entry is not None and entry.tool.task is not None

    def _resolve_call(self, request: messages.OxpCallRequest, caller: Caller, size: int) -> CallTool:
        """Return the call by tool id; a tool that the caller cannot see keeps the name it was called by."""
        name = (request.toolkit, request.tool)
        entry = self._dispatcher.registry.dialect_names.find(catalog.name, name, request.version)
        is_known = entry is not None and self._dispatcher.policy.can_see(caller, entry.tool)
        tool_id = entry.id if entry is not None and is_known else request.tool_id
        # OXP: a tool without requirements gets no extra information; credentials that come anyway are ignored.
        credentials = request.credentials if entry is None or entry.requirements is not None else None
        encoded = request.encoded_input
        return CallTool(tool_id, request.input, catalog.name, size, credentials, None, None, encoded)


def _with_hint(error: ToolhallError) -> ToolhallError:
    """Add to a NotFound where the tools are listed."""
    return NotFound(f"{error.message}; GET /oxp/tools lists them") if type(error) is NotFound else error


def _digest(request: messages.OxpCallRequest) -> bytes:
    """Return a digest that is equal for equal calls, whatever their spacing and member order; the trace is ignored."""
    sent = request.credentials or CallerCredentials()
    credentials = (_digests(sent.secrets), _digests(sent.tokens))
    identity = (request.tool_id, request.input, request.context, credentials)
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).digest()


def _digests(secrets: Mapping[str, Secret]) -> dict[str, str]:
    return {name: hashlib.sha256(secret.reveal().encode()).hexdigest() for name, secret in secrets.items()}
