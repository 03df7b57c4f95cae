"""Where a message of the hub came from: its address, and on a socket the way back to whoever opened that."""

from collections.abc import Callable
from ipaddress import ip_address

from toolhall.egress.addresses import Address
from toolhall.runners.hub.line import MOST_BYTES
from toolhall.runners.hub.socket_line import SocketLine
from toolhall.transports.asgi import Headers, Scope, Send
from toolhall.transports.identity.addresses import FORWARDED, address_of


class Sender:
    """One connection's, for as long as it lasts."""

    __slots__ = ("_ended", "_line", "_most_bytes", "_send", "address")

    def __init__(self, address: Address | None = None, send: Send | None = None, most_bytes: int = MOST_BYTES) -> None:
        self.address = address
        self._most_bytes = most_bytes
        self._send = send
        self._line: SocketLine | None = None
        self._ended: list[Callable[[], None]] = []

    def line(self) -> SocketLine | None:
        """The line on which a tool server is called that opened this socket; None where there is no socket."""
        if self._send is not None and (self._line is None or not self._line.open):  # with its lease the line ended
            self._line = SocketLine(self._write, self._most_bytes)
        return self._line

    def heard(self, body: bytes) -> bool:
        """Whether this was said about a call that was made on the line."""
        return self._line is not None and self._line.heard(body)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Hear when the socket is closed."""
        self._ended.append(callback)

    def end(self) -> None:
        """The socket is closed: what runs on it is lost."""
        if self._line is not None:
            self._line.closed()
        for callback in self._ended:
            callback()

    async def _write(self, body: bytes) -> None:
        if self._send is not None:
            await self._send({"type": "websocket.send", "text": body.decode()})


NOWHERE = Sender()


def sender_of(scope: Scope, headers: Headers) -> Sender:
    """By the address of the connection itself; where a proxy speaks for somebody else, nobody knows where that is."""
    if not FORWARDED.isdisjoint(headers):
        return NOWHERE
    try:
        return Sender(ip_address(address_of(scope)))
    except ValueError:
        return NOWHERE
