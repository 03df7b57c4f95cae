"""Calls to a tool server that listens: each is one POST, over connections that are kept."""

import asyncio
from functools import partial

from toolhall.dialects.hub.remote import ToolEnd
from toolhall.egress.dialing import Dial
from toolhall.egress.errors import EgressRefused
from toolhall.egress.urls import Url, header
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret
from toolhall.runners.hub.connection import Connection, Reply
from toolhall.runners.hub.connections import Connections
from toolhall.runners.hub.line import CLOSED, MOST_BYTES, Hear, Lost, report_of, response_of


class HttpLine:
    """A line to the server at `url`; EgressRefused at once for one where the hall does not go."""

    def __init__(self, url: str, token: Secret, dial: Dial, most_bytes: int = MOST_BYTES) -> None:
        target = dial.read(url)
        if target.query is not None:
            raise EgressRefused(f"{target.shown} has a query; a tool server's url is https://host[:port]/path")
        self._head = _head(target, token)
        self._connect = partial(Connections, dial, target, most_bytes)
        self._connections: Connections | None = None  # in the loop in which the last call was made
        self._closed = False

    async def call(self, request: bytes, id: str, hear: Hear) -> ToolEnd:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this ends its connection, which cancels it there."""
        connections = self._here()
        connection = connections.idle() or await connections.take(for_call=True)
        reply = self._sent(connection, request)
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

    def rest(self) -> None:
        """End the connections that no call needs now."""
        if self._connections is not None:
            self._connections.rest()

    def close(self) -> None:
        """End all connections, and whatever runs on them."""
        self._closed = True
        if self._connections is not None:
            self._connections.close()

    @property
    def open(self) -> int:
        """How many connections there are."""
        return 0 if self._connections is None else self._connections.open

    @property
    def idle(self) -> int:
        """How many of them wait for a call."""
        return 0 if self._connections is None else self._connections.spare

    def _here(self) -> Connections:
        """The connections of the loop that runs now; those of one that has stopped lead nowhere."""
        found = self._connections
        if found is not None and found.loop.is_running():
            return found
        if self._closed:
            raise Lost(CLOSED, delivered=False)
        if found is not None:
            found.close()
        self._connections = found = self._connect(asyncio.get_running_loop())
        return found

    def _sent(self, connection: Connection, request: bytes) -> Reply:
        return connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(request), request))

    async def _answer(self, answer: bytes) -> None:
        """Send what came of a question; who did not get it waits for ever, and so would the call."""
        try:
            await self._post(answer)  # refused, if the call has just ended: that is in its own reply
        except Lost as lost:
            raise Lost(f"an answer did not get there: {lost.why}", delivered=True) from None

    async def _post(self, request: bytes) -> bytes:
        connection = await self._here().take(for_call=False)
        reply = self._sent(connection, request)
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
