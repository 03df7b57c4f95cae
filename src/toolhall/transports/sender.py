"""Where a message of the hub came from: its address, and on a socket the way back to whoever opened that."""

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from toolhall.egress.addresses import Address
from toolhall.runners.hub.line import MOST_BYTES
from toolhall.runners.hub.socket_line import CalledSocket, SocketLine
from toolhall.transports.asgi import Headers, Scope, Send
from toolhall.transports.identity.addresses import FORWARDED, address_of
from toolhall.transports.identity.base import Identity, Proven
from toolhall.transports.proof import Proof


class Sender:
    """One connection's, for as long as it lasts."""

    __slots__ = ("_again", "_called", "_ended", "_most_bytes", "_send")

    def __init__(
        self, send: Send | None = None, again: Callable[[], Proven] | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        self._send = send
        self._again = again  # proves anew who it is
        self._most_bytes = most_bytes
        self._called: CalledSocket | None = None
        self._ended: dict[str, Callable[[], None]] = {}

    @property
    def address(self) -> Address | None:
        """Where it is; None where nobody knows."""
        return None

    def line(self, replica: str) -> SocketLine | None:
        """The line on which a tool server is called that opened this socket; None where there is no socket."""
        if self._send is None:
            return None
        if self._called is None:
            self._called = CalledSocket(self._write, self._most_bytes)
        return self._called.line(replica)

    def heard(self, body: bytes) -> bool:
        """Whether this was said about a call that was made on the line."""
        return self._called is not None and self._called.heard(body)

    def on_end(self, who: str, callback: Callable[[], None]) -> None:
        """Let somebody hear when the socket is closed, in place of what was said for them before."""
        self._ended[who] = callback

    def forget(self, who: str) -> None:
        """They need not hear of it any more."""
        self._ended.pop(who, None)

    def proof(self) -> Callable[[], bool | None]:
        """What tells later whether what it brought is still good; None where that is not known."""
        return _yes if self._again is None else Proof(self._again)

    def end(self) -> None:
        """The socket is closed: what runs on it is lost."""
        if self._called is not None:
            self._called.closed()
        for callback in tuple(self._ended.values()):
            callback()

    async def _write(self, body: bytes) -> None:
        if self._send is not None:
            await self._send({"type": "websocket.send", "text": body.decode()})


def _yes() -> bool:
    return True


NOWHERE = Sender()
_NEEDED = ("type", "path", "method", "client")  # of a scope, which also holds its connection


class Posting(Sender):
    """Whoever posts one message; hardly any message asks where that is."""

    __slots__ = ("_headers", "_identity", "_scope")

    def __init__(self, scope: Scope, headers: Headers, identity: Identity | None = None) -> None:
        super().__init__()
        self._scope = scope
        self._headers = headers
        self._identity = identity

    @property
    def address(self) -> Address | None:
        """Of the connection itself; where a proxy speaks for somebody else, nobody knows where that is."""
        if not FORWARDED.isdisjoint(self._headers):
            return None
        try:
            return ip_address(address_of(self._scope))
        except ValueError:
            return None

    def proof(self) -> Callable[[], bool | None]:
        """By the same headers, from the same address."""
        if self._identity is None:
            return _yes
        scope = {name: self._scope[name] for name in _NEEDED if name in self._scope}
        return Proof(partial(self._identity.caller, scope, self._headers))
