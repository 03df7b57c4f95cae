"""The ASGI application: finds the endpoint of a path, after the shield and the identity have had their say."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from toolhall.transports.asgi import Receive, Scope, Send
from toolhall.transports.exchange import Exchange
from toolhall.transports.identity import NOBODY, Identity
from toolhall.transports.shield import Shield, Turned

_log = logging.getLogger("toolhall.http")

Endpoint: TypeAlias = Callable[[Exchange], Awaitable[None]]


class HttpApp:
    """Mountable anywhere; the path decides, exactly as the server gives it."""

    def __init__(self, shield: Shield, identity: Identity, endpoints: Mapping[str, Endpoint]) -> None:
        self._shield = shield
        self._identity = identity
        self._endpoints = endpoints
        self._prefixes = {path: endpoint for path, endpoint in endpoints.items() if path.endswith("/")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] != "http":
            await _other(scope, receive, send)
            return
        exchange = Exchange(scope["method"], {}, NOBODY, receive, send)
        try:
            headers = exchange.headers = self._shield.headers(scope)
            exchange.caller = self._identity.caller(scope, headers)
            exchange.path, exchange.query = scope["path"], scope.get("query_string", b"")
            await self._endpoints.get(exchange.path, self._below)(exchange)
        except Turned as turned:
            # The connection ends here: what is left of a refused body is not read as the next request.
            await exchange.refuse(turned.status, turned.message, (b"connection", b"close"))
        except OSError:
            _log.debug("the client went away")

    async def _below(self, exchange: Exchange) -> None:
        """A path that ends with a slash serves everything below it."""
        for prefix, endpoint in self._prefixes.items():
            if exchange.path.startswith(prefix):
                await endpoint(exchange)
                return
        await exchange.refuse(404, f"there is nothing here; try {', '.join(self._endpoints)}")


async def _other(scope: Scope, receive: Receive, send: Send) -> None:
    """Start-up and shutdown are answered; WebSockets are not served here."""
    if scope["type"] != "lifespan":
        await send({"type": "websocket.close", "code": 1008})
        return
    while (await receive())["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})
