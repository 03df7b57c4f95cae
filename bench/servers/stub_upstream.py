"""An MCP server that answers at once and does little else, so that the process in front of it is what costs.

It speaks 2026-07-28 for a tool `add(a, b)`; each answer is one JSON text, or an event stream with `--stream`.
"""

import argparse
import asyncio
from typing import Any, TypeAlias, cast

import httptools
import msgspec
import uvloop

Result: TypeAlias = dict[str, Any]

REVISION = "2026-07-28"
NUMBER = {"type": "number"}
ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    "outputSchema": {"type": "object", "properties": {"result": NUMBER}, "required": ["result"]},
}
CACHING: Result = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public"}
DISCOVERED: Result = CACHING | {
    "supportedVersions": [REVISION],
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "stub", "version": "1.0.0"},
}
LISTED: Result = CACHING | {"tools": [ADD]}


class Arguments(msgspec.Struct):
    """The arguments of `add`."""

    a: float = 0
    b: float = 0


class Params(msgspec.Struct):
    """As far as they are looked at."""

    arguments: Arguments = Arguments()


class Request(msgspec.Struct):
    """As far as it is looked at."""

    id: msgspec.Raw = msgspec.Raw(b"null")
    method: str = ""
    params: Params = Params()


class Stub(asyncio.Protocol):
    """One connection; requests follow each other on it."""

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it for the answers."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Forget the request before."""
        self._body = b""

    def on_body(self, piece: bytes) -> None:
        """Take a piece."""
        self._body += piece

    def on_message_complete(self) -> None:
        """Answer the request; there is no GET stream."""
        if self._parser.get_method() != b"POST":
            self._transport.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            return
        request = msgspec.json.decode(self._body, type=Request)
        answer = b'{"jsonrpc":"2.0","id":%b,%b}' % (bytes(request.id), _answer(request))
        kind = b"application/json"
        if self._streams:
            answer, kind = b"event: message\ndata: %b\n\n" % answer, b"text/event-stream"
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(answer), answer)
        )


def _answer(request: Request) -> bytes:
    match request.method:
        case "tools/call":
            total = request.params.arguments.a + request.params.arguments.b
            value = {"result": total}
            text = {"type": "text", "text": msgspec.json.encode(value).decode()}
            result: Result = {"resultType": "complete", "content": [text], "structuredContent": value}
        case "tools/list":
            result = LISTED
        case "server/discover":
            result = DISCOVERED
        case _:
            return b'"error":{"code":-32601,"message":"Method not found"}'
    return b'"result":' + msgspec.json.encode(result)


async def _serve(port: int, *, streams: bool) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Stub(streams=streams), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--stream", action="store_true")
    given = parser.parse_args()
    uvloop.run(_serve(given.port, streams=given.stream))


if __name__ == "__main__":
    main()
