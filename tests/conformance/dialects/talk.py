"""One client of Machine Context or the hub, over HTTP, a WebSocket or lines; every reply is judged by its schema."""

import asyncio
import itertools
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError

from tests.conformance.dialects import judge
from tests.harness.http_client import HttpClient, Response
from tests.harness.patience import patience
from tests.harness.server_process import ROOT

Message: TypeAlias = dict[str, Any]
_ids = itertools.count(1)
LINE_LIMIT = 16 * 1024 * 1024


def new_id() -> str:
    """An id that nobody else uses."""
    return f"id-{next(_ids)}"


def machine_request(payload: Message, **header: Any) -> Message:
    """A request of Machine Context; `header` says what is unusual (None: left out)."""
    usual = {"version": "1.0", "messageId": new_id(), "messageType": "request", "source": "test"}
    return {"header": {key: part for key, part in (usual | header).items() if part is not None}, "payload": payload}


def execute(tool: str, capability: str, **parameters: Any) -> Message:
    """A request to execute a capability."""
    return machine_request({"tool": {"id": tool, "capability": capability, "parameters": parameters}})


def tool_request(tool: str, method: str, **params: Any) -> Message:
    """A tool_request of the hub."""
    return {"type": "tool_request", "id": new_id(), "tool": tool, "method": method, "params": params}


def core_request(method: str, **params: Any) -> Message:
    """A request to the hub itself."""
    return {"type": "request", "id": new_id(), "method": method, "params": params}


def _asked(message: Message) -> Any:
    """The id that a message has."""
    return message["header"].get("messageId") if "header" in message else message.get("id")


def _answered(message: Message) -> Any:
    """The id of the message that a reply answers."""
    return message["header"].get("requestId") if "header" in message else message.get("id")


class Talk(ABC):
    """A client."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    @abstractmethod
    async def ask(self, message: Message) -> Message:
        """Send a message; its reply."""

    @abstractmethod
    async def tell(self, message: Message | bytes) -> None:
        """Send what gets no reply, or one that names no request."""

    def call(self, tool: str, method: str, **given: Any) -> Message:
        """A message that runs a tool."""
        return (execute if self.dialect == "machine" else tool_request)(tool, method, **given)

    async def value(self, tool: str, method: str, **given: Any) -> Any:
        """What a tool returned, out of its wrapper."""
        reply = await self.ask(self.call(tool, method, **given))
        result = reply["payload"]["execution"]["result"] if self.dialect == "machine" else reply["result"]
        assert result is not None, reply
        return result["result"]


class Posted(Talk):
    """One HTTP request for each message."""

    def __init__(self, dialect: str, http: HttpClient) -> None:
        super().__init__(dialect)
        self._http = http

    async def send(self, message: Message | bytes | list[Any]) -> Response:
        """Send anything; the whole HTTP reply."""
        reply = await self._http.send(message, path=f"/{self.dialect}")
        if reply.body:
            judge.check(self.dialect, json.loads(reply.body))
        return reply

    async def ask(self, message: Message) -> Message:
        """Send a message; its reply."""
        (reply,) = (await self.send(message)).messages
        assert _answered(reply) == _asked(message)
        return reply

    async def tell(self, message: Message | bytes) -> None:
        """Send what gets no reply."""
        await self.send(message)


class Streamed(Talk):
    """Many messages on one line, a reply for each as it comes."""

    def __init__(self, dialect: str) -> None:
        super().__init__(dialect)
        self._waiting: dict[Any, asyncio.Future[Message]] = {}
        self.others: asyncio.Queue[Message] = asyncio.Queue()  # replies that nobody asked for by an id

    @abstractmethod
    async def write(self, message: bytes) -> None:
        """Send one message."""

    async def tell(self, message: Message | bytes) -> None:
        """Send anything."""
        await self.write(message if isinstance(message, bytes) else json.dumps(message).encode())

    async def ask(self, message: Message) -> Message:
        """Send a message; its reply."""
        future: asyncio.Future[Message]
        future = self._waiting[_asked(message)] = asyncio.get_running_loop().create_future()
        await self.tell(message)
        async with asyncio.timeout(patience()):
            return await future

    async def other(self) -> Message:
        """The next reply that names no request."""
        async with asyncio.timeout(patience()):
            return await self.others.get()

    def hear(self, said: bytes | str) -> None:
        """Take a message that came."""
        message: Message = json.loads(said)
        judge.check(self.dialect, message)
        future = self._waiting.pop(_answered(message), None)
        if future is not None:
            future.set_result(message)
        else:
            self.others.put_nowait(message)


class Socket(Streamed):
    """A WebSocket."""

    def __init__(self, dialect: str, connection: ClientConnection) -> None:
        super().__init__(dialect)
        self.connection = connection

    async def write(self, message: bytes) -> None:
        """Send one text."""
        await self.connection.send(message.decode())

    async def read(self) -> None:
        """Hear everything until the end."""
        with suppress(ConnectionClosedError):
            async for said in self.connection:
                self.hear(said)


class Piped(Streamed):
    """Lines to and from a process."""

    def __init__(self, dialect: str, process: asyncio.subprocess.Process) -> None:
        super().__init__(dialect)
        self.process = process

    async def write(self, message: bytes) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(message + b"\n")
        await self.process.stdin.drain()

    async def read(self) -> None:
        """Hear everything until the end."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.hear(line)


async def activated(http: HttpClient, toolkit: str) -> None:
    """Look at every tool of a toolkit that was registered, and activate it."""
    for summary in (await http.send(method="GET", path=f"/api/tools?toolkit={toolkit}")).messages[0]["tools"]:
        if summary["state"] == "quarantined":
            path = f"/api/tools/{summary['id']}/activate"
            assert (await http.send({"seen": summary["digests"]["document"]}, path=path)).status == 200


async def definitions(http: HttpClient) -> list[Message]:
    """All definitions that Machine Context lists, page by page."""
    found: list[Message] = []
    cursor = ""
    while True:
        (page,) = (await http.send(method="GET", path=f"/machine/tools{cursor}")).messages
        found += page["tools"]
        if "nextCursor" not in page:
            return found
        cursor = f"?cursor={page['nextCursor']}"


@asynccontextmanager
async def socket(origin: str, dialect: str = "hub") -> AsyncGenerator[Socket]:
    """A client over a WebSocket."""
    async with connect(f"{origin.replace('http', 'ws', 1)}/{dialect}", proxy=None) as connection:
        talk = Socket(dialect, connection)
        reading = asyncio.ensure_future(talk.read())
        yield talk
        await connection.close()
        await reading


@asynccontextmanager
async def piped(dialect: str) -> AsyncGenerator[Piped]:
    """A client of a process of its own, which ends once its input has."""
    pipe = asyncio.subprocess.PIPE
    words = ("-m", "tests.conformance.dialects.stdio", dialect)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stdin=pipe, stdout=pipe, limit=LINE_LIMIT
    )
    talk = Piped(dialect, process)
    try:
        reading = asyncio.ensure_future(talk.read())
        yield talk
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(patience()):
            await reading
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
