"""Calls to a tool server that listens: each is one POST, over connections that are kept."""

from toolhall.dialects.hub.remote import ToolEnd
from toolhall.egress.dialing import Dial
from toolhall.egress.errors import EgressRefused
from toolhall.egress.urls import Url, header
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret
from toolhall.runners.hub.connections import MOST, Connections
from toolhall.runners.hub.line import MOST_BYTES, Hear, Lost, report_of, response_of


class HttpLine:
    """A line to the server at `url`; EgressRefused at once for one where the hall does not go."""

    def __init__(self, url: str, token: Secret, dial: Dial, most_bytes: int = MOST_BYTES) -> None:
        target = dial.read(url)
        if target.query is not None:
            raise EgressRefused(f"{target.shown} has a query; a tool server's url is https://host[:port]/path")
        self._head = _head(target, token)
        self._connections = Connections(dial, target, most_bytes)

    async def call(self, request: bytes, id: str, hear: Hear) -> ToolEnd:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this ends its connection, which cancels it there."""
        connections = self._connections
        connection = connections.idle() or await connections.take()
        reply = connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(request), request))
        finished = False
        try:
            while True:
                report = report_of(await reply.next(), id)
                if isinstance(report, ToolEnd):
                    finished = True
                    return report
                answer = await reply.heard(hear, report)
                if answer is not None:
                    await self._answer(answer)
        finally:
            connection.leave(finished=finished)

    async def ask(self, request: bytes, id: str) -> JsonObject:  # noqa: A002 - its word
        """Something that the hall itself wants to know: the whole response."""
        return response_of(await self._post(request), id)

    def close(self) -> None:
        """End all connections, and whatever runs on them."""
        self._connections.close()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return self._connections.open

    @property
    def idle(self) -> int:
        """How many of them wait for a call."""
        return self._connections.spare

    async def _answer(self, answer: bytes) -> None:
        """Send what came of a question; who did not get it waits for ever, and so would the call."""
        try:
            await self._post(answer)  # refused, if the call has just ended: that is in its own reply
        except Lost as lost:
            raise Lost(f"an answer did not get there: {lost.why}", delivered=True) from None

    async def _post(self, request: bytes) -> bytes:
        connection = await self._connections.take(MOST)
        reply = connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(request), request))
        try:
            return await reply.next()
        finally:
            connection.leave(finished=False)


def _head(url: Url, token: Secret) -> bytes:
    """All that is the same for every request."""
    host = url.origin.partition("//")[2]
    lines = [
        f"POST {url.path.rstrip('/')}/hub HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {header(token.reveal())}",
        "Content-Type: application/json",
        "Accept: application/json, application/x-ndjson",
        "Content-Length: ",
    ]
    return "\r\n".join(lines).encode("ascii")
