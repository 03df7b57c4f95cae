"""The ceiling: the least a raw ASGI app must do for one `tools/call`, on the same libraries and uvicorn.

`work` decodes, validates, calls, validates and encodes. `full` also checks the headers, looks up the key, takes from a
token bucket, records the call in a file and counts it in a histogram, each in the cheapest way that still does it.
"""

import argparse
import asyncio
import os
from bisect import bisect_left
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import sha256
from pathlib import Path
from time import monotonic, time
from typing import Any, Literal

import jsonschema_rs
import msgspec
import uvicorn

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = dict[bytes, bytes]

REVISION = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "ceiling", "version": "1"}}
NUMBER = {"type": "number"}
ACCEPTS = {
    "type": "object",
    "properties": {"a": NUMBER, "b": NUMBER},
    "required": ["a", "b"],
    "additionalProperties": False,
}
RETURNS = {"type": "object", "properties": {"result": NUMBER}, "required": ["result"]}
BOUNDS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]
FLUSH_SECONDS = 0.05


class Params(msgspec.Struct):
    """Of `tools/call`."""

    name: str
    arguments: dict[str, Any]
    meta: dict[str, Any] = msgspec.field(name="_meta")


class Request(msgspec.Struct):
    """The only message that is understood."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: Params


class Line(msgspec.Struct):
    """One record."""

    time: float
    caller: str
    tool: str
    request: int | str
    microseconds: int
    arguments_sha256: str
    bytes_in: int
    bytes_out: int


decoder = msgspec.json.Decoder(Request)
encode = msgspec.json.Encoder().encode


async def add(a: float, b: float) -> dict[str, float]:
    """The tool."""
    return {"result": a + b}


class Refused(Exception):
    """Anything that is not a good call."""


class Work:
    """Decode, validate, call, validate, encode."""

    def __init__(self) -> None:
        self.tools = {"add": add}
        self.accepts = jsonschema_rs.validator_for(ACCEPTS)
        self.returns = jsonschema_rs.validator_for(RETURNS)

    async def answer(self, headers: Headers, body: bytes) -> bytes:  # noqa: ARG002 - only `full` looks at the headers
        """The reply to one body."""
        return await self.run(decoder.decode(body))

    async def run(self, request: Request) -> bytes:
        """The reply to one request."""
        params = request.params
        self.accepts.validate(params.arguments)
        value = await self.tools[params.name](**params.arguments)
        self.returns.validate(value)
        content = [{"type": "text", "text": encode(value).decode()}]
        result = {"content": content, "structuredContent": value, "resultType": "complete", "_meta": SERVER}
        return encode({"jsonrpc": "2.0", "id": request.id, "result": result})


class Full(Work):
    """And all that surrounds a call in production."""

    def __init__(self, key: str, record: Path) -> None:
        super().__init__()
        self.callers = {sha256(key.encode()).digest(): "bench"}
        self.buckets = {"bench": (1e6, monotonic())}
        self.file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.lines: list[bytes] = []
        self.written: asyncio.Future[int] | None = None  # the latest batch
        self.histogram = [0] * (len(BOUNDS) + 1)

    async def answer(self, headers: Headers, body: bytes) -> bytes:
        """The reply to one body."""
        started = monotonic()
        caller = self.admit(headers, started)
        request = decoder.decode(body)
        check(headers, request)
        reply = await self.run(request)
        elapsed = monotonic() - started
        self.histogram[bisect_left(BOUNDS, elapsed)] += 1
        digest = sha256(encode(request.params.arguments)).hexdigest()
        name = request.params.name
        self.keep(Line(time(), caller, name, request.id, int(elapsed * 1e6), digest, len(body), len(reply)))
        return reply

    def admit(self, headers: Headers, now: float) -> str:
        """The caller of this key, within its limit."""
        caller = self.callers.get(sha256(headers[b"authorization"][7:]).digest())
        if caller is None:
            raise Refused
        tokens, filled = self.buckets[caller]
        tokens = min(1e6, tokens + (now - filled) * 1e6)
        if tokens < 1:
            raise Refused
        self.buckets[caller] = (tokens - 1, now)
        return caller

    def keep(self, line: Line) -> None:
        """Encoded now, written soon by a thread."""
        if not self.lines:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        self.lines.append(encode(line))

    def flush(self) -> None:
        """Hand the lines over."""
        if self.lines:  # else `settle` was earlier
            batch, self.lines = b"\n".join(self.lines) + b"\n", []
            self.written = asyncio.get_running_loop().run_in_executor(None, os.write, self.file, batch)

    async def settle(self) -> None:
        """Wait until all lines are written."""
        self.flush()
        if self.written is not None:
            await self.written


def check(headers: Headers, request: Request) -> None:
    """The headers say what the body says."""
    meta = request.params.meta
    good = (
        headers[b"mcp-protocol-version"] == REVISION.encode() == meta[VERSION_KEY].encode()
        and headers[b"mcp-method"] == request.method.encode()
        and headers[b"mcp-name"] == request.params.name.encode()
        and CAPABILITIES_KEY in meta
    )
    if not good:
        raise Refused


class Ceiling:
    """The ASGI application."""

    def __init__(self, work: Work) -> None:
        self.work = work

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; a bad one gets a bare 400."""
        message = await receive()
        body: bytes = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        try:
            status, reply = 200, await self.work.answer(dict(scope["headers"]), body)
        except (Refused, KeyError, msgspec.MsgspecError, jsonschema_rs.ValidationError):
            status, reply = 400, b"{}"
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(reply))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


def main() -> None:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--record", type=Path, help="the file of records; without it the strength is `work`")
    given = parser.parse_args()
    app = Ceiling(Full(given.key, given.record) if given.record else Work())
    uvicorn.run(
        app,
        port=given.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="error",
        proxy_headers=False,
        server_header=False,
    )


if __name__ == "__main__":
    main()
