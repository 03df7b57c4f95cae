"""The access log: one line for every request that the application answers, where the setting `access_log` is on."""

import logging
import time
from collections.abc import Callable
from typing import Any

from toolhall.cli.logs import ACCESS_LOGGER
from toolhall.transports.asgi import AsgiMessage, Receive, Scope, Send
from toolhall.transports.exchange import OWN, Own

_log = logging.getLogger(ACCESS_LOGGER)


class AccessLog:
    """Wraps an ASGI application; it logs address, method, path, status and milliseconds once a reply is over.

    The query is left out, because it may hold what only the caller should know. A WebSocket is logged when it ends.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Any]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        status, started = 0, time.perf_counter()

        async def observed(message: AsgiMessage) -> None:
            nonlocal status
            status = message.get("status", 101 if message["type"] == "websocket.accept" else status)
            await send(message)

        def answered(sent: int) -> None:
            nonlocal status
            status = sent

        own: Own | None = scope.get(OWN)
        if own is not None:
            scope[OWN] = _Observed(own, answered)
        try:
            await self._app(scope, receive, observed)
        finally:
            client, elapsed = scope.get("client"), (time.perf_counter() - started) * 1000
            said = (client[0] if client else "-", scope.get("method", "GET"), scope["path"], status or "-", elapsed)
            _log.info("%s %s %s %s %.1f ms", *said)


class _Observed:
    """Our own server's side of a request, which also tells the status of a reply that goes out whole."""

    def __init__(self, own: Own, answered: Callable[[int], None]) -> None:
        self._own = own
        self._answered = answered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def whole(self, status: int, lines: bytes, body: bytes) -> bool:
        """Send a whole reply, if the server can; its status is known then."""
        sent = self._own.whole(status, lines, body)
        if sent:
            self._answered(status)
        return sent
