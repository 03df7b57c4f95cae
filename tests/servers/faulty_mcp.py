"""An MCP server that notes what really runs and does harm when it is told to: `faulty_mcp.py ERA TRANSPORT [PORT]`.

ERA is legacy (2025-11-25) or modern (2026-07-28), TRANSPORT stdio or http. In its working folder each line of `calls`
is a call that ran, of `handshakes` a handshake, of `pids` a process; `received` holds every byte that came in, if that
file is there; `tools.json` replaces what it lists. On SIGUSR1 it forgets all sessions.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

LEGACY, MODERN = "2025-11-25", "2026-07-28"
Message = dict[str, Any]
MEGABYTE = 1 << 20
SERVER = {"name": "faulty", "version": "1"}
CAPABILITIES = {"tools": {"listChanged": True}}
HTML = "<!DOCTYPE html>\n<html><body>Bad gateway</body></html>"
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
QUESTION = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}}}
INPUT = {
    "type": "object",
    "properties": {each: {"type": "string"} for each in ("nonce", "kind", "fill")} | {"pause": {"type": "number"}},
}
TOOLS: list[Message] = [
    {"name": name, "description": f"The tool {name}.", "inputSchema": INPUT}
    for name in ("write", "count", "ask", "family", "notify")
]
TOOLS.append({"name": "harm", "inputSchema": INPUT, "outputSchema": NUMBER})


def note(file: str, text: str) -> None:
    """Append a line in one write, so that lines of a process that is killed are whole."""
    descriptor = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(descriptor, text.encode() + b"\n")
    os.close(descriptor)


def listed() -> list[Message]:
    file = Path("tools.json")
    return json.loads(file.read_text()) if file.exists() else TOOLS


def grandchild() -> int:
    """Start a process that outlives whoever does not end it."""
    child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL)
    note("pids", str(child.pid))
    return child.pid


def text(value: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": value}], **more}


class Line:
    """One request over standard input and output; what it writes stands between other answers."""

    session = ""

    def __init__(self, server: "Server", request: Message) -> None:
        self.server = server
        self.request = request

    def message(self, **members: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"

    async def raw(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    async def begin(self) -> None:
        """What follows are messages, and not one answer alone."""

    async def send(self, **members: Any) -> None:
        await self.raw(self.message(**members))

    async def result(self, result: Message) -> None:
        await self.send(id=self.request["id"], result=self.server.complete(self.request, result))

    async def end(self) -> None:
        """Nothing more follows."""


class HttpReply(Line):
    """One request over HTTP: its answer is JSON, or a stream of events once something else was sent."""

    def __init__(self, server: "Server", request: Message, writer: asyncio.StreamWriter, session: str) -> None:
        super().__init__(server, request)
        self.writer = writer
        self.session = session
        self.streams = False

    def message(self, **members: Any) -> bytes:
        event = b"data: " + super().message(**members) + b"\n"
        return b"%x\r\n%b\r\n" % (len(event), event)

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self) -> None:
        if not self.streams:
            self.streams = True
            await self.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def send(self, **members: Any) -> None:
        await self.begin()
        await super().send(**members)

    async def result(self, result: Message) -> None:
        if self.streams:
            await super().result(result)
        else:
            whole = {"jsonrpc": "2.0", "id": self.request["id"], "result": self.server.complete(self.request, result)}
            await self.whole(json.dumps(whole).encode())

    async def whole(self, body: bytes, status: str = "200 OK", kind: str = "application/json", *more: str) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more, "", ""]
        await self.raw("\r\n".join(lines).encode() + body)

    async def end(self) -> None:
        if self.streams:
            await self.raw(b"0\r\n\r\n")

    def hang_up(self) -> None:
        self.writer.close()


class Server:
    """The server of one era; sessions count for themselves."""

    def __init__(self, *, modern: bool) -> None:
        self.modern = modern
        self.counts: Counter[str] = Counter()
        self.sessions: set[str] = set()
        self.opened = 0
        self.listeners: set[Line] = set()
        self.asked: dict[Any, asyncio.Future[Message]] = {}
        self.running: dict[Any, asyncio.Task[None]] = {}
        self.records = Path("received").exists()
        note("pids", str(os.getpid()))

    def complete(self, request: Message, result: Message) -> Message:
        if self.modern and request["method"].endswith("/list"):
            result = {"ttlMs": 3_600_000, "cacheScope": "public", **result}
        return {"resultType": "complete", **result} if self.modern else result

    def received(self, data: bytes) -> None:
        if self.records:
            with Path("received").open("ab") as file:
                file.write(data)

    async def take(self, message: Message, reply: Line) -> None:
        """Take a message; a request is answered in a task of its own, which this returns without waiting for."""
        if "method" not in message:
            self.asked.pop(message["id"]).set_result(message)
        elif message["method"] == "subscriptions/listen":
            self.listeners.add(reply)
            wanted = message["params"]["notifications"]
            meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            told = {"notifications": wanted, "_meta": meta}
            await reply.send(method="notifications/subscriptions/acknowledged", params=told)
        elif "id" in message:
            task = self.running[message["id"]] = asyncio.create_task(self.answer(message, reply))
            task.add_done_callback(lambda _: self.running.pop(message["id"], None))
        elif message["method"] == "notifications/cancelled":
            running = self.running.get(message["params"]["requestId"])
            if running is not None:
                running.cancel()

    async def answer(self, request: Message, reply: Line) -> None:
        with suppress(ConnectionError):
            result = await self.result_of(request, reply)
            if result is not None:
                await reply.result(result)
            await reply.end()

    async def result_of(self, request: Message, reply: Line) -> Message | None:
        match request["method"]:
            case "initialize" if not self.modern:
                note("handshakes", str(os.getpid()))
                return {"protocolVersion": LEGACY, "capabilities": CAPABILITIES, "serverInfo": SERVER}
            case "server/discover" if self.modern:
                info = {"io.modelcontextprotocol/serverInfo": SERVER}
                return {"supportedVersions": [MODERN], "capabilities": CAPABILITIES, "_meta": info}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": listed()}
            case "tools/call":
                return await self.call(request["params"], reply)
            case _:
                error = {"code": -32601, "message": "no such method"}
                body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
                await (reply.whole(body, "404 Not Found") if isinstance(reply, HttpReply) else reply.raw(body + b"\n"))
                return None

    async def call(self, params: Message, reply: Line) -> Message | None:
        arguments = params.get("arguments", {})
        match params["name"]:
            case "count":
                self.counts[reply.session] += 1
                return text(str(self.counts[reply.session]))
            case "ask":
                note("calls", arguments["nonce"])
                number = f"q{len(self.asked)}-{arguments['nonce']}"
                answered = self.asked[number] = asyncio.get_running_loop().create_future()
                await reply.send(id=number, method="elicitation/create", params=QUESTION)
                return text(json.dumps((await answered).get("result")))
            case "family":
                return text(str(grandchild()))
            case "notify":
                for listener in self.listeners:
                    await listener.send(method="notifications/tools/list_changed")
                return text("told")
            case "harm":
                note("calls", arguments["nonce"])
                return await harm(arguments["kind"], params, reply)
            case _:
                note("calls", str(arguments["nonce"]))
                if arguments.get("pause"):
                    await asyncio.sleep(arguments["pause"])
                return text(str(arguments["nonce"]))


async def harm(kind: str, params: Message, reply: Line) -> Message | None:  # noqa: PLR0912 - one for each kind
    """Answer as no server should; a result that is returned follows as the right answer."""
    own, right = reply.request["id"], text("{}", structuredContent={"number": 1})
    token = params.get("_meta", {}).get("progressToken")
    match kind:
        case "schema":
            return text("{}", structuredContent={"number": "seven"})
        case "shape":
            return {"content": "not a list", "structuredContent": [1]}
        case "empty":
            await reply.begin()
            await reply.raw(reply.message(id=own))
        case "wrong id":
            await reply.send(id=own + 1_000, result=right)
            await asyncio.sleep(600)
        case "strangers" | "odd ids":
            for stranger in (own + 7, str(own), "x") if kind == "strangers" else (None, True, [1], 1.5):
                await reply.send(id=stranger, result=text("stolen"))
            return right
        case "twice":
            await reply.begin()
            await reply.raw(reply.message(id=own, result=reply.server.complete(reply.request, right)))
            await reply.raw(reply.message(id=own, result=text("again")))
        case "huge":
            await huge(reply, right)
        case "endless":
            for done in range(10_000_000):
                await reply.send(
                    method="notifications/progress", params={"progressToken": token, "progress": done, "message": "x"}
                )
                await asyncio.sleep(0.001)
        case "html":
            if isinstance(reply, HttpReply):
                await reply.whole(HTML.encode(), "200 OK", "text/html")
                return None
            await reply.raw(HTML.encode() + b"\n")
            return right
        case "slow":
            await reply.begin()
            for byte in reply.message(id=own, result=right):
                await reply.raw(bytes([byte]))
                await asyncio.sleep(0.2)
        case "cut":
            await reply.begin()
            await reply.raw(reply.message(id=own, result=right)[:30])
            reply.hang_up() if isinstance(reply, HttpReply) else os._exit(1)
        case "bytes":
            await reply.begin()
            await reply.raw(reply.message(id=own, result=text("UTF")).replace(b"UTF", b"\xff\xfe\xfd"))
        case "deep":
            await reply.begin()
            await reply.raw(deep(reply.message(id=own, result=text("deep"))))
        case _:
            raise ValueError(kind)
    return None


def deep(message: bytes) -> bytes:
    """The message with 50,000 nested lists in the place of its text; the size of an HTTP chunk changes with it."""
    nested = message.replace(b'"deep"', b"[" * 50_000 + b"]" * 50_000)
    _, mark, rest = nested.partition(b"\r\n")
    return b"%x" % (len(rest) - 2) + mark + rest if mark else nested


async def huge(reply: Line, right: Message) -> None:
    """Far more than a hall passes on; it hangs up long before the end."""
    if isinstance(reply, HttpReply):
        await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        part = b"%x\r\n%b\r\n" % (MEGABYTE, b" " * MEGABYTE)
    else:
        await reply.raw(b'{"jsonrpc":"2.0","result":"')
        part = b"x" * MEGABYTE
    for _ in range(256):
        await reply.raw(part)
    await reply.send(id=reply.request["id"], result=right)


# --- transports -------------------------------------------------------------------------------------------------------


async def serve_stdio(server: Server) -> None:
    reader = asyncio.StreamReader(limit=8 * MEGABYTE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if not server.modern:
        server.listeners.add(Line(server, {}))
    while line := await reader.readline():
        server.received(line)
        message = json.loads(line)
        await server.take(message, Line(server, message))


async def serve_http(server: Server, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await exchange(server, reader, writer):
                pass
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", port, limit=8 * MEGABYTE, backlog=2_000)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, server.sessions.clear)
    port = listening.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}/mcp"}), flush=True)  # noqa: T201 - a line for the test
    await listening.serve_forever()


async def exchange(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; False if its connection is of no more use."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    server.received(head + body)
    message: Message = json.loads(body) if body else {}
    method, session = message.get("method"), headers.get("mcp-session-id", "")
    reply = HttpReply(server, message, writer, session)
    if first.startswith("DELETE"):
        server.sessions.discard(session)
        await reply.whole(b"")
    elif not server.modern and method != "initialize" and session not in server.sessions:
        error = {"code": -32600, "message": "no such session"}
        refusal = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}).encode()
        await reply.whole(refusal, "404 Not Found")
    elif first.startswith("GET") or method == "subscriptions/listen":
        server.listeners.add(reply)
        await reply.begin()
        if method is not None:
            await server.take(message, reply)
        await reader.read()
        server.listeners.discard(reply)
        return False
    elif method == "initialize" and not server.modern:
        server.opened += 1
        server.sessions.add(number := f"{os.getpid()}-{server.opened}")
        result = await server.result_of(message, reply)
        whole = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        await reply.whole(whole, "200 OK", "application/json", f"Mcp-Session-Id: {number}")
    elif "id" not in message or method is None:
        await reply.whole(b"", "202 Accepted")
        await server.take(message, reply)
    else:
        await server.answer(message, reply)
    return not writer.is_closing()


def main() -> None:
    server = Server(modern=sys.argv[1] == "modern")
    if sys.argv[2] == "stdio":
        asyncio.run(serve_stdio(server))
    else:
        asyncio.run(serve_http(server, int(sys.argv[3]) if len(sys.argv) > 3 else 0))


if __name__ == "__main__":
    main()
