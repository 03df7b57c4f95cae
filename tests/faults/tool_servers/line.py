"""A caller's own connections to a hall: each call gets one answer there, and nothing comes that nobody waits for."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.harness.dialect_clients import Call, HubDialect, Poster
from tests.harness.http_client import HOST, AsyncConnection, Response, http_request

_NEWS = ("tool_progress", "tool_log")


class UnexpectedMessage(AssertionError):
    """A message came that answers no call."""


class Line:
    """One HTTP connection, and where a way needs it one WebSocket, both kept from call to call."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: AsyncConnection | None = None
        self._socket: ClientConnection | None = None

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Response:
        """As every dialect client sends its calls; by the person at this machine."""
        assert caller is None
        return await self.request("POST", path, body, {"content-type": "application/json", **headers})

    async def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        """Send one, and read its reply."""
        if self._connection is None:
            self._connection = await AsyncConnection.open(self._port)
        usual = {"host": f"{HOST}:{self._port}", "content-length": str(len(body))}
        self._connection.send(http_request(method, path, {**usual, **headers}.items(), body))
        reply = await self._connection.reply()
        if reply.headers.get("connection") == "close":
            await self._hang_up()
        return reply

    async def socket(self) -> ClientConnection:
        """To `/hub`."""
        if self._socket is None:
            self._socket = await connect(f"ws://{HOST}:{self._port}/hub", proxy=None)
        return self._socket

    def abort(self) -> None:
        """Let go of what is still open."""
        if self._connection is not None:
            self._connection.abort()
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self) -> None:
        """Say goodbye, and read what there is until the hall does so too: there must be nothing."""
        await self._hang_up()
        if self._socket is not None:
            await self._socket.close()
            try:
                raise UnexpectedMessage(await self._socket.recv())
            except ConnectionClosed:
                self._socket = None

    async def _hang_up(self) -> None:
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        if rest := await connection.finish():
            raise UnexpectedMessage(rest)


class PersistentHubSocket(HubDialect):
    """The hub's Tool API over a WebSocket that is kept."""

    dialect = "hub socket"

    async def send(self, server: Poster, call: Call) -> Response:
        """`tool_request`; its id is told apart from those of all other calls."""
        assert isinstance(server, Line)
        assert isinstance(call.arguments, dict)
        socket, call_id = await server.socket(), call.arguments["nonce"]
        message = {"type": "tool_request", "id": call_id, "tool": call.toolkit, "method": call.tool}
        await socket.send(json.dumps({**message, **call.under("params")}))
        while True:
            frame = await socket.recv(decode=False)
            said = json.loads(frame)
            if said["id"] != call_id:
                raise UnexpectedMessage(frame)
            if said["type"] not in _NEWS:
                return Response(200, httpx2.Headers(), frame)


@asynccontextmanager
async def line_to(port: int) -> AsyncGenerator[Line]:
    """Connections that are closed with the block."""
    line = Line(port)
    try:
        yield line
    finally:
        await line.close()
