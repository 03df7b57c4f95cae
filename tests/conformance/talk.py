"""A conversation with the server: the same words for every revision and both transports, so that one test serves six.

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
from typing import NamedTuple, TypeAlias

import httpx2

from tests.conformance import judge
from tests.conformance.judge import MODERN
from tests.conformance.serving import ROOT, stdio_command
from tests.conformance.wire import (
    LEVEL_KEY,
    WAIT,
    Http,
    Json,
    Message,
    Open,
    initialize,
    modern_meta,
    modern_request,
    notification,
    request,
)

# What the client replies to a question of the server's; a result, or {"error": ...} around an error.
Respond: TypeAlias = Callable[[Message], Message]

EVERY_FEATURE: Message = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
_ids = itertools.count(100)  # not one for each conversation: several may follow each other on one line
LINE_LIMIT = 16 * 1024 * 1024


class Heard(NamedTuple):
    """The answer to a request, and what came before it."""

    answer: Message
    notices: list[Message]
    questions: list[Message]

    @property
    def result(self) -> Message:
        """The result; there must be one."""
        assert "result" in self.answer, self.answer
        found: Message = self.answer["result"]
        return found

    @property
    def error(self) -> Message:
        """The error; there must be one."""
        assert "error" in self.answer, self.answer
        found: Message = self.answer["error"]
        return found

    @property
    def text(self) -> str:
        """The text of the result's first block."""
        found: str = self.result["content"][0]["text"]
        return found

    def told(self, method: str) -> list[Message]:
        """The params of every notice by this method."""
        return [notice["params"] for notice in self.notices if notice["method"] == f"notifications/{method}"]


class Talk(ABC):
    """One client; `capabilities` are what it declares, `level` is how much it wants to hear of logs."""

    def __init__(self, revision: str, capabilities: Message) -> None:
        self.revision = revision
        self.capabilities = capabilities
        self.seen: set[str] = set()
        self._level: str | None = None

    @property
    def modern(self) -> bool:
        """Whether it speaks the newest revision."""
        return self.revision == MODERN

    async def ask(
        self, method: str, params: Message | None = None, *, respond: Respond | None = None, **more: Json
    ) -> Heard:
        """Send a request and wait for its answer; `more` may give its id and a progress token."""
        message = self.request(method, params, **more)
        return await self.exchange(message, respond)

    async def call(
        self, tool: str, arguments: Message | None = None, *, respond: Respond | None = None, **more: Json
    ) -> Heard:
        """Call a tool; its questions are answered by `respond`, in as many rounds as it takes."""
        params: Message = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
        heard = await self.ask("tools/call", params, respond=respond, **more)
        while respond and heard.answer.get("result", {}).get("resultType") == "input_required":
            asked = heard.result["inputRequests"]
            again = {"inputResponses": {key: respond(each) for key, each in asked.items()}}
            state = {"requestState": heard.result["requestState"]} if "requestState" in heard.result else {}
            following = await self.ask("tools/call", {**params, **again, **state}, **more)
            notices, questions = heard.notices + following.notices, [*heard.questions, *asked.values()]
            heard = Heard(following.answer, notices, questions)
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
    async def exchange(self, message: Message, respond: Respond | None = None) -> Heard:
        """Send this very request and wait for its answer."""

    @abstractmethod
    async def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""

    def _response(self, question: Message, respond: Respond | None) -> Message:
        assert respond is not None, f"nobody expected {question}"
        replied = respond(question)
        body = replied if replied.keys() == {"error"} else {"result": replied}
        return {"jsonrpc": "2.0", "id": question["id"], **body}


class HttpTalk(Talk):
    """By POST; in the older revisions within a session."""

    def __init__(self, http: Http, revision: str, capabilities: Message) -> None:
        super().__init__(revision, capabilities)
        self.http = http
        self.session: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every message of a session carries."""
        assert not self.modern, "there are no sessions any more"
        version = {"MCP-Protocol-Version": self.revision}
        return version if self.session is None else {**version, "Mcp-Session-Id": self.session}

    async def start(self) -> Message:
        """Shake hands; what the server says of itself."""
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
    async def open(self, message: Message) -> AsyncGenerator[Open]:
        """Send a request and read its reply bit by bit."""
        headers = None if self.modern else self.headers
        if headers is None:
            params = message["params"]
            _, headers = modern_request(message["method"], {"name": params["name"]} if "name" in params else {})
        async with self.http.open(message, headers) as reply:
            yield reply

    async def _deliver(self, message: Message) -> None:
        headers = {"MCP-Protocol-Version": MODERN} if self.modern else self.headers
        reply = await self.http.send(message, headers)
        assert (reply.status, reply.body) == (202, b""), reply

    async def exchange(self, message: Message, respond: Respond | None = None) -> Heard:
        """Send this very request and wait for its answer."""
        notices: list[Message] = []
        questions: list[Message] = []
        async with self.open(message) as reply:
            if not reply.is_stream:
                answer = (await reply.whole()).answer
                self.check(answer, message)
                return Heard(answer, notices, questions)
            while True:
                found = await reply.message()
                self.check(found, message)
                if "method" not in found:
                    assert await reply.rest() == [], "the answer ends the stream"
                    return Heard(found, notices, questions)
                if "id" in found:
                    questions.append(found)
                    await self._deliver(self._response(found, respond))
                else:
                    notices.append(found)


class Line(NamedTuple):
    """The two ends of a server on standard input and output."""

    output: asyncio.StreamReader
    input: asyncio.StreamWriter


class StdioTalk(Talk):
    """By lines."""

    def __init__(self, line: Line, revision: str, capabilities: Message) -> None:
        super().__init__(revision, capabilities)
        self.line = line

    async def start(self) -> Message:
        """Shake hands; what the server says of itself."""
        message = initialize(self.revision, self.capabilities, "start")
        heard = await self.exchange(message)
        await self.tell("notifications/initialized")
        return heard.result

    async def tell(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        await self.write(notification(method, params))

    async def write(self, message: Message | bytes) -> None:
        """Send one line."""
        self.line.input.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        await self.line.input.drain()

    async def read(self, asked: Message | None = None) -> Message:
        """The next message; `asked` is the request it is expected to answer."""
        message = await self.read_unchecked()
        self.check(message, asked)
        return message

    async def read_unchecked(self) -> Message:
        """The next message, of whatever revision."""
        async with asyncio.timeout(WAIT):
            line = await self.line.output.readline()
        assert line.endswith(b"\n"), f"the server stopped after {line!r}"
        message: Message = json.loads(line)
        return message

    async def exchange(self, message: Message, respond: Respond | None = None) -> Heard:
        """Send this very request and wait for its answer."""
        notices: list[Message] = []
        questions: list[Message] = []
        await self.write(message)
        while True:
            found = await self.read(message)
            if "method" not in found:
                assert found.get("id") == message["id"], f"this answers something else: {found}"
                return Heard(found, notices, questions)
            if "id" in found:
                questions.append(found)
                await self.write(self._response(found, respond))
            else:
                notices.append(found)


@asynccontextmanager
async def http_client(origin: str) -> AsyncGenerator[Http]:
    """Something to send HTTP requests with."""
    limits = httpx2.Limits(max_connections=200)
    async with httpx2.AsyncClient(
        base_url=origin, timeout=WAIT, trust_env=False, verify=False, limits=limits
    ) as client:
        yield Http(client)


@asynccontextmanager
async def http_talk(origin: str, revision: str, capabilities: Message = EVERY_FEATURE) -> AsyncGenerator[HttpTalk]:
    """A conversation over HTTP, after the handshake if there is one."""
    async with http_client(origin) as http:
        talk = HttpTalk(http, revision, capabilities)
        if not talk.modern:
            await talk.start()
        try:
            yield talk
        finally:
            await talk.end()


@asynccontextmanager
async def stdio_process(name: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A server of its own on standard input and output, ended by closing its input."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *stdio_command(name), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=LINE_LIMIT
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(WAIT):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def own_line(name: str) -> AsyncGenerator[Line]:
    """The line to a server that serves nobody else."""
    async with stdio_process(name) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield Line(process.stdout, process.stdin)


@asynccontextmanager
async def shared_line(process: "subprocess.Popen[bytes]") -> AsyncGenerator[Line]:
    """The line to a server that other tests have used before and will use again."""
    assert process.stdout is not None
    assert process.stdin is not None
    loop = asyncio.get_running_loop()
    output = asyncio.StreamReader(LINE_LIMIT)
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(os.dup(process.stdout.fileno()), "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(os.dup(process.stdin.fileno()), "wb", 0)
    )
    line = Line(output, asyncio.StreamWriter(writing, protocol, None, loop))
    try:
        await _settle(StdioTalk(line, MODERN, {}))
        yield line
    finally:
        reading.close()
        writing.close()


async def _settle(talk: StdioTalk) -> None:
    """Read away what an earlier test may have left on the line."""
    mark = f"settled-{time.monotonic_ns()}"
    await talk.write(talk.request("server/discover", id=mark))
    while (await talk.read_unchecked()).get("id") != mark:
        pass


async def stdio_talk(line: Line, revision: str, capabilities: Message = EVERY_FEATURE) -> StdioTalk:
    """A conversation over standard input and output, after the handshake if there is one."""
    talk = StdioTalk(line, revision, capabilities)
    if not talk.modern:
        await talk.start()
    return talk
