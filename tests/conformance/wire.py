"""MCP over HTTP by hand: what is sent is what the test says, and nothing in between tidies it up."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import httpx2

from tests.conformance import judge
from tests.conformance.judge import MODERN

Json: TypeAlias = Any
Message: TypeAlias = dict[str, Any]
Headers: TypeAlias = Mapping[str, str] | list[tuple[bytes, bytes]]

WAIT = 60.0  # seconds that anything may take; nothing takes that long unless something is wrong
QUIET = 0.2  # seconds without a message that must do as proof that none comes

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{_PREFIX}protocolVersion"
CAPABILITIES_KEY = f"{_PREFIX}clientCapabilities"
CLIENT_KEY = f"{_PREFIX}clientInfo"
LEVEL_KEY = f"{_PREFIX}logLevel"
SERVER_KEY = f"{_PREFIX}serverInfo"
SUBSCRIPTION_KEY = f"{_PREFIX}subscriptionId"
CLIENT = {"name": "wire", "version": "1.0.0"}


def request(method: str, params: Json = None, id: Json = 1) -> Message:  # noqa: A002 - JSON-RPC's word
    """A request."""
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: Json = None) -> Message:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def initialize(revision: str, capabilities: Json = None, id: Json = 1) -> Message:  # noqa: A002
    """The request that opens a session of an older revision."""
    params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": CLIENT}
    return request("initialize", params, id)


def modern_meta(capabilities: Json = None, **more: Json) -> Message:
    """What every request of the newest revision brings along."""
    return {VERSION_KEY: MODERN, CLIENT_KEY: CLIENT, CAPABILITIES_KEY: capabilities or {}, **more}


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """The headers in which a request of the newest revision repeats what its body says."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if name is None:
        return headers
    plain = re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", name)
    return {**headers, "Mcp-Name": name if plain else wrapped(name)}


def wrapped(text: str) -> str:
    """A value as it goes into a header that could not hold it as it is."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


NO_HEADERS: dict[str, str] = {}


class Event(NamedTuple):
    """One server-sent event, with the fields that were there."""

    data: str | None = None
    id: str | None = None
    retry: str | None = None
    event: str | None = None

    @property
    def message(self) -> Message | None:
        """The message it carries, if any."""
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


class Reply(NamedTuple):
    """A whole HTTP reply."""

    status: int
    headers: httpx2.Headers
    body: bytes
    events: list[Event]

    @property
    def messages(self) -> list[Message]:
        """Every message in it."""
        if self.body:
            return [json.loads(self.body)]
        return [event.message for event in self.events if event.message]

    @property
    def answer(self) -> Message:
        """The response, which is the last message and the only one of its kind."""
        *before, last = self.messages
        assert "method" not in last, self.messages
        assert all("method" in message for message in before), self.messages
        return last

    @property
    def result(self) -> Message:
        """The result in the response."""
        assert "result" in self.answer, self.answer
        found: Message = self.answer["result"]
        return found

    @property
    def error(self) -> Message:
        """The error in the response."""
        assert "error" in self.answer, self.answer
        found: Message = self.answer["error"]
        return found


class Open:
    """An HTTP reply that is being sent."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._chunks = response.aiter_raw()
        self._waiting = b""

    @property
    def is_stream(self) -> bool:
        """Whether it comes as server-sent events."""
        return self.headers.get("content-type") == "text/event-stream"

    async def event(self) -> Event | None:
        """The next event; None once the stream has ended."""
        async with asyncio.timeout(WAIT):
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

    async def whole(self) -> Reply:
        """The reply once it has been sent."""
        if self.is_stream:
            return Reply(self.status, self.headers, b"", await self.rest())
        async with asyncio.timeout(WAIT):
            return Reply(self.status, self.headers, b"".join([part async for part in self._chunks]), [])

    async def _block(self) -> bytes | None:
        while b"\n\n" not in self._waiting:
            try:
                self._waiting += await anext(self._chunks)
            except StopAsyncIteration:
                assert not self._waiting, f"the stream ended inside an event: {self._waiting!r}"
                return None
        block, _, self._waiting = self._waiting.partition(b"\n\n")
        return block


class Http:
    """Sends whatever it is told to send."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def send(
        self, body: Json = None, headers: Headers = NO_HEADERS, method: str = "POST", path: str = "/mcp"
    ) -> Reply:
        """Send one HTTP request and read the whole reply."""
        async with self.open(body, headers, method, path) as reply:
            return await reply.whole()

    @asynccontextmanager
    async def open(
        self, body: Json = None, headers: Headers = NO_HEADERS, method: str = "POST", path: str = "/mcp"
    ) -> AsyncGenerator[Open]:
        """Send one HTTP request; to leave the block is to hang up."""
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        message = self._client.build_request(method, path, content=content, headers=_pairs(content, headers))
        async with asyncio.timeout(WAIT):
            response = await self._client.send(message, stream=True)
        try:
            yield Open(response)
        finally:
            await response.aclose()

    async def modern(self, method: str, params: Message | None = None, **changed: Json) -> Reply:
        """Send a request of the newest revision; `changed` says what is unusual: id, meta, headers (None: left out)."""
        body, headers = modern_request(method, params, **changed)
        reply = await self.send(body, headers)
        for message in reply.messages:
            judge.check(message, MODERN, method)
        return reply


def modern_request(method: str, params: Message | None = None, **changed: Json) -> tuple[Message, dict[str, str]]:
    """The body and the headers of a request of the newest revision."""
    params = dict(params or {})
    name = params.get("name")
    headers = {**modern_headers(method, name if isinstance(name, str) else None), **changed.pop("headers", {})}
    meta = changed.pop("meta", modern_meta())
    body = request(method, params if meta is None else {**params, "_meta": meta}, changed.pop("id", 1))
    assert not changed, f"nobody knows {changed}"
    return body, {name: value for name, value in headers.items() if value is not None}


async def send_bytes(origin: str, data: bytes) -> bytes:
    """Send these bytes over a connection of their own; the status line and headers that come back."""
    url = httpx2.URL(origin)
    async with asyncio.timeout(WAIT):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            writer.write(data)
            return await reader.readuntil(b"\r\n\r\n")
        finally:
            writer.close()
            await writer.wait_closed()


def _pairs(content: bytes | None, headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers to send: as given, after the usual ones that were not given."""
    given = (
        headers if isinstance(headers, list) else [(name.encode(), value.encode()) for name, value in headers.items()]
    )
    usual = [(b"accept", b"application/json, text/event-stream")]
    if content is not None:
        usual.append((b"content-type", b"application/json"))
    names = {name.lower() for name, _ in given}
    return [pair for pair in usual if pair[0] not in names] + given
