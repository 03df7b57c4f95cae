"""An MCP server of one revision over each transport, in the standard library: `revision_mcp.py REVISION TRANSPORT`.

TRANSPORT is stdio, http or sse (2024-11-05 alone). Over HTTP it prints its URL. Each call appends a line to the file
`calls` of the working folder when it begins (its text, or its name) and when it is cancelled, so that a test counts
what really ran.
"""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

MODERN = "2026-07-28"
REVISION, TRANSPORT = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else (MODERN, "stdio")
PORT = int(sys.argv[3]) if len(sys.argv) > 3 else 0
IS_MODERN = REVISION == MODERN
Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
SERVER = {"name": "revision", "version": "1"}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "logging": {},
}
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Say hi"}}], "maxTokens": 8}
INPUT = {"type": "object", "properties": {"text": {"type": "string"}}}
_numbers = itertools.count(1)
_replies: dict[Any, asyncio.Future[Message]] = {}
_running: dict[Any, asyncio.Task[None]] = {}
_listeners: set[Send] = set()
_sessions: set[str] = set()
_extra: list[str] = []  # tools that were added


def note(text: str) -> None:
    with Path("calls").open("a") as file:
        file.write(text + "\n")


async def ask(method: str, params: Message, send: Send) -> Message:
    """Ask the client, as the revisions with a handshake do."""
    number = f"q{next(_numbers)}"
    future = _replies[number] = asyncio.get_running_loop().create_future()
    await send({"id": number, "method": method, "params": params})
    reply: Message = await future
    return reply


def text(value: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": value}], **more}


async def question(params: Message, send: Send, method: str, asked: Message) -> Message:
    """The reply to a question, or the result that asks it."""
    if not IS_MODERN:
        reply = await ask(method, asked, send)
        return text(json.dumps(reply["result"])) if "result" in reply else text(reply["error"]["message"], isError=True)
    replies = params.get("inputResponses")
    if not replies:
        requests = {"who": {"method": method, "params": asked}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": "state-1"}
    assert params["requestState"] == "state-1"
    return text(json.dumps(replies["who"]))


async def run_tool(params: Message, send: Send) -> Message:  # noqa: PLR0911, PLR0912 - one for each tool
    name, arguments, meta = params["name"], params.get("arguments", {}), params.get("_meta", {})
    note(arguments.get("text") or name)
    match name:
        case "echo":
            return text(arguments["text"])
        case "progress":
            for done in (1, 2):
                told = {"progressToken": meta.get("progressToken"), "progress": done, "total": 2}
                await send({"method": "notifications/progress", "params": told})
            return text("done")
        case "log":
            await send({"method": "notifications/message", "params": {"level": "warning", "data": "logged"}})
            return text("done")
        case "touch":
            for listener in list(_listeners):
                await listener({"method": "notifications/resources/updated", "params": {"uri": arguments["text"]}})
            return text("touched")
        case "forget":
            _sessions.clear()
            return text("who are you?")
        case "hang":
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                note("cancelled")
                raise
            return text("late")
        case "fail":
            return text("no such city", isError=True)
        case "ask":
            return await question(params, send, "elicitation/create", FORM)
        case "sample":
            return await question(params, send, "sampling/createMessage", SAMPLE)
        case "change":
            _extra.append(f"added{len(_extra) + 1}")
            for listener in list(_listeners):
                await listener({"method": "notifications/tools/list_changed"})
            return text("changed")
        case _:
            return text(f"unknown tool {name}", isError=True)


TOOLS = ("echo", "progress", "log", "hang", "fail", "ask", "sample", "change", "forget", "touch")


async def answer(request: Message, send: Send) -> Message | None:  # noqa: PLR0911 - one for each method
    """The result of a request; None if there is no such method."""
    params = request.get("params") or {}
    match request["method"]:
        case "initialize" if not IS_MODERN:
            return {"protocolVersion": REVISION, "capabilities": CAPABILITIES, "serverInfo": SERVER}
        case "server/discover" if IS_MODERN:
            info = {"io.modelcontextprotocol/serverInfo": SERVER}
            return {"supportedVersions": [REVISION], "capabilities": CAPABILITIES, "_meta": info}
        case "ping" | "logging/setLevel":
            return {}
        case "resources/subscribe" | "resources/unsubscribe" if not IS_MODERN:
            note(request["method"])
            return {}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": INPUT} for name in (*TOOLS, *_extra)]}
        case "tools/call":
            return await run_tool(params, send)
        case "resources/list":
            return {"resources": [{"uri": f"note:///{Path.cwd().name}", "name": "one"}]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "the text of one"}]}
        case "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "name", "required": True}]}]}
        case "prompts/get":
            said = f"Greet {params['arguments']['name']}"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
        case _:
            return None


async def respond(request: Message, send: Send) -> None:
    """Answer one request; its task can be cancelled."""
    result = await answer(request, send)
    if result is None:
        await send({"id": request["id"], "error": {"code": -32601, "message": "method not found"}})
        return
    if IS_MODERN:
        result = {"resultType": "complete", **result}
        if request["method"].endswith("/list"):
            result |= {"ttlMs": 600_000, "cacheScope": "public"}
    await send({"id": request["id"], "result": result})


async def take(message: Message, send: Send) -> None:
    """Take a message; a request is answered in a task of its own."""
    if "method" not in message:
        _replies.pop(message["id"]).set_result(message)
    elif "id" in message:
        if message["method"] == "subscriptions/listen" and IS_MODERN:
            _listeners.add(send)
            wanted = (message.get("params") or {}).get("notifications", {})
            if wanted.get("resourceSubscriptions"):
                note("resources/subscribe")
            await send({"method": "notifications/subscriptions/acknowledged", "params": {"notifications": wanted}})
            return
        task = _running[message["id"]] = asyncio.get_running_loop().create_task(respond(message, send))
        task.add_done_callback(lambda _: _running.pop(message["id"], None))
    elif message["method"] == "notifications/cancelled":
        running = _running.get(message["params"]["requestId"])
        if running is not None:
            running.cancel()


# --- standard input and output ----------------------------------------------------------------------------------------


async def serve_stdio() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def send(message: Message) -> None:
        os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    if not IS_MODERN:
        _listeners.add(send)
    while line := await reader.readline():
        await take(json.loads(line), send)


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Exchange:
    """One request over HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.method = self.path = ""
        self.headers: dict[str, str] = {}
        self.body = b""

    async def read(self) -> bool:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name
        }
        self.body = await self.reader.readexactly(int(self.headers.get("content-length", "0")))
        return True

    def reply(self, status: int, body: bytes = b"", *headers: str) -> None:
        head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
        if body:
            head.append("Content-Type: application/json")
        self.writer.write("\r\n".join([*head, "", ""]).encode() + body)

    def begin_stream(self) -> None:
        head = "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.writer.write(head.encode())

    def event(self, message: Message) -> None:
        self.raw_event("message", json.dumps({"jsonrpc": "2.0", **message}))

    def raw_event(self, name: str, data: str) -> None:
        event = f"event: {name}\ndata: {data}\n\n".encode()
        self.writer.write(b"%x\r\n%b\r\n" % (len(event), event))

    def end_stream(self) -> None:
        self.writer.write(b"0\r\n\r\n")


async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            exchange = Exchange(reader, writer)
            await exchange.read()
            await (serve_old(exchange) if TRANSPORT == "sse" else serve_streamable(exchange))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def hold(exchange: Exchange, send: Send) -> None:
    """Keep a stream open until its client goes."""
    _listeners.add(send)
    try:
        await exchange.reader.read()
    finally:
        _listeners.discard(send)


async def serve_old(exchange: Exchange) -> None:
    """HTTP+SSE: everything comes on one stream."""

    async def send(message: Message) -> None:
        exchange.event(message)

    if exchange.method == "GET" and exchange.path == "/sse":
        number = f"s{next(_numbers)}"
        _streams[number] = send
        exchange.begin_stream()
        exchange.raw_event("endpoint", f"/messages?session={number}")
        await hold(exchange, send)
    elif exchange.method == "POST" and exchange.path.startswith("/messages?session="):
        exchange.reply(202)
        await take(json.loads(exchange.body), _streams[exchange.path.partition("=")[2]])
    else:
        exchange.reply(405)


_streams: dict[str, Send] = {}


async def serve_streamable(exchange: Exchange) -> None:
    """Streamable HTTP, with a session in the older revisions."""

    async def send(message: Message) -> None:
        exchange.event(message)

    if exchange.path != "/mcp":
        exchange.reply(404)
    elif exchange.method == "GET" and not IS_MODERN:
        exchange.begin_stream()
        await hold(exchange, send)
    elif exchange.method == "DELETE":
        _sessions.discard(exchange.headers.get("mcp-session-id", ""))
        exchange.reply(200)
    elif exchange.method != "POST":
        exchange.reply(405)
    else:
        await take_post(exchange, json.loads(exchange.body), send)


async def take_post(exchange: Exchange, message: Message, send: Send) -> None:
    method, session = message.get("method"), exchange.headers.get("mcp-session-id")
    if not IS_MODERN and method != "initialize" and session not in _sessions:
        error = {"code": -32000 if session is None else -32600, "message": "no valid session"}
        body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}).encode()
        exchange.reply(400 if session is None else 404, body)
    elif method is None or "id" not in message:
        exchange.reply(202)
        await take(message, send)
    elif method == "initialize":
        note("initialize")
        _sessions.add(number := f"session-{next(_numbers)}")
        result = await answer(message, send)
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        exchange.reply(200, body, f"Mcp-Session-Id: {number}")
    elif method == "subscriptions/listen":
        exchange.begin_stream()
        await take(message, send)
        await hold(exchange, send)
    else:
        await stream_answer(exchange, message, send)


async def stream_answer(exchange: Exchange, message: Message, send: Send) -> None:
    """Answer on a stream; a modern client that hangs up cancels the request."""
    exchange.begin_stream()
    await take(message, send)
    task = _running[message["id"]]
    gone = asyncio.ensure_future(exchange.reader.read(1)) if IS_MODERN else None
    await asyncio.wait({task} if gone is None else {task, gone}, return_when=asyncio.FIRST_COMPLETED)
    if gone is not None and gone.done() and not gone.result():
        task.cancel()
        raise ConnectionError
    if gone is not None:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    if not task.cancelled():
        exchange.end_stream()


async def main() -> None:
    if TRANSPORT == "stdio":
        await serve_stdio()
        return
    server = await asyncio.start_server(serve_connection, "127.0.0.1", PORT, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    path = "sse" if TRANSPORT == "sse" else "mcp"
    print(json.dumps({"url": f"http://127.0.0.1:{port}/{path}"}), flush=True)  # noqa: T201 - a line for the test
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
