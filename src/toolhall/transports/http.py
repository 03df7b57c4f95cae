"""The ASGI application: finds the endpoint of a path, after the shield and the identity have had their say."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

from toolhall.model.caller import Caller
from toolhall.model.errors import LifespanFailed, ToolhallError, Unavailable
from toolhall.model.exchange import Wire
from toolhall.stores.base import StoreFailed
from toolhall.telemetry.spans import carry
from toolhall.transports.arriving import await_body
from toolhall.transports.asgi import AsgiApp, Receive, Scope, Send
from toolhall.transports.busy import busy
from toolhall.transports.challenges import Challenges, said_invalid
from toolhall.transports.exchange import OWN, Exchange, Own
from toolhall.transports.identity import NOBODY, Identity, Unproven, proven
from toolhall.transports.identity.addresses import nobody
from toolhall.transports.mounting import METADATA, Routes, below_root
from toolhall.transports.overload import NoSlot, RequestLimiter
from toolhall.transports.refusals import refusal
from toolhall.transports.shield import Shield, Turned
from toolhall.transports.strangers import Strangers, asked_at
from toolhall.transports.websocket import WebSocket

RETRY_SECONDS = 1.0
_log = logging.getLogger("toolhall.http")

Endpoint: TypeAlias = Callable[[Exchange], Awaitable[None]]
Methods: TypeAlias = Mapping[str, Endpoint]  # by HTTP method


class HttpApp:
    """Mountable anywhere; the path below its mount decides, exactly as the server gives it.

    A server that speaks ASGI's lifespan opens the hall before its first request. An application that the hall is
    mounted in passes no such events on: there the first request opens it, unless the application did.
    """

    def __init__(
        self,
        shield: Shield,
        identity: Identity,
        endpoints: Mapping[str, Methods],
        sockets: Mapping[str, WebSocket],
        startup: Callable[[], Awaitable[None]],
        challenges: Challenges | None = None,
    ) -> None:
        self.admission = RequestLimiter()  # how many requests are answered at once
        self.strangers: Strangers | None = None  # records those who prove nobody
        self.settle: Callable[[], Awaitable[None]] | None = None  # finishes what goes on by itself
        self.mounted: Callable[[Scope], None] | None = None  # hears where the hall is mounted
        self.open_unasked = startup  # for a request that comes before the hall was opened
        self.opened = False
        self._opening: asyncio.Task[bool] | None = None
        self._failed_at = -RETRY_SECONDS
        self._routes: Routes | None = None
        self._shield = shield
        self._sockets = sockets
        self._startup = startup
        self._identity = identity
        self._challenges = challenges
        self.endpoints = endpoints
        self._prefixes = {path: methods for path, methods in endpoints.items() if path.endswith("/")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] != "http" or not self.opened or scope.get("root_path") or self._routes is not None:
            request = await self._unusual(scope, receive, send)
            if request is None:
                return
            scope = request
        exchange, callers = Exchange(scope["method"], {}, NOBODY, receive, send), self.admission.callers
        exchange.admission = self.admission
        try:
            exchange.scope, exchange.challenges, exchange.identity = scope, self._challenges, self._identity
            headers = exchange.headers = self._shield.headers(scope)
            if b"traceparent" in headers:
                carry(headers[b"traceparent"].decode("latin-1"), headers.get(b"tracestate", b"").decode("latin-1"))
            caller = self._identity.caller(scope, headers)
            exchange.caller = caller if isinstance(caller, Caller) else await caller
            exchange.path, exchange.query = scope["path"], scope.get("query_string", b"")
            exchange.raw_path = scope.get("raw_path") or b""
            methods = self.endpoints.get(exchange.path) or self._below(exchange)
            endpoint = methods.get(exchange.method)
            own: Own | None = scope.get(OWN)
            if (own is not None and not own.more_body) or not await_body(exchange):
                caller = exchange.caller
                if caller.proof != "none" and callers.take(caller.id):  # as most do
                    exchange.slot, exchange.slot_key = callers, caller.id
                else:
                    await exchange.admit()
            await (endpoint(exchange) if endpoint else _refuse_method(exchange, methods))
        except Turned as turned:
            # The connection ends here: what is left of a refused body is not read as the next request.
            await exchange.refuse(turned.status, turned.message, (b"connection", b"close"))
        except Unproven as unproven:
            await exchange.reply(self._said(unproven, scope), (b"connection", b"close"))
        except NoSlot:
            await self._turn_away(exchange)
        except OSError:
            _log.debug("the client went away")
        finally:
            exchange.leave()  # unless the slot was given away, and is given back elsewhere

    async def _unusual(self, scope: Scope, receive: Receive, send: Send) -> Scope | None:
        """Serve what is no request to an open hall at the root of a server; such a request, if there is one in it."""
        if self._routes is not None and scope["type"] != "lifespan" and (found := self._routes.find(scope)):
            app, below = found
            await app(below, receive, send)
            return None
        if root := scope.get("root_path"):
            scope = self._below_root(scope, root)
        if scope["type"] != "http":
            await self._other(scope, receive, send)
        elif self.opened or await self._open():
            return scope
        else:
            await Exchange(scope["method"], {}, NOBODY, receive, send).reply(_closed(scope["path"]))
        return None

    def add_routes(self, routes: Mapping[str, AsgiApp]) -> None:
        """Serve these applications beside the endpoints; ValueError for a path that is taken."""
        self._routes = Routes(routes, (*self.endpoints, *self._sockets)) if routes else None

    def _below(self, exchange: Exchange) -> Methods:
        """A path that ends with a slash serves everything below it."""
        for prefix, methods in self._prefixes.items():
            if exchange.path.startswith(prefix):
                return methods
        root = exchange.scope.get("root_path", "")
        raise Turned(404, f"there is nothing here; try {', '.join(root + path for path in self.endpoints)}")

    def _below_root(self, scope: Scope, root: str) -> Scope:
        local = below_root(scope, root)
        if self.mounted is not None and METADATA not in root:
            self.mounted(local)
        return local

    async def _open(self) -> bool:
        """Open the hall with a request; False if it cannot be opened, which is tried again a moment later."""
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening.done() or self._opening.get_loop() is not loop:
            if loop.time() - self._failed_at < RETRY_SECONDS:
                return False
            self._opening = loop.create_task(self._open_unasked())
        return await asyncio.shield(self._opening)  # a client that goes away does not stop it

    async def _open_unasked(self) -> bool:
        try:
            await self.open_unasked()
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

    async def _turn_away(self, exchange: Exchange) -> None:
        """There is no slot for this caller."""
        own: Own | None = exchange.scope.get(OWN)
        await exchange.reply(busy(exchange.path))
        if own is not None:
            own.rest()

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if not self.opened and not await self._open():
            await send({"type": "websocket.close", "code": 1011})
            return
        try:
            headers = self._shield.headers(scope)
            caller = await proven(self._identity.caller(scope, headers))
            again = partial(self._identity.caller, scope, headers)
            await self._sockets[scope["path"]].serve(caller, self.admission, receive, send, again)
        except (Turned, KeyError):
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted, this is a 403
        except Unproven as unproven:
            await self._deny(unproven, scope, send)
        except OSError:
            _log.debug("the client went away")

    async def _deny(self, unproven: Unproven, scope: Scope, send: Send) -> None:
        """A WebSocket that is not accepted: as HTTP has it, where the server can say so."""
        wire = self._said(unproven, scope)
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        if self._challenges is not None:
            wire = self._challenges.completed(wire, scope, dict(scope["headers"]))
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(wire.body)), *wire.headers]
        await send({"type": "websocket.http.response.start", "status": wire.status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": wire.body})

    def _said(self, unproven: Unproven, scope: Scope) -> Wire:
        """What whoever is refused hears, once that is recorded."""
        if self.strangers is not None:
            self.strangers.refused(asked_at(scope["path"]), nobody(scope), unproven.error)
        wire = refusal(scope["path"], unproven.error)
        return said_invalid(wire) if unproven.sent else wire

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            try:
                await self._startup()
            except (StoreFailed, ToolhallError, LifespanFailed) as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            self.opened = True
            await send({"type": "lifespan.startup.complete"})
        if self.settle is not None:
            await self.settle()
        self.opened = False
        await send({"type": "lifespan.shutdown.complete"})


def _closed(path: str) -> Wire:
    said = refusal(path, Unavailable("this server could not be opened; its log says why"))
    return Wire(said.body, 503, said.headers)


async def _refuse_method(exchange: Exchange, methods: Methods) -> None:
    await exchange.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))
