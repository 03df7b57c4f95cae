"""A client connection to a tool server in memory: what it makes of the bytes that a test feeds it."""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.connection_pool import ConnectionPool, PeerSettings
from toolhall.egress.http_connection import HttpConnection
from toolhall.egress.resolver import Dialer

MAX_BODY = 2_000
_DIAL = Dialer(EgressAllowlist()).with_address(ip_address("127.0.0.1"))
_URL = _DIAL.parse("http://127.0.0.1:1")


class Outcome(NamedTuple):
    """What became of one request."""

    messages: list[bytes]
    failure: str | None
    is_too_large: bool
    is_complete: bool
    is_kept: bool  # the connection takes another request


class MemoryTransport(asyncio.Transport):
    """A transport that writes nowhere; its socket is there to be polled."""

    def __init__(self, ours: socket.socket) -> None:
        super().__init__({"socket": ours})
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Drop it."""

    def abort(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing


class CountingConnection(HttpConnection):
    """A connection that counts the responses that its parser begins."""

    parsed = 0

    def on_message_begin(self) -> None:
        self.parsed += 1
        super().on_message_begin()


class ResponseStreams:
    """Connections of one pool, each of which is fed responses; without `recognizes`, every response is parsed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, recognizes: bool = True) -> None:
        self._recognizes = recognizes
        self._pool = ConnectionPool(_DIAL, _URL, PeerSettings(max_bytes=MAX_BODY), loop)
        self.parsed = 0  # responses that the parser was given

    def exchange(self, streams: Iterable[Sequence[bytes]]) -> list[Outcome]:
        """Send a request for each stream on one connection, as long as it takes one, and feed the pieces."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            connection = CountingConnection(self._pool)
            connection.connection_made(MemoryTransport(ours))
            outcomes: list[Outcome] = []
            for pieces in streams:
                if not connection.is_open:
                    break
                outcomes.append(self._exchange(connection, pieces))
            self.parsed += connection.parsed
            return outcomes

    def _exchange(self, connection: HttpConnection, pieces: Sequence[bytes]) -> Outcome:
        response, messages = connection.send(b""), list[bytes]()
        for piece in pieces:
            if not self._recognizes:
                self._pool.known_head = None
            connection.data_received(piece)
            while (message := response.pop()) is not None:
                messages.append(message)
            if not connection.is_open:
                break
        connection.release(finished=False)
        return Outcome(
            messages, response.failure, response.is_too_large, response.is_complete, is_kept=connection.is_open
        )
