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

    __slots__ = ("_ended", "_line", "_most_bytes", "_send")

    def __init__(self, send: Send | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._send = send
        self._most_bytes = most_bytes
        self._line: SocketLine | None = None
        self._ended: dict[str, Callable[[], None]] = {}

    @property
    def address(self) -> Address | None:
        """Where it is; None where nobody knows."""
        return None

    def line(self) -> SocketLine | None:
        """The line on which a tool server is called that opened this socket; None where there is no socket."""
        if self._send is not None and (self._line is None or not self._line.open):  # with its lease the line ended
            self._line = SocketLine(self._write, self._most_bytes)
        return self._line

    def heard(self, body: bytes) -> bool:
        """Whether this was said about a call that was made on the line."""
        return self._line is not None and self._line.heard(body)

    def on_end(self, who: str, callback: Callable[[], None]) -> None:
        """Let somebody hear when the socket is closed, in place of what was said for them before."""
        self._ended[who] = callback

    def end(self) -> None:
        """The socket is closed: what runs on it is lost."""
        if self._line is not None:
            self._line.closed()
        for callback in self._ended.values():
            callback()

    async def _write(self, body: bytes) -> None:
        if self._send is not None:
            await self._send({"type": "websocket.send", "text": body.decode()})


NOWHERE = Sender()


class Posting(Sender):
    """Whoever posts one message; hardly any message asks where that is."""

    __slots__ = ("_headers", "_scope")

    def __init__(self, scope: Scope, headers: Headers) -> None:
        super().__init__()
        self._scope = scope
        self._headers = headers

    @property
    def address(self) -> Address | None:
        """Of the connection itself; where a proxy speaks for somebody else, nobody knows where that is."""
        if not FORWARDED.isdisjoint(self._headers):
            return None
        try:
            return ip_address(address_of(self._scope))
        except ValueError:
            return None
