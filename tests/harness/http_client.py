"""HTTP/1.1 clients: raw bytes over one connection, synchronous and asynchronous, and a pooled client of whole requests.

What is sent is what the test says; nothing in between corrects it.
"""

import asyncio
import json
import select
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import httpx2

from tests.harness.patience import patience

HOST = "127.0.0.1"
QUIET = 0.2  # seconds without an event that must do as proof that none comes
Json: TypeAlias = Any
Message: TypeAlias = dict[str, Any]
Header: TypeAlias = tuple[str, str]
Headers: TypeAlias = Mapping[str, str] | list[tuple[bytes, bytes]]
NO_HEADERS: dict[str, str] = {}
_READ_BYTES = 65536


class Event(NamedTuple):
    """One server-sent event, with the fields that it has."""

    data: str | None = None
    id: str | None = None
    retry: str | None = None
    event: str | None = None

    @property
    def message(self) -> Message | None:
        """The JSON message in it, if any."""
        found: Message | None = json.loads(self.data) if self.data else None
        return found


def parse_event(block: bytes) -> Event | None:
    """The event in a block of lines; None for a comment."""
    lines = [line.partition(":") for line in block.decode().split("\n")]
    fields = {name: value.removeprefix(" ") for name, _, value in lines}
    assert len(fields) == len(lines), f"a field is there twice: {block!r}"
    if fields.keys() == {""}:
        return None
    return Event(**fields)


def parse_events(stream: bytes) -> list[Event]:
    """Every complete event of a stream."""
    *blocks, _ = stream.split(b"\n\n")
    return [event for event in map(parse_event, blocks) if event]


def parse_messages(stream: bytes) -> list[Message]:
    """Every JSON message in the events of a stream, which may still be divided into chunks."""
    data = [line.removeprefix("data: ") for line in stream.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(each) for each in data if each]


class Response(NamedTuple):
    """A whole HTTP response."""

    status: int
    headers: httpx2.Headers
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    @property
    def is_stream(self) -> bool:
        """Whether the body is a stream of server-sent events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def events(self) -> list[Event]:
        """The server-sent events of a stream."""
        return parse_events(self.body) if self.is_stream else []

    @property
    def messages(self) -> list[Message]:
        """Every JSON message: those of a stream, or the body itself."""
        if self.is_stream:
            return [event.message for event in self.events if event.message]
        return [self.json] if self.body else []

    @property
    def answer(self) -> Message:
        """The JSON-RPC response, which is the last message and the only one of its kind."""
        *before, last = self.messages
        assert "method" not in last, self.messages
        assert all("method" in message for message in before), self.messages
        return last

    @property
    def result(self) -> Message:
        """The result in the JSON-RPC response."""
        assert "result" in self.answer, self.answer
        found: Message = self.answer["result"]
        return found

    @property
    def error(self) -> Message:
        """The error in the JSON-RPC response."""
        assert "error" in self.answer, self.answer
        found: Message = self.answer["error"]
        return found


def parse_response(data: bytes) -> tuple[Response, bytes] | None:
    """The first response in these bytes and what follows it; None while it is incomplete."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        return None
    first, *lines = data[: end - 4].decode("latin-1").split("\r\n")
    headers = httpx2.Headers([(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)])
    if headers.get("transfer-encoding") == "chunked":
        parts: list[bytes] = []
        while not parts or parts[-1]:
            line = data.find(b"\r\n", end)
            size = int(data[end:line], 16) if line > 0 else 0
            if line < 0 or len(data) < line + size + 4:
                return None
            parts.append(data[line + 2 : line + 2 + size])
            end = line + size + 4
        body = b"".join(parts)
    else:
        start, end = end, end + int(headers.get("content-length", 0))
        if len(data) < end:
            return None
        body = data[start:end]
    return Response(int(first.split()[1]), headers, body), data[end:]


def http_request(method: str, path: str, headers: Iterable[Header], body: bytes = b"") -> bytes:
    """A request, exactly as these headers say."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


class Connection:
    """One TCP connection to a port of this machine, read and written in bytes."""

    def __init__(self, port: int, host: str = HOST) -> None:
        self.port = port
        self._socket = socket.create_connection((host, port), patience())
        self._read = b""
        self.parts = 0  # how often something was waited for
        self.seen = bytearray()  # everything that ever arrived

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it in the ordinary way."""
        self._socket.close()

    def reset(self) -> None:
        """Close it so that the server sees a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self._socket.sendall(data)

    def send_if_open(self, data: bytes) -> None:
        """Send these bytes, unless the server has closed already."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def wait(self, seconds: float) -> None:
        """Change how long reading may take."""
        self._socket.settimeout(seconds)

    def reply(self) -> Response:
        """The next response, whole."""
        while (found := parse_response(self._read)) is None:
            self._more_or_fail()
        response, self._read = found
        return response

    def head(self) -> bytes:
        """The status line and headers of the next response only."""
        while b"\r\n\r\n" not in self._read:
            self._more_or_fail()
        found, mark, self._read = self._read.partition(b"\r\n\r\n")
        return found + mark

    def part(self) -> bytes:
        """Whatever comes next; nothing once the server has closed."""
        self.parts += 1
        if not self._read:
            self._more()
        data, self._read = self._read, b""
        return data

    def until(self, text: bytes) -> None:
        """Read on until this text has come."""
        while text not in self.seen:
            self._more_or_fail()
        self._read = b""

    @property
    def answered(self) -> bool:
        """Whether there is something to read, or the server has closed."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def rest(self) -> bytes:
        """Everything until the server closes."""
        while self._more():
            pass
        data, self._read = self._read, b""
        return data

    def _more_or_fail(self) -> None:
        if not self._more():
            raise ConnectionError(f"the server closed the connection after {self._read[-200:]!r}")

    def _more(self) -> bool:
        try:
            data = self._socket.recv(_READ_BYTES)
        except ConnectionResetError:
            data = b""
        self._read += data
        self.seen += data
        return bool(data)


def fetch(port: int, request: bytes, host: str = HOST) -> Response:
    """Send one request on a connection of its own."""
    with Connection(port, host) as connection:
        connection.send(request)
        return connection.reply()


def request_url(
    url: str, message: Json = None, headers: Mapping[str, str] = NO_HEADERS, *, method: str | None = None
) -> Response:
    """Send one request to a URL, with a message as JSON if there is one (then POST unless told)."""
    parts = urlsplit(url)
    chosen = method or ("GET" if message is None else "POST")
    body = b"" if message is None else json.dumps(message).encode()
    usual = {"host": parts.netloc}
    if message is not None:
        usual["content-type"] = "application/json"
    if body or chosen != "GET":
        usual["content-length"] = str(len(body))
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = usual | {name.lower(): value for name, value in headers.items()}
    return fetch(parts.port or 80, http_request(chosen, target, sent.items(), body), parts.hostname or HOST)


def healthy(port: int) -> bool:
    """Whether `/health` says so."""
    reply = fetch(port, http_request("GET", "/health", [("Host", f"{HOST}:{port}")]))
    return reply.status == 200 and b'"healthy"' in reply.body


class AsyncConnection:
    """One TCP connection, read and written in bytes without blocking the event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._read = b""

    @classmethod
    async def open(cls, port: int, **options: Any) -> "AsyncConnection":
        """Connect to a port of this machine."""
        return cls(*await asyncio.open_connection(HOST, port, **options))

    @property
    def address(self) -> Any:
        """The address of this side."""
        return self._writer.get_extra_info("sockname")

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self._writer.write(data)

    async def reply(self) -> Response:
        """The next response, whole."""
        while (found := parse_response(self._read)) is None:
            self._read += await self._some_or_fail()
        response, self._read = found
        return response

    async def status(self) -> int:
        """The status of the next response, which is read whole."""
        return (await self.reply()).status

    async def head(self) -> bytes:
        """The status line and headers of a response that goes on."""
        while b"\r\n\r\n" not in self._read:
            self._read += await self._some_or_fail()
        found, mark, self._read = self._read.partition(b"\r\n\r\n")
        return found + mark

    async def some(self) -> bytes:
        """Whatever comes next; nothing once the server has closed."""
        if not self._read:
            async with asyncio.timeout(patience()):
                return await self._reader.read(_READ_BYTES)
        data, self._read = self._read, b""
        return data

    async def rest(self) -> bytes:
        """Everything until the server closes, also by a reset."""
        data = b""
        with suppress(ConnectionError):
            while part := await self.some():
                data += part
        return data

    async def finish(self) -> bytes:
        """End the sending side, close once the server has closed, and return what it still sent."""
        data = b""
        try:
            self._writer.write_eof()
            while part := await self.some():
                data += part
        finally:
            self._writer.close()
            await self._writer.wait_closed()
        return data

    def abort(self) -> None:
        """Close at once, without waiting."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close at once."""
        self.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _some_or_fail(self) -> bytes:
        async with asyncio.timeout(patience()):
            data = await self._reader.read(_READ_BYTES)
        if not data:
            raise ConnectionError(f"the server closed the connection after {self._read[-200:]!r}")
        return data


class StreamingResponse:
    """An HTTP response that is read while it is being sent."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._chunks = response.aiter_raw()
        self._read = b""

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of server-sent events."""
        return self.headers.get("content-type") == "text/event-stream"

    async def event(self) -> Event | None:
        """The next event; None once the stream has ended."""
        async with asyncio.timeout(patience()):
            while (block := await self._block()) is not None:
                if event := parse_event(block):
                    return event
        return None

    async def message(self) -> Message:
        """The next message."""
        while (event := await self.event()) is not None:
            if event.message:
                return event.message
        raise AssertionError("the stream ended")

    async def rest(self) -> list[Event]:
        """Every event until the stream ends."""
        events: list[Event] = []
        while (event := await self.event()) is not None:
            events.append(event)
        return events

    async def silent(self) -> bool:
        """Whether no event comes for a while."""
        try:
            async with asyncio.timeout(QUIET):
                return await self.event() is None
        except TimeoutError:
            return True

    async def whole(self) -> Response:
        """The response once it has been sent."""
        async with asyncio.timeout(patience()):
            body = self._read + b"".join([part async for part in self._chunks])
        assert not self.is_stream or not body or body.endswith(b"\n\n"), f"the stream ended inside an event: {body!r}"
        return Response(self.status, self.headers, body)

    async def _block(self) -> bytes | None:
        while b"\n\n" not in self._read:
            try:
                self._read += await anext(self._chunks)
            except StopAsyncIteration:
                assert not self._read, f"the stream ended inside an event: {self._read!r}"
                return None
        block, _, self._read = self._read.partition(b"\n\n")
        return block


class HttpClient:
    """A client with a pool of connections that sends any method, headers and body."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def send(
        self, body: Json = None, headers: Headers = NO_HEADERS, method: str = "POST", path: str = "/mcp"
    ) -> Response:
        """Send one request and read the whole response."""
        async with self.open(body, headers, method, path) as reply:
            return await reply.whole()

    @asynccontextmanager
    async def open(
        self, body: Json = None, headers: Headers = NO_HEADERS, method: str = "POST", path: str = "/mcp"
    ) -> AsyncGenerator[StreamingResponse]:
        """Send one request; to leave the block is to disconnect."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        message = self._client.build_request(method, path, content=content, headers=_pairs(content, headers))
        async with asyncio.timeout(patience()):
            response = await self._client.send(message, stream=True)
        try:
            yield StreamingResponse(response)
        finally:
            await response.aclose()


def _pairs(content: bytes | None, headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers to send: the usual ones that were not given, then the given ones."""
    given = (
        headers if isinstance(headers, list) else [(name.encode(), value.encode()) for name, value in headers.items()]
    )
    usual = [(b"accept", b"application/json, text/event-stream")]
    if content is not None:
        usual.append((b"content-type", b"application/json"))
    names = {name.lower() for name, _ in given}
    return [pair for pair in usual if pair[0] not in names] + given


def connection_pool(origin: str) -> httpx2.AsyncClient:
    """The connections of a client of the server at an origin."""
    limits = httpx2.Limits(max_connections=200)
    return httpx2.AsyncClient(base_url=origin, timeout=patience(), trust_env=False, verify=False, limits=limits)


@asynccontextmanager
async def http_client(origin: str) -> AsyncGenerator[HttpClient]:
    """A client of the server at an origin."""
    async with connection_pool(origin) as pool:
        yield HttpClient(pool)


async def send_bytes(origin: str, data: bytes) -> bytes:
    """Send these bytes over a connection of their own; the status line and headers that come back."""
    connection = await AsyncConnection.open(httpx2.URL(origin).port or 80)
    try:
        connection.send(data)
        return await connection.head()
    finally:
        await connection.close()
