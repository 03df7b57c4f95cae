"""Asynchronous MCP clients: the same methods for every revision, over HTTP and over standard input and output.

Every message that comes in is checked against the schema of its revision.
"""

import asyncio
import itertools
import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tests.conformance import judge
from tests.harness.http_client import HttpClient, Json, Message, Response, StreamingResponse, connection_pool
from tests.harness.mcp_messages import (
    LEVEL_KEY,
    MODERN,
    McpAnswer,
    initialize,
    modern_meta,
    modern_request,
    notification,
    request,
)
from tests.harness.patience import patience
from toolhall.http.stdio_lines import open_pipe

# What the client replies to a question of the server's; a result, or {"error": ...} around an error.
Respond: TypeAlias = Callable[[Message], Message]

EVERY_FEATURE: Message = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
LINE_LIMIT = 16 * 1024 * 1024
_ids = itertools.count(100)  # shared by all clients: several may follow each other on one pair of pipes


class StatelessMcpClient(HttpClient):
    """An HTTP client that also sends single requests of the newest revision."""

    async def modern(self, method: str, params: Message | None = None, **changed: Json) -> Response:
        """Send a request of the newest revision; `changed` says what is unusual: id, meta, headers (None: left out)."""
        body, headers = modern_request(method, params, **changed)
        reply = await self.send(body, headers)
        for message in reply.messages:
            judge.check(message, MODERN, method)
        return reply


@asynccontextmanager
async def stateless_mcp_client(origin: str) -> AsyncGenerator[StatelessMcpClient]:
    """A client of the server at an origin."""
    async with connection_pool(origin) as pool:
        yield StatelessMcpClient(pool)


class McpClient(ABC):
    """One client; `capabilities` are what it declares, `seen` the definitions that the server's messages fit."""

    def __init__(self, revision: str, capabilities: Message) -> None:
        self.revision = revision
        self.capabilities = capabilities
        self.seen: set[str] = set()
        self._level: str | None = None

    @property
    def modern(self) -> bool:
        """Whether it uses the newest revision."""
        return self.revision == MODERN

    async def ask(
        self, method: str, params: Message | None = None, *, respond: Respond | None = None, **more: Json
    ) -> McpAnswer:
        """Send a request and wait for its answer; `more` may give its id and a progress token."""
        message = self.request(method, params, **more)
        return await self.exchange(message, respond)

    async def call(
        self, tool: str, arguments: Message | None = None, *, respond: Respond | None = None, **more: Json
    ) -> McpAnswer:
        """Call a tool; its questions are answered by `respond`, in as many rounds as it takes."""
        params: Message = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
        return await self.ask_in_rounds("tools/call", params, respond=respond, **more)

    async def ask_in_rounds(
        self, method: str, params: Message, *, respond: Respond | None = None, **more: Json
    ) -> McpAnswer:
        """Send a request; its questions are answered by `respond`, in as many rounds as it takes."""
        heard = await self.ask(method, params, respond=respond, **more)
        while respond and heard.message.get("result", {}).get("resultType") == "input_required":
            asked = heard.result["inputRequests"]
            again = {"inputResponses": {key: respond(each) for key, each in asked.items()}}
            state = {"requestState": heard.result["requestState"]} if "requestState" in heard.result else {}
            following = await self.ask(method, {**params, **again, **state}, **more)
            notices, questions = [*heard.notices, *following.notices], [*heard.questions, *asked.values()]
            heard = McpAnswer(following.message, notices, questions)
        return heard

    async def tools(self) -> list[Message]:
        """Every tool, over all pages."""
        found: list[Message] = []
        params: Message = {}
        while True:
            page = (await self.ask("tools/list", params)).result
            found.extend(page["tools"])
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}

    async def set_level(self, level: str) -> None:
        """Say from which level on log messages are wanted."""
        if self.modern:
            self._level = level
        else:
            assert (await self.ask("logging/setLevel", {"level": level})).result == {}

    def request(self, method: str, params: Message | None = None, *, id: Json = None, token: Json = None) -> Message:  # noqa: A002
        """A request in this revision's form."""
        meta: Message = {} if token is None else {"progressToken": token}
        if self.modern:
            meta = modern_meta(self.capabilities, **meta, **({LEVEL_KEY: self._level} if self._level else {}))
        both = {**(params or {}), **({"_meta": meta} if meta else {})}
        return request(method, both or None, next(_ids) if id is None else id)

    def check(self, message: Message, asked: Message | None = None) -> None:
        """Refuse a message that this revision does not allow, and remember what kind it was."""
        self.seen.add(judge.check(message, self.revision, asked["method"] if asked else None))

    @abstractmethod
    async def exchange(self, message: Message, respond: Respond | None = None) -> McpAnswer:
        """Send this very request and wait for its answer."""

    @abstractmethod
    async def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""

    def _response(self, question: Message, respond: Respond | None) -> Message:
        assert respond is not None, f"nobody expected {question}"
        replied = respond(question)
        body = replied if replied.keys() == {"error"} else {"result": replied}
        return {"jsonrpc": "2.0", "id": question["id"], **body}


class HttpMcpClient(McpClient):
    """Sends each message by POST; in the older revisions within a session."""

    def __init__(self, http: StatelessMcpClient, revision: str, capabilities: Message) -> None:
        super().__init__(revision, capabilities)
        self.http = http
        self.session: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every message of a session carries."""
        assert not self.modern, "the newest revision has no sessions"
        version = {"MCP-Protocol-Version": self.revision}
        return version if self.session is None else {**version, "Mcp-Session-Id": self.session}

    async def start(self) -> Message:
        """Open a session; what the server says of itself."""
        message = initialize(self.revision, self.capabilities, "start")
        reply = await self.http.send(message)
        self.check(reply.answer, message)
        self.session = reply.headers["mcp-session-id"]
        await self.tell("notifications/initialized")
        return reply.result

    async def end(self) -> None:
        """End the session, if there is one."""
        if self.session:
            await self.http.send(None, self.headers, "DELETE")

    async def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        await self._deliver(notification(method, params))

    @asynccontextmanager
    async def open(self, message: Message) -> AsyncGenerator[StreamingResponse]:
        """Send a request and read its response bit by bit."""
        headers = None if self.modern else self.headers
        if headers is None:
            params = message["params"]
            named = {key: params[key] for key in ("name", "uri", "taskId") if key in params}
            _, headers = modern_request(message["method"], named)
        async with self.http.open(message, headers) as reply:
            yield reply

    async def _deliver(self, message: Message) -> None:
        headers = {"MCP-Protocol-Version": MODERN} if self.modern else self.headers
        reply = await self.http.send(message, headers)
        assert (reply.status, reply.body) == (202, b""), reply

    async def exchange(self, message: Message, respond: Respond | None = None) -> McpAnswer:
        """Send this very request and wait for its answer."""
        notices: list[Message] = []
        questions: list[Message] = []
        async with self.open(message) as reply:
            if not reply.is_stream:
                answer = (await reply.whole()).answer
                self.check(answer, message)
                return McpAnswer(answer, notices, questions, reply.status)
            while True:
                found = await reply.message()
                self.check(found, message)
                if "method" not in found:
                    assert await reply.rest() == [], "the answer ends the stream"
                    return McpAnswer(found, notices, questions, reply.status)
                if "id" in found:
                    questions.append(found)
                    await self._deliver(self._response(found, respond))
                else:
                    notices.append(found)


class Pipes(NamedTuple):
    """The standard output and input of a server."""

    output: asyncio.StreamReader
    input: asyncio.StreamWriter


class StdioMcpClient(McpClient):
    """Sends each message as a line."""

    def __init__(self, pipes: Pipes, revision: str, capabilities: Message) -> None:
        super().__init__(revision, capabilities)
        self.pipes = pipes

    async def start(self) -> Message:
        """Initialize; what the server says of itself."""
        message = initialize(self.revision, self.capabilities, "start")
        heard = await self.exchange(message)
        await self.tell("notifications/initialized")
        found: Message = heard.result
        return found

    async def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        await self.write(notification(method, params))

    async def write(self, message: Message | bytes) -> None:
        """Send one line."""
        self.pipes.input.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        await self.pipes.input.drain()

    async def read(self, asked: Message | None = None) -> Message:
        """The next message; `asked` is the request it is expected to answer."""
        message = await self.read_unchecked()
        self.check(message, asked)
        return message

    async def read_unchecked(self) -> Message:
        """The next message, of whatever revision."""
        async with asyncio.timeout(patience()):
            line = await self.pipes.output.readline()
        assert line.endswith(b"\n"), f"the server stopped after {line!r}"
        message: Message = json.loads(line)
        return message

    async def exchange(self, message: Message, respond: Respond | None = None) -> McpAnswer:
        """Send this very request and wait for its answer."""
        notices: list[Message] = []
        questions: list[Message] = []
        await self.write(message)
        while True:
            found = await self.read(message)
            if "method" not in found:
                assert found.get("id") == message["id"], f"this answers something else: {found}"
                return McpAnswer(found, notices, questions)
            if "id" in found:
                questions.append(found)
                await self.write(self._response(found, respond))
            else:
                notices.append(found)


@asynccontextmanager
async def http_mcp_client(
    origin: str, revision: str, capabilities: Message = EVERY_FEATURE
) -> AsyncGenerator[HttpMcpClient]:
    """A client over HTTP, in a session if the revision has sessions."""
    async with stateless_mcp_client(origin) as http:
        client = HttpMcpClient(http, revision, capabilities)
        if not client.modern:
            await client.start()
        try:
            yield client
        finally:
            await client.end()


async def stdio_mcp_client(pipes: Pipes, revision: str, capabilities: Message = EVERY_FEATURE) -> StdioMcpClient:
    """A client over standard input and output, initialized if the revision asks for it."""
    client = StdioMcpClient(pipes, revision, capabilities)
    if not client.modern:
        await client.start()
    return client


@asynccontextmanager
async def stdio_process(command: list[str], folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A server of its own on standard input and output, ended by closing its input."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=LINE_LIMIT
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(patience()):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def shared_pipes(process: "subprocess.Popen[bytes]") -> AsyncGenerator[Pipes]:
    """The pipes of a server that other tests have used before and will use again."""
    assert process.stdout is not None
    assert process.stdin is not None
    loop = asyncio.get_running_loop()
    output = asyncio.StreamReader(LINE_LIMIT)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), open_pipe(os.dup(process.stdout.fileno()), "rb")
    )
    writing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, open_pipe(os.dup(process.stdin.fileno()), "wb")
    )
    pipes = Pipes(output, asyncio.StreamWriter(writing, protocol, None, loop))
    try:
        await _skip_earlier_messages(StdioMcpClient(pipes, MODERN, {}))
        yield pipes
    finally:
        reading.close()
        writing.close()


async def _skip_earlier_messages(client: StdioMcpClient) -> None:
    """Read what an earlier test may have left unread."""
    mark = f"settled-{time.monotonic_ns()}"
    await client.write(client.request("server/discover", id=mark))
    while (await client.read_unchecked()).get("id") != mark:
        pass
