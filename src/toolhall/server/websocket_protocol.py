"""WebSocketProtocol, uvicorn's WebSocket protocol with write-stall timeouts and a limit on fragments."""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame

from toolhall.server.context import ServerConfig, TimeoutTracker

_log = logging.getLogger("toolhall.http")
MAX_FRAGMENTS = 1_024  # of one message; even empty ones take memory


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Came in as an HTTP connection."""

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._context = config.context
        self._timeout = TimeoutTracker()

    async def send(self, message: Any) -> None:
        """A refusal with words of its own is an answer, too: uvicorn would log that there was none."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def connection_lost(self, exc: Exception | None) -> None:
        """It leaves as it came."""
        self._context.connections.release(self.client[0] if self.client else None)
        super().connection_lost(exc)

    def handle_cont(self, event: Frame) -> None:
        """A message in pieces, of which there may not be any number."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Hand a whole message to the application; text that is not UTF-8 closes the socket with one line in the log.

        RFC 6455, 8.1. Uvicorn logs a traceback for it, as often as a client likes.
        """
        if self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        try:
            text = b"".join(self.frames).decode()
        except UnicodeDecodeError:
            _log.info("a WebSocket message is not valid UTF-8; its connection is closed")
            self.conn.fail(CloseCode.INVALID_DATA, "text must be UTF-8")
            self.handle_parser_exception()
            return
        finally:
            self.frames = []
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def check_timeouts(self, now: float) -> None:
        """End the connection if it has kept us waiting for too long; that nobody is there is told by the pings."""
        wait, unread = self._timeout_state(), self.transport.get_write_buffer_size()
        if self._timeout.start(wait, self.frames if wait == "body" else None, now, unread) or not wait:
            return
        limits = self._context.timeouts
        if wait == "write_stall":
            late = self._timeout.is_stalled(limits.write_stall, unread, now)
        else:
            late = self._timeout.has_exceeded(limits.close if wait == "close" else limits.body, now)
        if late:
            self.transport.abort()

    def _timeout_state(self) -> str:
        if self.close_sent:  # nothing that it still sends is read by anybody
            return "close"
        if not self.writable.is_set() or self.transport.is_closing():
            return "write_stall"
        return "body" if self.frames else ""
