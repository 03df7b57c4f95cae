"""`HttpApp`, the ASGI application: validates, authenticates, limits and routes requests to endpoints.

The order is the code of `HttpApp.__call__`: headers, caller, endpoint, slot, endpoint call. Lifespan events open
the hall; where the application is mounted and gets none, the first request opens it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from toolhall.auth.authenticator import (
    AsgiApp,
    AuthenticationFailed,
    Receive,
    RequestAuthenticator,
    Scope,
    Send,
    anonymous_caller,
    resolve_caller,
)
from toolhall.http.authentication import UnauthenticatedAudit, call_for_path
from toolhall.http.concurrency import ConcurrencyLimiter, NoSlot
from toolhall.http.errors import AuthChallenges, busy_response, error_response, with_invalid_token
from toolhall.http.request import SERVER_EXTENSION, HttpRequest, Methods, ServerExtension, defer_slot_until_body
from toolhall.http.request_guard import (
    RESOURCE_METADATA_PATH,
    MountedApps,
    RequestRejected,
    RequestValidator,
    strip_root_path,
)
from toolhall.http.websocket import HubWebSocket
from toolhall.model.caller import ANONYMOUS, Caller
from toolhall.model.errors import LifespanFailed, ToolhallError, Unavailable
from toolhall.model.messages import WireResponse
from toolhall.stores.common import StoreFailed
from toolhall.telemetry.spans import set_trace_context

RETRY_SECONDS = 1.0
_log = logging.getLogger("toolhall.http")


class HttpApp:
    """Mountable anywhere; the path below its mount decides, exactly as the server gives it.

    A server that speaks ASGI's lifespan opens the hall before its first request. An application that the hall is
    mounted in passes no such events on: there the first request opens it, unless the application did.
    """

    def __init__(
        self,
        validator: RequestValidator,
        authenticator: RequestAuthenticator,
        endpoints: Mapping[str, Methods],
        websockets: Mapping[str, HubWebSocket],
        startup: Callable[[], Awaitable[None]],
        challenges: AuthChallenges | None = None,
    ) -> None:
        self.limiter = ConcurrencyLimiter()  # how many requests are answered at once
        self.unauthenticated_audit: UnauthenticatedAudit | None = None  # records those who prove nobody
        self.on_shutdown: Callable[[], Awaitable[None]] | None = None  # finishes what goes on by itself
        self.on_mounted: Callable[[Scope], None] | None = None  # hears where the hall is mounted
        self.open_on_request = startup  # for a request that comes before the hall was opened
        self.opened = False
        self._opening: asyncio.Task[bool] | None = None
        self._failed_at = -RETRY_SECONDS
        self._mounted_apps: MountedApps | None = None
        self._validator = validator
        self._websockets = websockets
        self._startup = startup
        self._authenticator = authenticator
        self._challenges = challenges
        self.endpoints = endpoints
        self._prefixes = {path: methods for path, methods in endpoints.items() if path.endswith("/")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] != "http" or not self.opened or scope.get("root_path") or self._mounted_apps is not None:
            request = await self._handle_special(scope, receive, send)
            if request is None:
                return
            scope = request
        exchange, callers = HttpRequest(scope["method"], {}, ANONYMOUS, receive, send), self.limiter.callers
        exchange.limiter = self.limiter
        try:
            exchange.scope, exchange.challenges, exchange.authenticator = scope, self._challenges, self._authenticator
            headers = exchange.headers = self._validator.validate_headers(scope)
            if b"traceparent" in headers:
                set_trace_context(
                    headers[b"traceparent"].decode("latin-1"), headers.get(b"tracestate", b"").decode("latin-1")
                )
            caller = self._authenticator.authenticate(scope, headers)
            exchange.caller = caller if isinstance(caller, Caller) else await caller
            exchange.path, exchange.query = scope["path"], scope.get("query_string", b"")
            exchange.raw_path = scope.get("raw_path") or b""
            methods = self.endpoints.get(exchange.path) or self._prefix_methods(exchange)
            endpoint = methods.get(exchange.method)
            own: ServerExtension | None = scope.get(SERVER_EXTENSION)
            if (own is not None and not own.more_body) or not defer_slot_until_body(exchange):
                caller = exchange.caller
                if caller.proof != "none" and callers.try_acquire(caller.id):  # as most do
                    exchange.slot, exchange.slot_key = callers, caller.id
                else:
                    await exchange.acquire_slot()
            await (endpoint(exchange) if endpoint else _refuse_method(exchange, methods))
        except RequestRejected as turned:
            # The connection ends here: what is left of a refused body is not read as the next request.
            await exchange.refuse(turned.status, turned.message, (b"connection", b"close"))
        except AuthenticationFailed as unproven:
            await exchange.reply(self._auth_error(unproven, scope), (b"connection", b"close"))
        except NoSlot:
            await self._reject_busy(exchange)
        except OSError:
            _log.debug("the client went away")
        finally:
            exchange.release_slot()  # unless the slot was given away, and is given back elsewhere

    async def _handle_special(self, scope: Scope, receive: Receive, send: Send) -> Scope | None:
        """Serve what is no request to an open hall at the root of a server; such a request, if there is one in it."""
        if self._mounted_apps is not None and scope["type"] != "lifespan" and (found := self._mounted_apps.find(scope)):
            app, below = found
            await app(below, receive, send)
            return None
        if root := scope.get("root_path"):
            scope = self._strip_root(scope, root)
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
        elif self.opened or await self._open():
            return scope
        else:
            await HttpRequest(scope["method"], {}, ANONYMOUS, receive, send).reply(_unavailable_response(scope["path"]))
        return None

    def add_routes(self, routes: Mapping[str, AsgiApp]) -> None:
        """Serve these applications beside the endpoints; ValueError for a path that is taken."""
        self._mounted_apps = MountedApps(routes, (*self.endpoints, *self._websockets)) if routes else None

    def _prefix_methods(self, request: HttpRequest) -> Methods:
        """A path that ends with a slash serves everything below it."""
        for prefix, methods in self._prefixes.items():
            if request.path.startswith(prefix):
                return methods
        root = request.scope.get("root_path", "")
        raise RequestRejected(404, f"there is nothing here; try {', '.join(root + path for path in self.endpoints)}")

    def _strip_root(self, scope: Scope, root: str) -> Scope:
        local = strip_root_path(scope, root)
        if self.on_mounted is not None and RESOURCE_METADATA_PATH not in root:
            self.on_mounted(local)
        return local

    async def _open(self) -> bool:
        """Open the hall with a request; False if it cannot be opened, which is tried again a moment later."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.done() or self._opening.get_loop() is not loop:
            if loop.time() - self._failed_at < RETRY_SECONDS:
                return False
            self._opening = loop.create_task(self._open_and_log())
        return await asyncio.shield(self._opening)  # a client that goes away does not stop it

    async def _open_and_log(self) -> bool:
        try:
            await self.open_on_request()
        except (StoreFailed, ToolhallError, LifespanFailed) as error:
            self._failed_at = asyncio.get_running_loop().time()
            _log.error("the hall cannot be opened: %s", error)
            return False
        self.opened = True
        _log.warning(
            "a request opened the hall, because nothing else did: pass lifespan=hall.lifespan to the application that"
            " it is mounted in, so that it is opened before the first request and closed in order"
        )
        return True

    async def _reject_busy(self, request: HttpRequest) -> None:
        """There is no slot for this caller."""
        own: ServerExtension | None = request.scope.get(SERVER_EXTENSION)
        await request.reply(busy_response(request.path))
        if own is not None:
            own.pause_reading()

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if not self.opened and not await self._open():
            await send({"type": "websocket.close", "code": 1011})
            return
        try:
            headers = self._validator.validate_headers(scope)
            caller = await resolve_caller(self._authenticator.authenticate(scope, headers))
            again = partial(self._authenticator.authenticate, scope, headers)
            await self._websockets[scope["path"]].serve(caller, self.limiter, receive, send, again)
        except (RequestRejected, KeyError):
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted, this is a 403
        except AuthenticationFailed as unproven:
            await self._deny_websocket(unproven, scope, send)
        except OSError:
            _log.debug("the client went away")

    async def _deny_websocket(self, failure: AuthenticationFailed, scope: Scope, send: Send) -> None:
        """A WebSocket that is not accepted: as HTTP has it, where the server can say so."""
        wire = self._auth_error(failure, scope)
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        if self._challenges is not None:
            wire = self._challenges.with_metadata(wire, scope, dict(scope["headers"]))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(wire.body)), *wire.headers]
        await send({"type": "websocket.http.response.start", "status": wire.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": wire.body})

    def _auth_error(self, failure: AuthenticationFailed, scope: Scope) -> WireResponse:
        """What whoever is refused hears, once that is recorded."""
        if self.unauthenticated_audit is not None:
            self.unauthenticated_audit.record(call_for_path(scope["path"]), anonymous_caller(scope), failure.error)
        wire = error_response(scope["path"], failure.error)
        return with_invalid_token(wire) if failure.credential_sent else wire

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            try:
                await self._startup()
            except (StoreFailed, ToolhallError, LifespanFailed) as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            self.opened = True
            await send({"type": "lifespan.startup.complete"})
        if self.on_shutdown is not None:
            await self.on_shutdown()
        self.opened = False
        await send({"type": "lifespan.shutdown.complete"})


def _unavailable_response(path: str) -> WireResponse:
    said = error_response(path, Unavailable("this server could not be opened; its log says why"))
    return WireResponse(said.body, 503, said.headers)


async def _refuse_method(request: HttpRequest, methods: Methods) -> None:
    await request.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))
