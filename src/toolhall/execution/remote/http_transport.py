"""`HttpTransport`: calls a tool server that listens, one POST per call, over a bounded keep-alive `ConnectionPool`."""

import asyncio
from functools import partial

from toolhall.dialects.hub.call_messages import ToolResponseMessage
from toolhall.egress.addresses import EgressRefused
from toolhall.egress.connection_pool import ConnectionPool, PeerSettings
from toolhall.egress.exchange import TRANSPORT_CLOSED, ExchangeLost
from toolhall.egress.http_connection import HttpConnection
from toolhall.egress.http_response import HttpResponse
from toolhall.egress.resolver import Dialer
from toolhall.egress.urls import Url, check_header_value
from toolhall.execution.remote.replica_transport import (
    MAX_MESSAGE_BYTES,
    ReportHandler,
    check_report,
    check_response,
    decode_message,
    handle_report,
)
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret


class HttpTransport:
    """Calls the tool server at `url`; raises EgressRefused at once for an address that the hall may not reach."""

    def __init__(self, url: str, token: Secret, dial: Dialer, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        target = dial.parse(url)
        if target.query is not None:
            raise EgressRefused(f"{target.display} has a query; a tool server's url is https://host[:port]/path")
        self._head = _request_head(target, token)
        self._make_pool = partial(
            ConnectionPool, dial, target, PeerSettings(peer="the tool server", max_bytes=max_bytes, keeps_headers=False)
        )
        self._pool: ConnectionPool | None = None  # of the loop in which the last call was made
        self._closed = False

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its name in the protocol
        """Run a call at the tool server; cancelling this closes its connection, which cancels the call there."""
        pool = self._pool_for_loop()
        connection = pool.acquire_idle() or await pool.acquire(for_call=True)
        response = self._send(connection, request)
        finished = False
        try:
            await response.wait()  # nothing can have come yet
            while True:
                while (message := response.pop()) is None:
                    await response.wait()
                report = check_report(decode_message(message), id)
                if isinstance(report, ToolResponseMessage):
                    finished = True
                    return report
                answer = await handle_report(response, on_report, report)
                if answer is not None:
                    await self._send_answer(answer)
        finally:
            connection.release(finished=finished)

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its name in the protocol
        """Send a request of the hall itself; returns the whole response."""
        return check_response(decode_message(await self._post(body)), id)

    def close_idle(self) -> None:
        """Close connections that no call uses now."""
        if self._pool is not None:
            self._pool.close_idle()

    def close(self) -> None:
        """Close all connections; running calls are lost."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return 0 if self._pool is None else self._pool.open_count

    @property
    def idle_count(self) -> int:
        """How many of them are idle."""
        return 0 if self._pool is None else self._pool.idle_count

    def _pool_for_loop(self) -> "ConnectionPool":
        """The connections of the running loop; those of a loop that has stopped cannot be used any more."""
        pool = self._pool
        if pool is not None and pool.loop.is_running():
            return pool
        if self._closed:
            raise ExchangeLost(TRANSPORT_CLOSED, delivered=False)
        if pool is not None:
            pool.close()
        self._pool = pool = self._make_pool(asyncio.get_running_loop())
        return pool

    def _send(self, connection: HttpConnection, request: bytes) -> HttpResponse:
        return connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(request), request))

    async def _send_answer(self, answer: bytes) -> None:
        """Send the answer to a question; if that fails the call is lost, because its tool would wait for ever."""
        try:
            await self._post(answer)  # the server refuses it if the call has just ended; the call's own response tells
        except ExchangeLost as lost:
            raise ExchangeLost(f"an answer did not get there: {lost.reason}", delivered=True) from None

    async def _post(self, request: bytes) -> bytes:
        connection = await self._pool_for_loop().acquire(for_call=False)
        response = self._send(connection, request)
        try:
            while (message := response.pop()) is None:
                await response.wait()
            return message
        finally:
            connection.release(finished=False)


def _request_head(url: Url, token: Secret) -> bytes:
    """The request head up to the value of Content-Length, which is the same for every request."""
    host = url.origin.partition("//")[2]
    lines = [
        f"POST {url.path.rstrip('/')}/hub HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {check_header_value(token.reveal())}",
        "Content-Type: application/json",
        "Accept: application/json, application/x-ndjson",
        "Content-Length: ",
    ]
    return "\r\n".join(lines).encode("ascii")
