"""The ASGI application: finds the endpoint of a path, after the shield and the identity have had their say."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from toolhall.model.errors import ToolhallError
from toolhall.stores.base import StoreFailed
from toolhall.transports.asgi import Receive, Scope, Send
from toolhall.transports.exchange import Exchange
from toolhall.transports.identity import NOBODY, Identity
from toolhall.transports.shield import Shield, Turned
from toolhall.transports.websocket import WebSocket

_log = logging.getLogger("toolhall.http")

Endpoint: TypeAlias = Callable[[Exchange], Awaitable[None]]
Methods: TypeAlias = Mapping[str, Endpoint]  # by HTTP method


class HttpApp:
    """Mountable anywhere; the path decides, exactly as the server gives it."""

    def __init__(
        self,
        shield: Shield,
        identity: Identity,
        endpoints: Mapping[str, Methods],
        sockets: Mapping[str, WebSocket],
        startup: Callable[[], Awaitable[None]],
    ) -> None:
        self._shield = shield
        self._sockets = sockets
        self._startup = startup
        self._identity = identity
        self._endpoints = endpoints
        self._prefixes = {path: methods for path, methods in endpoints.items() if path.endswith("/")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        exchange = Exchange(scope["method"], {}, NOBODY, receive, send)
        try:
            headers = exchange.headers = self._shield.headers(scope)
            exchange.caller = self._identity.caller(scope, headers)
            exchange.path, exchange.query = scope["path"], scope.get("query_string", b"")
            exchange.raw_path = scope.get("raw_path") or b""
            methods = self._endpoints.get(exchange.path) or self._below(exchange.path)
            endpoint = methods.get(exchange.method)
            await (endpoint(exchange) if endpoint else _refuse_method(exchange, methods))
        except Turned as turned:
            # The connection ends here: what is left of a refused body is not read as the next request.
            await exchange.refuse(turned.status, turned.message, (b"connection", b"close"))
        except OSError:
            _log.debug("the client went away")

    def _below(self, path: str) -> Methods:
        """A path that ends with a slash serves everything below it."""
        for prefix, methods in self._prefixes.items():
            if path.startswith(prefix):
                return methods
        raise Turned(404, f"there is nothing here; try {', '.join(self._endpoints)}")

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        try:
            headers = self._shield.headers(scope)
            await self._sockets[scope["path"]].serve(self._identity.caller(scope, headers), receive, send)
        except (Turned, KeyError):
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted, this is a 403
        except OSError:
            _log.debug("the client went away")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "lifespan.shutdown":
            try:
                await self._startup()
            except (StoreFailed, ToolhallError) as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})


async def _refuse_method(exchange: Exchange, methods: Methods) -> None:
    await exchange.refuse(405, f"use {' or '.join(methods)}", (b"allow", ", ".join(methods).encode()))
