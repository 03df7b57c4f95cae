"""A tool server whose response bytes a test gives, and which tracks connections and requests."""

import asyncio
import re
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from queue import Queue
from threading import Thread
from typing import cast

from tests.harness.patience import patience
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.resolver import Dialer
from toolhall.execution.remote.http_transport import HttpTransport
from toolhall.execution.remote.replica_transport import MAX_MESSAGE_BYTES
from toolhall.model.json import Json, encode
from toolhall.model.secret import Secret

TOKEN = "a-token-of-its-own"
LOCAL = Dialer(EgressAllowlist()).with_address(ip_address("127.0.0.1"))
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)\r\n")
_RESET = struct.pack("ii", 1, 0)


class ServerConnection(asyncio.Protocol):
    """One connection, on the side of the server."""

    def __init__(self, fake_tool_server: "FakeToolServer") -> None:
        self._peer = fake_tool_server
        self._came = b""
        self._transport: asyncio.Transport
        self.gone = asyncio.Event()

    def write(self, *parts: bytes) -> None:
        self._transport.write(b"".join(parts))

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def reset(self) -> None:
        """End it as a process does that is killed with something unread."""
        sock = cast("socket.socket", self._transport.get_extra_info("socket"))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._peer.connections += 1
        self._peer.wires.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._peer.wires.discard(self)
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (end := self._came.find(b"\r\n\r\n") + 4) > 3:
            found = _LENGTH.search(self._came)
            size = end + (int(found[1]) if found else 0)
            if len(self._came) < size:
                return
            head, body, self._came = self._came[:end], self._came[end:size], self._came[size:]
            self._peer.came(head, body, self)


class FakeToolServer:
    """The server, with the connections and requests so far."""

    def __init__(self, answer: "Answer") -> None:
        self._answer = answer
        self.port = 0
        self.connections = 0
        self.wires: set[ServerConnection] = set()
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def line(self, most_bytes: int = MAX_MESSAGE_BYTES) -> HttpTransport:
        return HttpTransport(self.url, Secret(TOKEN), LOCAL, most_bytes)

    def came(self, head: bytes, body: bytes, wire: ServerConnection) -> None:
        self.heads.append(head.decode("latin-1"))
        self.bodies.append(body)
        task = asyncio.get_running_loop().create_task(_run(self._answer(body, wire)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


Answer = Callable[[bytes, ServerConnection], Awaitable[None]]


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until this holds."""
    async with asyncio.timeout(patience()):
        while not condition():  # noqa: ASYNC110 - sockets tell nobody
            await asyncio.sleep(0)


async def _run(answer: Awaitable[None]) -> None:
    await answer


@asynccontextmanager
async def fake_tool_server(answer: Answer) -> AsyncGenerator[FakeToolServer]:
    """Listen on loopback until the end of the block."""
    found = FakeToolServer(answer)
    server = await asyncio.get_running_loop().create_server(lambda: ServerConnection(found), "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in [*found.tasks]:
            task.cancel()
        await asyncio.gather(*found.tasks, return_exceptions=True)
        while found.wires:
            wire = next(iter(found.wires))
            wire.abort()
            await wire.gone.wait()
        await server.wait_closed()


@contextmanager
def fake_tool_server_in_thread(answer: Answer) -> Generator[FakeToolServer]:
    """Run the server in a thread with its own event loop, independent of the loops of a test."""
    begun: Queue[tuple[FakeToolServer, asyncio.AbstractEventLoop, asyncio.Event]] = Queue()

    async def listen() -> None:
        end = asyncio.Event()
        async with fake_tool_server(answer) as found:
            begun.put((found, asyncio.get_running_loop(), end))
            await end.wait()

    thread = Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    found, loop, end = begun.get(timeout=patience())
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def tool_response(call_id: str, value: Json = None) -> bytes:
    """A tool_response."""
    return encode({"type": "tool_response", "id": call_id, "result": value, "error": None})


def progress(call_id: str, done: int) -> bytes:
    """A tool_progress."""
    return encode({"type": "tool_progress", "id": call_id, "progress": done})


def question(call_id: str, number: int) -> bytes:
    """A tool_question."""
    form = {"kind": "form", "message": "Who?", "schema": {"type": "object", "properties": {}}}
    return encode({"type": "tool_question", "id": call_id, "number": number, "questions": {"q": form}})


def http_response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An HTTP response with its length."""
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(body: bytes) -> bytes:
    """One chunk of a chunked response."""
    return b"%x\r\n%b\r\n" % (len(body), body)


def stream(*messages: bytes) -> bytes:
    """A chunked response with one message per line."""
    return STREAM + b"".join(chunk(message + b"\n") for message in messages) + LAST
