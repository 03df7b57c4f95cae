"""AccessLog: ASGI middleware that logs every request when it ends.

It observes every response, so a server that logs its requests serves none by a known head.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from toolhall.auth.authenticator import AsgiApp, AsgiMessage, Receive, Scope, Send
from toolhall.http.request import SERVER_EXTENSION, ServerExtension

_log = logging.getLogger("toolhall.access")


class AccessLog:
    """ASGI middleware that logs address, method, path, status and milliseconds of every request when it ends.

    The query is left out, because it may hold secrets. A WebSocket is logged when it ends.
    """

    def __init__(self, app: AsgiApp) -> None:
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

        def set_status(sent: int) -> None:
            nonlocal status
            status = sent

        extension: ServerExtension | None = scope.get(SERVER_EXTENSION)
        if extension is not None:
            scope[SERVER_EXTENSION] = _StatusObserver(extension, set_status)
        try:
            await self._app(scope, receive, observed)
        finally:
            client, elapsed = scope.get("client"), (time.perf_counter() - started) * 1000
            fields = (client[0] if client else "-", scope.get("method", "GET"), scope["path"], status or "-", elapsed)
            _log.info("%s %s %s %s %.1f ms", *fields)


class _StatusObserver:
    """Wraps a ServerExtension to learn the status of responses that are sent with `send_json`."""

    def __init__(self, extension: ServerExtension, on_status: Callable[[int], None]) -> None:
        self._extension = extension
        self._on_status = on_status

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extension, name)

    def send_json(self, status: int, body: bytes) -> bool:
        """Send a complete response if the server can, and report its status."""
        sent = self._extension.send_json(status, body)
        if sent:
            self._on_status(status)
        return sent
