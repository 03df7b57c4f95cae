"""A caller's own connections to a hall: each call gets one answer there, and nothing comes that nobody waits for."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.properties.callers.house import Building, Reply
from tests.properties.callers.ways import Call, Hub

HOST = "127.0.0.1"
_NEWS = ("tool_progress", "tool_log")


class UnexpectedMessage(AssertionError):
    """A message came that answers no call."""


class Line:
    """One HTTP connection, and where a way needs it one WebSocket, both kept from call to call."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._socket: ClientConnection | None = None

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Reply:
        """As every way of tests/properties/callers/ways.py sends its calls; by the person at this machine."""
        assert caller is None
        return await self.request("POST", path, body, {"content-type": "application/json", **headers})

    async def request(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send one, and read its reply."""
        reader, writer = await self._connected()
        usual = {"host": f"{HOST}:{self._port}", "content-length": str(len(body))}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**usual, **headers}.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        reply = await _read(reader)
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
        if self._streams is not None:
            self._streams[1].transport.abort()
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

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self._port)
        return self._streams

    async def _hang_up(self) -> None:
        if self._streams is None:
            return
        (reader, writer), self._streams = self._streams, None
        try:
            writer.write_eof()
            if rest := await reader.read():
                raise UnexpectedMessage(rest)
        finally:
            writer.close()
            await writer.wait_closed()


class PersistentHubSocket(Hub):
    """The hub's Tool API over a WebSocket that is kept."""

    dialect = "hub socket"

    async def send(self, house: Building, call: Call) -> Reply:
        """`tool_request`; its id is told apart from those of all other calls."""
        assert isinstance(house, Line)
        assert isinstance(call.arguments, dict)
        socket, call_id = await house.socket(), call.arguments["nonce"]
        message = {"type": "tool_request", "id": call_id, "tool": call.toolkit, "method": call.tool}
        await socket.send(json.dumps({**message, **call.under("params")}))
        while True:
            frame = await socket.recv(decode=False)
            said = json.loads(frame)
            if said["id"] != call_id:
                raise UnexpectedMessage(frame)
            if said["type"] not in _NEWS:
                return Reply(200, {}, frame)


async def _read(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join([piece async for piece in _pieces(reader)])
    else:
        body = await reader.readexactly(int(headers["content-length"]))
    return Reply(int(first.split()[1]), headers, body)


async def _pieces(reader: asyncio.StreamReader) -> AsyncGenerator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)


@asynccontextmanager
async def line_to(port: int) -> AsyncGenerator[Line]:
    """Connections that are closed with the block."""
    line = Line(port)
    try:
        yield line
    finally:
        await line.close()
