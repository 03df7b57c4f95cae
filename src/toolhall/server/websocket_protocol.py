"""WebSocketProtocol, uvicorn's WebSocket protocol with write-stall timeouts and a limit on fragments."""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import CloseCode, Frame
from websockets.protocol import State

from toolhall.server.context import ServerConfig, TimeoutTracker
from toolhall.server.websocket_frames import TextFrameReader, TextFrameWriter

_log = logging.getLogger("toolhall.http")
MAX_FRAGMENTS = 1_024  # of one message; even empty ones take memory


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Serves one WebSocket connection, which HttpProtocol has counted and upgraded."""

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
        self._reader: TextFrameReader | None = None  # once the handshake was read
        self._writer = TextFrameWriter(self.loop, self._write_frames)

    def data_received(self, data: bytes) -> None:
        """Take the handshake, then frames; messages of one text frame each need no parser."""
        self._writer.flush()
        if self._reader is None:
            self._reader = TextFrameReader(self.config.ws_max_size)
            super().data_received(data)
            return
        messages = self._reader.read(data)
        if messages is None:
            super().data_received(data)
            return
        self.curr_msg_data_type = "text"
        for message in messages:
            self.frames = [message]
            self.send_receive_event_to_app()

    def shutdown(self) -> None:
        """Write what is ready, and close the connection."""
        self._writer.flush()
        super().shutdown()

    def _write_frames(self, frames: bytes) -> None:
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(frames)

    async def send(self, message: Any) -> None:
        """Send a message; a refusal with an HTTP body also completes the handshake, or uvicorn would log an error."""
        text = message.get("text")
        if text is not None and self._is_open():
            self._writer.add(text.encode())
            return
        self._writer.flush()
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def _is_open(self) -> bool:
        """Whether a message may be sent now, without waiting."""
        return (
            self.handshake_complete
            and self.writable.is_set()
            and not (self.close_sent or self.disconnected or self.transport.is_closing())
            and self.initial_response is None
            and self.conn.state is State.OPEN
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection that HttpProtocol acquired from the ConnectionLimiter."""
        self._context.connections.release(self.client[0] if self.client else None)
        super().connection_lost(exc)

    def handle_cont(self, event: Frame) -> None:
        """Take a continuation frame; a message of too many fragments closes the connection."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()

    def send_receive_event_to_app(self) -> None:
        """Queue a complete message for the application; text that is not UTF-8 closes the connection (RFC 6455, 8.1).

        That is logged in one line. Uvicorn would log a traceback, as often as a client likes.
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
        """End the connection if its client has exceeded a timeout; uvicorn's pings find unresponsive ones."""
        state, unread = self._timeout_state(), self.transport.get_write_buffer_size()
        if self._timeout.start(state, self.frames if state == "body" else None, now, unread) or not state:
            return
        timeouts = self._context.timeouts
        if state == "write_stall":
            late = self._timeout.is_stalled(timeouts.write_stall, unread, now)
        else:
            late = self._timeout.has_exceeded(timeouts.close if state == "close" else timeouts.body, now)
        if late:
            self.transport.abort()

    def _timeout_state(self) -> str:
        """The field of ConnectionTimeouts that applies now; empty while nothing is waited for."""
        if self.close_sent:  # what the client still sends is discarded
            return "close"
        if not self.writable.is_set() or self.transport.is_closing():
            return "write_stall"
        return "body" if self.frames else ""
