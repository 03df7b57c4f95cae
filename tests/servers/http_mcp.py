"""An MCP server over HTTP on loopback, of any revision, whose answers a test may replace method by method."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from ipaddress import ip_address
from typing import Any, TypeAlias

from tests.harness.patience import patience
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.resolver import Dialer

Message: TypeAlias = dict[str, Any]
LOCAL = Dialer(EgressAllowlist()).with_address(ip_address("127.0.0.1"))
MODERN = "2026-07-28"
SESSION = "session-1"
CAPABILITIES: Message = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}


class Wire:
    """One HTTP request, and its response as far as it was written."""

    def __init__(self, head: str, body: bytes, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        start, *lines = head.split("\r\n")
        self.method, self.path, _ = start.split(" ")
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        self.message: Message = json.loads(body) if body else {}
        self._writer = writer
        self._reader = reader

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, or the HTTP method of a request without a message, or `answer`."""
        return str(self.message.get("method", "answer")) if self.message else self.method

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def send(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        """A whole response."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
        self.write("\r\n".join(lines).encode() + body)

    def json(self, message: Any, status: str = "200 OK", *headers: str) -> None:
        self.send(json.dumps(message).encode(), status, "Content-Type: application/json", *headers)

    def result(self, result: Any, *headers: str) -> None:
        """The response to the request, as JSON."""
        self.json(self.response(result), "200 OK", *headers)

    def error(self, code: int, text: str = "no", status: str = "200 OK", **more: Any) -> None:
        error = {"code": code, "message": text, **more}
        self.json({"jsonrpc": "2.0", "id": self.message.get("id"), "error": error}, status)

    def response(self, result: Any) -> Message:
        return {"jsonrpc": "2.0", "id": self.message.get("id"), "result": result}

    def start_stream(self, *headers: str) -> None:
        """Begin an event stream in chunks."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", *headers, "", ""]
        self.write("\r\n".join(lines).encode())

    def event(self, message: Any, *fields: str) -> None:
        """One event, with fields such as `id: 1`."""
        data = message if isinstance(message, str) else json.dumps(message)
        self.chunk("".join(f"{field}\n" for field in (*fields, f"data: {data}")) + "\n")

    def chunk(self, text: str) -> None:
        data = text.encode()
        self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_stream(self) -> None:
        self.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        async with asyncio.timeout(patience()):
            with suppress(ConnectionError):
                assert await self._reader.read(1) == b""


Answer: TypeAlias = Callable[[Wire], Awaitable[None]]


class HttpMcpServer:
    """The server: `on` has the answers by method, `seen` every request in order."""

    def __init__(self, revision: str, *, has_sessions: bool = True, capabilities: Message = CAPABILITIES) -> None:
        self.revision = revision
        self.has_sessions = has_sessions
        self.capabilities = capabilities
        self.port = 0
        self.connections = 0
        self.seen: list[Wire] = []
        self.on: dict[str, Answer] = {}
        self._came = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def methods(self) -> list[str]:
        return [wire.rpc for wire in self.seen]

    def named(self, method: str) -> list[Wire]:
        return [wire for wire in self.seen if wire.rpc == method]

    async def until(self, method: str, count: int = 1) -> Wire:
        """Wait for the request of this number with a method."""
        async with asyncio.timeout(patience()), self._came:
            await self._came.wait_for(lambda: len(self.named(method)) >= count)
        return self.named(method)[count - 1]

    async def answer(self, wire: Wire) -> None:
        """Answer one request."""
        async with self._came:
            self.seen.append(wire)
            self._came.notify_all()
        given = self.on.get(wire.rpc)
        if given is not None:
            await given(wire)
        elif wire.rpc in ("GET", "DELETE"):
            wire.send(b"", "405 Method Not Allowed")
        elif "id" not in wire.message or wire.rpc == "answer":
            wire.send(b"", "202 Accepted")
        elif self.revision == MODERN:
            self._answer_modern(wire)
        else:
            self._answer_legacy(wire)

    def _answer_modern(self, wire: Wire) -> None:
        assert wire.rpc == "initialize" or wire.headers["mcp-protocol-version"] == MODERN
        assert wire.rpc == "initialize" or wire.headers["mcp-method"] == wire.rpc
        if wire.rpc == "server/discover":
            info = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
            wire.result({"supportedVersions": [MODERN], "capabilities": self.capabilities, "_meta": info})
        elif wire.rpc == "subscriptions/listen":
            wire.start_stream()
            wire.event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {}})
        elif wire.rpc == "initialize":
            wire.error(-32022, status="400 Bad Request", data={"supported": [MODERN]})
        else:
            self._answer_call(wire)

    def _answer_legacy(self, wire: Wire) -> None:
        if wire.rpc == "initialize":
            info = {"name": "scripted", "version": "1"}
            result = {"protocolVersion": self.revision, "capabilities": self.capabilities, "serverInfo": info}
            wire.result(result, *([f"Mcp-Session-Id: {SESSION}"] if self.has_sessions else []))
        elif self.has_sessions and wire.headers.get("mcp-session-id") != SESSION:
            wire.error(-32000, "no session", status="400 Bad Request")
        else:
            self._answer_call(wire)

    def _answer_call(self, wire: Wire) -> None:
        if wire.rpc == "tools/call":
            text = json.dumps(wire.message["params"].get("arguments"))
            wire.result({"content": [{"type": "text", "text": text}]})
        elif wire.rpc in ("resources/subscribe", "ping", "logging/setLevel"):
            wire.result({})
        else:
            wire.error(-32601)


@asynccontextmanager
async def serving(server: HttpMcpServer, answer: Answer | None = None) -> AsyncGenerator[HttpMcpServer]:
    """Run it on a free port; every connection is kept until it is cut."""
    tasks: set[asyncio.Task[None]] = set()
    respond = answer or server.answer

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(fields.get("content-length", "0")))
                await respond(Wire(head, body, writer, reader))

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
