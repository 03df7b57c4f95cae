"""`HttpApp`, the ASGI application: validates, authenticates, limits and routes requests to endpoints.

The order is the code of `HttpApp._serve`: headers, caller, endpoint, slot, endpoint call. Plain requests, whose headers
Toolhall's own server has had validated, are served by `HttpApp.serve` without ASGI. Lifespan events open
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
from toolhall.http.errors import AuthChallenges, busy_response, error_response, with_invalid_token
from toolhall.http.request import (
    SERVER_EXTENSION,
    Endpoint,
    HttpRequest,
    Methods,
    RequestHead,
    ServerExchange,
    defer_slot_until_body,
)
from toolhall.http.request_guard import (
    ENDPOINTS,
    RESOURCE_METADATA_PATH,
    MountedApps,
    RequestRejected,
    RequestValidator,
    strip_root_path,
)
from toolhall.http.request_slots import ConcurrencyLimiter, NoSlot
from toolhall.http.websocket import HubWebSocket
from toolhall.model.caller import ANONYMOUS, Caller
from toolhall.model.errors import LifespanFailed, ToolhallError, Unavailable
from toolhall.model.messages import WireResponse
from toolhall.stores.common import StoreFailed
from toolhall.telemetry import set_trace_context

RETRY_SECONDS = 1.0
_REFUSALS = (RequestRejected, AuthenticationFailed, NoSlot, OSError)  # OSError: the client went away
_log = logging.getLogger("toolhall.http")


class HttpApp:
    """The ASGI application; it can be mounted below any path of another application.

    A server that sends lifespan events opens the hall before its first request. An application that the hall is mounted
    in does not forward these events: there the first request opens the hall, unless the application did.
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
        self.limiter = ConcurrencyLimiter()  # of concurrent requests
        self.unauthenticated_audit: UnauthenticatedAudit | None = None  # of rejected requests
        self.on_shutdown: Callable[[], Awaitable[None]] | None = None  # ends background work
        self.on_mounted: Callable[[Scope], None] | None = None  # gets the scope of a mounted hall
        self.open_on_request = startup  # for the first request to a hall that is not open
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
        self._prefixes = {path: methods for path, methods in endpoints.items() if path.endswith("/") and path != "/"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http" or not self.opened or scope.get("root_path") or self._mounted_apps is not None:
            remaining = await self._handle_special(scope, receive, send)
            if remaining is None:
                return
            scope = remaining
        request = HttpRequest(scope, {}, ANONYMOUS, receive, send)
        request.extension = scope.get(SERVER_EXTENSION)
        await self._serve(request)

    def prepare(self, scope: Scope) -> RequestHead | None:
        """Return the head of a POST to a known path for use with further bodies; None if it cannot be reused.

        The order of checks is that of `_serve`: whoever is rejected here is rejected there, with the response.
        """
        if not self.opened or scope.get("root_path") or self._mounted_apps is not None:
            return None
        methods = self.endpoints.get(scope["path"]) or self._methods_below(scope["path"]) or {}
        if "POST" not in methods or any(name == b"traceparent" for name, _ in scope["headers"]):
            return None
        try:
            headers = self._validator.validate_headers(scope)
            self._validator.validate_body_headers(headers)
        except RequestRejected:
            return None
        return RequestHead(scope, headers, methods["POST"], self._authenticator, self._validator.max_body)

    async def serve(self, head: RequestHead, body: bytes, exchange: ServerExchange) -> None:
        """Serve a request whose head is known and whose body is complete; for Toolhall's own server.

        The steps are those of `_serve`, without what `prepare` has done.
        """
        if not self.opened or self._mounted_apps is not None:  # changed since the head became known
            await self({**head.scope, SERVER_EXTENSION: exchange}, exchange.receive, exchange.send)
            return
        request = HttpRequest(  # by position, which is faster than by keyword
            head.scope,
            head.headers,
            ANONYMOUS,
            exchange.receive,
            exchange.send,
            body,
            exchange,
            head,
            head.path,
            head.raw_path,
            head.query,
            self.limiter,
            self._challenges,
            self._authenticator,
        )
        callers = self.limiter.callers
        try:
            caller = head.local_caller
            if caller is None:
                result = head.authenticate()
                caller = result if isinstance(result, Caller) else await result
            request.caller = caller
            if caller.proof != "none" and callers.try_acquire(caller.id):  # the common case
                request.slot, request.slot_key = callers, caller.id
            else:
                await request.acquire_slot()
            await head.endpoint(request)
        except _REFUSALS as refusal:
            await self._refuse(request, refusal)
        finally:
            if request.slot is not None:  # it was neither released with the reply nor detached
                request.release_slot()

    async def _serve(self, request: HttpRequest) -> None:
        request.limiter, request.challenges, request.authenticator = self.limiter, self._challenges, self._authenticator
        try:
            self._read_head(request)
            request.caller = await resolve_caller(self._authenticator.authenticate(request.scope, request.headers))
            endpoint = self._endpoint(request)
            if _is_body_complete(request) or not defer_slot_until_body(request):
                await request.acquire_slot()
            await endpoint(request)
        except _REFUSALS as refusal:
            await self._refuse(request, refusal)
        finally:
            request.release_slot()

    async def _refuse(self, request: HttpRequest, refusal: Exception) -> None:
        """Send the response to a request that was refused with one of _REFUSALS."""
        match refusal:
            case RequestRejected():
                # Close the connection: the rest of a rejected body must not be read as the next request.
                await request.refuse(refusal.status, refusal.message, (b"connection", b"close"))
            case AuthenticationFailed():
                await request.reply(self._auth_error(refusal, request.scope), (b"connection", b"close"))
            case NoSlot():
                await self._reject_busy(request)
            case _:
                _log.debug("the client went away")

    def _read_head(self, request: HttpRequest) -> None:
        scope = request.scope
        headers = request.headers = self._validator.validate_headers(scope)
        if b"traceparent" in headers:
            set_trace_context(
                headers[b"traceparent"].decode("latin-1"), headers.get(b"tracestate", b"").decode("latin-1")
            )
        request.path, request.query = scope["path"], scope.get("query_string", b"")
        request.raw_path = scope.get("raw_path") or b""

    def _endpoint(self, request: HttpRequest) -> Endpoint:
        methods = self.endpoints.get(request.path) or self._prefix_methods(request)
        return methods.get(request.method) or partial(_refuse_method, methods=methods)

    async def _handle_special(self, scope: Scope, receive: Receive, send: Send) -> Scope | None:
        """Serve everything but a request to an open hall at the root; return the scope of a request that remains."""
        if (
            self._mounted_apps is not None
            and scope["type"] != "lifespan"
            and (mounted := self._mounted_apps.find(scope))
        ):
            app, below = mounted
            await app(below, receive, send)
            return None
        if root := scope.get("root_path"):
            scope = self._strip_root(scope, root)
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
        elif self.opened or await self._open():
            return scope
        else:
            await HttpRequest(scope, {}, ANONYMOUS, receive, send).reply(_unavailable_response(scope["path"]))
        return None

    def add_routes(self, routes: Mapping[str, AsgiApp]) -> None:
        """Serve these applications beside the endpoints; ValueError for a path that is taken."""
        reserved = (path for path in (*self.endpoints, *self._websockets) if path != "/")
        self._mounted_apps = MountedApps(routes, tuple(reserved)) if routes else None

    def _prefix_methods(self, request: HttpRequest) -> Methods:
        """Return the methods of the prefix (a path that ends with a slash) that the path is below; else 404."""
        methods = self._methods_below(request.path)
        if methods is not None:
            return methods
        # What else there is, is told to those who may use it: by /openapi.json.
        root = request.scope.get("root_path", "")
        raise RequestRejected(
            404, f"there is nothing here; try {', '.join(root + path for path in ENDPOINTS.values())}"
        )

    def _methods_below(self, path: str) -> Methods | None:
        return next((methods for prefix, methods in self._prefixes.items() if path.startswith(prefix)), None)

    def _strip_root(self, scope: Scope, root: str) -> Scope:
        local = strip_root_path(scope, root)
        if self.on_mounted is not None and RESOURCE_METADATA_PATH not in root:
            self.on_mounted(local)
        return local

    async def _open(self) -> bool:
        """Open the hall for a request; False if it cannot be opened, which is retried after a second."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.done() or self._opening.get_loop() is not loop:
            if loop.time() - self._failed_at < RETRY_SECONDS:
                return False
            self._opening = loop.create_task(self._open_and_log())
        return await asyncio.shield(self._opening)  # a disconnect does not stop it

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
        """Send 503, and let the server pause reading from this client."""
        await request.reply(busy_response(request.path))
        if request.extension is not None:
            request.extension.pause_reading()

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
            reauthenticate = partial(self._authenticator.authenticate, scope, headers)
            websocket = self._websockets[scope["path"]]
            await websocket.serve(
                caller, self.limiter, receive, send, reauthenticate, extension=scope.get(SERVER_EXTENSION)
            )
        except (RequestRejected, KeyError):
            await send({"type": "websocket.close", "code": 1008})  # before accept, the server makes it a 403
        except AuthenticationFailed as failure:
            await self._deny_websocket(failure, scope, send)
        except OSError:
            _log.debug("the client went away")

    async def _deny_websocket(self, failure: AuthenticationFailed, scope: Scope, send: Send) -> None:
        """Reject a WebSocket with an HTTP response where the server can, else with close code 1008."""
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
        """Audit the failure and return its response."""
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
    error = error_response(path, Unavailable("this server could not be opened; its log says why"))
    return WireResponse(error.body, 503, error.headers)


def _is_body_complete(request: HttpRequest) -> bool:
    return request.extension is not None and not request.extension.more_body


async def _refuse_method(request: HttpRequest, methods: Methods) -> None:
    await request.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))
