"""WebSocketProtocol: one WebSocket connection, as ASGI's websocket interface.

Theory of operation. HttpProtocol parses the request, counts the connection and passes both on. `websockets` without
its I/O (ServerProtocol) does the handshake and the frames; this class moves bytes between it and the transport, and
complete messages between it and the application. Reading pauses while a message waits for the application, so that
what is held is bounded by one read. Nearly all messages are one text frame each way: these are read and written by
`server.websocket_frames` without ServerProtocol. An application may take text messages as they arrive (`take_text`),
in which case nothing waits for it, and must bound what it keeps of them. Compression is never agreed on: it would allow
decompression bombs, and leaks like CRIME.

An application refuses a connection before it accepts it, by `websocket.close` (403) or by a response of its own
(`websocket.http.response`). Later, `websocket.close` begins the closing handshake: what the client still sends is
dropped, and the connection ends with the client's own close frame or at the timeout `close`.

Pings find clients that are gone. `check_timeouts` ends those that do not read (`write_stall`), do not finish a message
(`body`) or do not answer a close frame (`close`).
"""

import asyncio
import logging
import os
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import unquote

from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from toolhall.auth.authenticator import AsgiMessage, Scope
from toolhall.http.request import SERVER_EXTENSION
from toolhall.server.connection import Connection
from toolhall.server.context import ServerContext
from toolhall.server.responses import MALFORMED_RESPONSE, encode_headers
from toolhall.server.websocket_frames import TextFrameReader, TextFrameWriter

MAX_FRAGMENTS = 1_024  # of one message; even empty ones take memory
PING_SECONDS = 20.0  # between a pong and the next ping
PONG_SECONDS = 20.0  # for the answer to a ping
_ASGI = {"version": "3.0", "spec_version": "2.4"}

_log = logging.getLogger("toolhall.http")


class WebSocketProtocol(Connection):
    """Serves one WebSocket connection, which HttpProtocol has counted and upgraded."""

    close_sent = False  # by us; what the client still sends is discarded
    _response: Response  # to the handshake, if the application accepts
    _is_accepted = False
    _refusal: tuple[int, Headers] | None = None  # status and headers of a refusal whose body has not been sent yet
    _refusal_body = b""
    _is_text = False  # the message that `frames` are of
    _timer: asyncio.TimerHandle | None = None  # of the next ping, or of the answer to the last one
    _take_text: Callable[[bytes], bool] | None = None  # gets text messages that nothing waits before
    _ping = b""  # the payload of a ping that was not answered yet

    def __init__(self, context: ServerContext, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(context, loop)
        self.frames: list[bytes] = []  # of a message that is incomplete
        self._queue: asyncio.Queue[AsgiMessage] = asyncio.Queue()  # for the application
        self._protocol = ServerProtocol(max_size=context.max_frame_bytes)
        self._reader = TextFrameReader(context.max_frame_bytes)
        self._writer = TextFrameWriter(loop, self._write_frames)

    def open(self, method: bytes, url: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Begin with the request that HttpProtocol has parsed."""
        self._protocol.receive_data(b"%s %s HTTP/1.1\r\n%s\r\n" % (method, url, encode_headers(headers)))
        requests = [event for event in self._protocol.events_received() if isinstance(event, Request)]
        if not requests:  # ServerProtocol refuses its form or its length, and takes no response any more
            self.close_sent = True
            self.transport.write(MALFORMED_RESPONSE)
            self.transport.close()
            return
        self._response = self._protocol.accept(requests[0])
        if self._response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._refuse(self._response)
            return
        self._queue.put_nowait({"type": "websocket.connect"})
        task = self.loop.create_task(self._run(self._scope(url, headers)))
        self.context.tasks.add(task)
        task.add_done_callback(self.context.tasks.discard)

    def _scope(self, url: bytes, headers: list[tuple[bytes, bytes]]) -> Scope:
        raw_path, _, query = url.partition(b"?")
        offered = [value for name, value in headers if name == b"sec-websocket-protocol"]
        return {
            "type": "websocket",
            "asgi": _ASGI,
            "http_version": "1.1",
            "scheme": "ws",
            "server": self.server,
            "client": self.client,
            "root_path": "",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "subprotocols": [each.strip() for value in offered for each in value.decode("latin-1").split(",")],
            "extensions": {"websocket.http.response": {}},
            SERVER_EXTENSION: self,
        }

    async def _run(self, scope: Scope) -> None:
        try:
            await self.context.app(scope, self.receive, self.send)
        except OSError:
            _log.debug("the client of a WebSocket went away")
        except BaseException:  # noqa: BLE001 - the server goes on
            _log.exception("the application failed at the WebSocket %s", scope["path"])
        if not self._is_accepted and not self.close_sent:
            self._refuse(self._protocol.reject(HTTPStatus.INTERNAL_SERVER_ERROR, "the server failed to answer\n"))
        elif not self.close_sent:
            self._writer.flush()
            self.transport.close()

    # Called by the transport.

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application, and forget the connection."""
        super().connection_lost(exc)
        self._stop_pings()
        self._put_disconnect(CloseCode.NO_STATUS_RCVD if self._is_accepted else CloseCode.ABNORMAL_CLOSURE)

    def data_received(self, data: bytes) -> None:
        """Take frames, and queue the messages that they complete."""
        messages = self._reader.read(data)
        if messages is not None:
            self._is_text = True
            for message in messages:
                if not self.close_sent:
                    self._put_message(message)
            return
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take_frame(event)
        if self._protocol.parser_exc is not None:
            self._close_failed()

    def _take_frame(self, frame: Frame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY:
                self._is_text = frame.opcode is Opcode.TEXT
                self._take_part(frame)
            case Opcode.CONT:
                self._take_part(frame)
            case Opcode.PONG if self._ping and bytes(frame.data) == self._ping:
                self._stop_pings()
                self._timer = self.loop.call_later(PING_SECONDS, self._send_ping)
            case Opcode.CLOSE if not self.close_sent:
                received = self._protocol.close_rcvd
                self._put_disconnect(
                    CloseCode.NO_STATUS_RCVD if received is None else received.code,
                    "" if received is None else received.reason,
                )
                self._write()  # the answer, which ServerProtocol has made
                self.transport.close()
            case Opcode.CLOSE:
                self.transport.close()
            case _:
                self._write()  # the answer to a ping

    def _take_part(self, frame: Frame) -> None:
        """Take a part of a message; one of too many parts closes the connection."""
        if self.close_sent:
            return
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            return
        self.frames.append(bytes(frame.data))
        if frame.fin:
            message, self.frames = b"".join(self.frames), []
            self._put_message(message)

    def _put_message(self, message: bytes) -> None:
        """Queue a message for the application; text that is not UTF-8 closes the connection (RFC 6455, 8.1)."""
        if self._is_text:
            try:
                text = message.decode()
            except UnicodeDecodeError:
                _log.info("a WebSocket message is not valid UTF-8; its connection is closed")
                self._fail(CloseCode.INVALID_DATA, "text must be UTF-8")
                return
            if self._take_text is not None and self._queue.empty() and self._take_text(message):
                return
            self._queue.put_nowait({"type": "websocket.receive", "text": text})
        else:
            self._queue.put_nowait({"type": "websocket.receive", "bytes": message})
        self.pause_reading()

    # Called by the application.

    async def receive(self) -> AsgiMessage:
        """The next ASGI message; reading goes on when there is none."""
        message = await self._queue.get()
        if self._queue.empty():
            self.resume_reading()
        return message

    async def send(self, message: AsgiMessage) -> None:
        """Send an ASGI message; waits while the client does not read. ConnectionResetError once it has gone."""
        text = message.get("text")
        if text is not None and self._is_open():
            self._writer.add(text.encode())
            return
        await self.drain()
        if self.is_lost:
            raise ConnectionResetError("the WebSocket is closed")
        kind = message["type"]
        if self._is_accepted:
            self._send_open(kind, message)
        elif self._refusal is not None and kind == "websocket.http.response.body":
            self._refusal_body += message.get("body", b"")
            if not message.get("more_body"):
                self._send_refusal(*self._refusal)
        elif self._refusal is not None or self.close_sent:
            raise RuntimeError(f"{kind} was sent after the WebSocket was refused")
        elif kind == "websocket.accept":
            self._accept(message)
        elif kind == "websocket.close":
            self._refuse(self._protocol.reject(HTTPStatus.FORBIDDEN, ""))
        elif kind == "websocket.http.response.start":
            self._refusal = message["status"], _text_headers(message)
        else:
            raise RuntimeError(f"{kind} was sent before the WebSocket was accepted")

    def take_text(self, take: Callable[[bytes], bool] | None) -> None:
        """Offer each text message to this function first; what it returns False for is received as usual."""
        self._take_text = take

    def send_text(self, message: bytes) -> bool:
        """Send a text message without waiting; False if `send` has to."""
        if not self._is_open():
            return False
        self._writer.add(message)
        return True

    def _is_open(self) -> bool:
        """Whether a message may be sent now, without waiting."""
        return (
            self._is_accepted
            and not (self.write_paused or self.is_lost or self.close_sent or self.transport.is_closing())
            and self._protocol.state is State.OPEN
        )

    def _send_open(self, kind: str, message: AsgiMessage) -> None:
        """Send a message or begin to close a connection that was accepted."""
        if kind not in ("websocket.send", "websocket.close"):
            raise RuntimeError(f"{kind} was sent after the WebSocket was accepted")
        if self.transport.is_closing() or self.close_sent:
            if kind == "websocket.close":
                return
            raise ConnectionResetError("the WebSocket is closed")
        try:
            if kind == "websocket.close":
                code, reason = message.get("code", CloseCode.NORMAL_CLOSURE), message.get("reason") or ""
                self._protocol.send_close(code, reason)
                self._put_disconnect(code, reason)
                self.close_sent = True
                self.frames = []
                self.resume_reading()  # for the client's close frame
            elif message.get("text") is not None:
                self._protocol.send_text(message["text"].encode())
            else:
                self._protocol.send_binary(message["bytes"])
        except InvalidState:
            raise ConnectionResetError("the WebSocket is closed") from None
        self._write()

    def _accept(self, message: AsgiMessage) -> None:
        headers = _text_headers(message)
        if message.get("subprotocol"):
            headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
        self._response.headers.update(headers)
        self._is_accepted = True
        self._protocol.send_response(self._response)
        self._write()
        self._timer = self.loop.call_later(PING_SECONDS, self._send_ping)

    def _send_refusal(self, status: int, headers: Headers) -> None:
        for name, value in (("Connection", "close"), ("Content-Length", str(len(self._refusal_body)))):
            headers.setdefault(name, value)
        self._refuse(Response(status, HTTPStatus(status).phrase, headers, self._refusal_body))

    def _refuse(self, response: Response) -> None:
        """Answer the handshake with this response in place of 101, and close the connection."""
        self.close_sent = True
        self._put_disconnect(CloseCode.ABNORMAL_CLOSURE)
        self._protocol.send_response(response)
        self._write()
        self.transport.close()

    # The end.

    def shutdown(self) -> None:
        """Close the connection, because the server stops."""
        self._writer.flush()
        if not self._is_accepted and not self.close_sent:
            self._refuse(self._protocol.reject(HTTPStatus.SERVICE_UNAVAILABLE, "the server stops\n"))
        elif not self.close_sent and not self.transport.is_closing():
            self._put_disconnect(CloseCode.SERVICE_RESTART)
            self._protocol.send_close(CloseCode.SERVICE_RESTART)
            self._write()
        self._stop_pings()
        self.transport.close()

    def _fail(self, code: CloseCode, reason: str) -> None:
        """Close the connection with this code."""
        if not self.close_sent:
            self._protocol.fail(code, reason)
            self._close_failed()

    def _close_failed(self) -> None:
        """Write the close frame that ServerProtocol has made, tell the application, and close."""
        sent = self._protocol.close_sent
        if sent is not None:
            self._put_disconnect(sent.code, sent.reason)
        self._write()
        self.close_sent = True
        self.transport.close()

    def _put_disconnect(self, code: int, reason: str = "") -> None:
        self._queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})

    def _write(self) -> None:
        """Write what ServerProtocol has made, behind the messages that were sent before it."""
        self._writer.flush()
        data = b"".join(self._protocol.data_to_send())
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def _write_frames(self, frames: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(frames)

    def _send_ping(self) -> None:
        if self.close_sent or self.transport.is_closing():
            return
        self._ping = os.urandom(4)  # tells its answer from those to other pings
        self._protocol.send_ping(self._ping)
        self._write()
        self._timer = self.loop.call_later(PONG_SECONDS, self._fail, CloseCode.INTERNAL_ERROR, "no answer to a ping")

    def _stop_pings(self) -> None:
        self._ping = b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_timeouts(self, now: float) -> None:
        """End the connection if its client has exceeded a timeout."""
        state, unread = self._timeout_state(), self.transport.get_write_buffer_size()
        if self.timeout.start(state, self.frames if state == "body" else None, now, unread) or not state:
            return
        timeouts = self.context.timeouts
        if state == "write_stall":
            late = self.timeout.is_stalled(timeouts.write_stall, unread, now)
        else:
            late = self.timeout.has_exceeded(timeouts.close if state == "close" else timeouts.body, now)
        if late:
            self.transport.abort()

    def _timeout_state(self) -> str:
        """The field of ConnectionTimeouts that applies now; empty while nothing is waited for."""
        if self.close_sent:
            return "close"
        if self.write_paused or self.transport.is_closing():
            return "write_stall"
        return "body" if self.frames else ""


def _text_headers(message: AsgiMessage) -> Headers:
    return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in message.get("headers", ())])
