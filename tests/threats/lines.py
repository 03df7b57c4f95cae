"""The same message in every revision over HTTP and over stdio, with one kind of answer."""

import json
import os
import select
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.threats.served import TOOLS, environment, toolhall
from tests.threats.wire import TIMEOUT, Connection, Header, Reply, fetch, post

JUNE = "2025-06-18"
NOVEMBER = "2025-11-25"
MODERN = "2026-07-28"
LEGACY = (JUNE, NOVEMBER)
REVISIONS = (JUNE, NOVEMBER, MODERN)
PREFIX = "io.modelcontextprotocol/"
CAPABILITIES: dict[str, Any] = {"elicitation": {}}


class Answer(NamedTuple):
    """What came back for one message; `status` is None where there is no HTTP."""

    status: int | None
    message: Any
    raw: bytes

    @property
    def code(self) -> int | None:
        """The code of a JSON-RPC error."""
        return self.message["error"]["code"] if "error" in self.message else None

    @property
    def result(self) -> Any:
        """The result; there must be one."""
        assert "result" in self.message, self.message
        return self.message["result"]

    @property
    def is_error(self) -> bool:
        """Whether the tool call ended in an error that the model reads."""
        return bool(self.message.get("result", {}).get("isError"))

    @property
    def text(self) -> str:
        """What a person or a model reads: the error's message, or the text of the result."""
        if "error" in self.message:
            return str(self.message["error"]["message"])
        return "".join(block.get("text", "") for block in self.result.get("content", []))


class Line(Protocol):
    """A way to one server in one revision."""

    revision: str
    seen: bytearray

    def ask(self, body: bytes) -> Answer:
        """Send these bytes as one message and wait for the answer."""
        ...

    def tell(self, body: bytes) -> None:
        """Send these bytes as one message that nobody answers."""
        ...


def message(revision: str, method: str, params: dict[str, Any] | None = None, id: int | str = 1) -> dict[str, Any]:  # noqa: A002
    """A right request in this revision."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": (params or {}) | meta(revision)}


def meta(revision: str) -> dict[str, Any]:
    """The member of params that the newest revision wants in every request."""
    if revision in LEGACY:
        return {}
    return {"_meta": {f"{PREFIX}protocolVersion": revision, f"{PREFIX}clientCapabilities": CAPABILITIES}}


def calling(revision: str, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A right tools/call in this revision."""
    return message(revision, "tools/call", {"name": tool, "arguments": arguments or {}, **more})


def call(line: Line, tool: str, /, **arguments: Any) -> Answer:
    """Call a tool."""
    return line.ask(encoded(calling(line.revision, tool, arguments)))


def value(answer: Answer) -> Any:
    """The value that a tool returned."""
    assert not answer.is_error, answer.text
    return json.loads(answer.text)


def encoded(content: Any) -> bytes:
    """JSON as clients usually write it."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def modern_headers(body: bytes) -> list[Header]:
    """The headers that the newest revision wants for this message; for a broken one, those of a call of `touch`."""
    try:
        content = json.loads(body)
        method, name = content["method"], content["params"].get("name")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        method, name = "tools/call", "touch"
    stated = {"Mcp-Method": method, "Mcp-Name": name}
    fitting = [(key, said) for key, said in stated.items() if isinstance(said, str) and said.isascii()]
    return [("MCP-Protocol-Version", MODERN), *((key, said) for key, said in fitting if said.isprintable())]


class HttpLine:
    """A client of the server at a port; the older revisions get a session when it is first needed."""

    def __init__(self, port: int, revision: str) -> None:
        self.port = port
        self.revision = revision
        self.seen = bytearray()  # everything that ever arrived
        self._session: str | None = None

    def headers(self, body: bytes) -> list[Header]:
        """What goes with this message besides what goes with every POST."""
        if self.revision == MODERN:
            return modern_headers(body)
        return [("MCP-Protocol-Version", self.revision), ("Mcp-Session-Id", self.session)]

    @property
    def session(self) -> str:
        """The session of an older revision."""
        if self._session is None:
            self._session = open_session(self.port, self.revision)
        return self._session

    def request(self, body: bytes) -> bytes:
        """The whole HTTP request for this message."""
        return post(self.port, body, *self.headers(body))

    def ask(self, body: bytes) -> Answer:
        """Send these bytes as one message and wait for the answer."""
        return answer_of(self._fetch(self.request(body)))

    def tell(self, body: bytes) -> None:
        """Send these bytes as one message that nobody answers."""
        reply = self._fetch(self.request(body))
        assert (reply.status, reply.body) == (202, b""), reply

    def _fetch(self, request: bytes) -> Reply:
        with Connection(self.port) as connection:
            connection.send(request)
            reply = connection.reply()
            self.seen += connection.seen
        return reply


def open_session(port: int, revision: str) -> str:
    """The handshake of the older revisions; the session's id."""
    reply = fetch(port, post(port, encoded(handshake(revision))))
    session = reply.header("mcp-session-id")
    assert session, reply
    return session


def handshake(revision: str) -> dict[str, Any]:
    """The request that opens a session."""
    client = {"name": "hostile", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": CAPABILITIES, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def answer_of(reply: Reply) -> Answer:
    """The message in a reply: its JSON, or the last event of its stream."""
    if (reply.header("content-type") or "").startswith("text/event-stream"):
        found = messages_of(reply.body)[-1]
    else:
        found = json.loads(reply.body)
    return Answer(reply.status, found, reply.body)


def messages_of(events: bytes) -> list[Any]:
    """Every message in a stream of server-sent events."""
    data = [line[6:] for line in events.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(each) for each in data if each]


class StdioLine:
    """A server process of its own, spoken to by its input and output."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.revision = MODERN
        self._log = log
        self._read = b""
        self.seen = bytearray()  # everything that ever arrived

    @property
    def log(self) -> str:
        """Everything written to the error output so far."""
        return self._log.read_text(errors="replace")

    def speak(self, revision: str) -> "StdioLine":
        """Go on in this revision; the older ones begin with their handshake."""
        self.revision = revision
        if revision in LEGACY:
            assert self.ask(encoded(handshake(revision))).result["protocolVersion"] == revision
        return self

    def ask(self, body: bytes) -> Answer:
        """Send these bytes as one message and wait for the answer."""
        self.tell(body)
        while True:
            line = self.line()
            found = json.loads(line)
            if "method" not in found:
                return Answer(None, found, line)

    def tell(self, body: bytes) -> None:
        """Send these bytes as one message that nobody answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(body + b"\n")
        self.process.stdin.flush()

    def line(self, seconds: float = TIMEOUT) -> bytes:
        """The next line that the server wrote."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._read:
            ready, _, _ = select.select([descriptor], [], [], seconds)
            data = os.read(descriptor, 65536) if ready else b""
            assert data, f"no answer; the server's log:\n{self.log}"
            self._read += data
            self.seen += data
        found, _, self._read = self._read.partition(b"\n")
        return found


@contextmanager
def stdio(folder: Path, target: Path = TOOLS, **settings: Any) -> Generator[StdioLine]:
    """Serve a file of tools over stdio."""
    log = folder / "stdio.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            toolhall("serve", str(target), "--stdio"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=folder,
            env=environment(folder, settings),
        )
    try:
        yield StdioLine(process, log)
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
