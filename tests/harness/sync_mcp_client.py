"""Synchronous MCP clients that send any bytes as a message, over HTTP and over standard input and output."""

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any, Protocol

from tests.harness.http_client import HOST, Connection, Header, Response, fetch, http_request
from tests.harness.mcp_messages import LEGACY, MODERN, McpAnswer, encoded, handshake, headers_for, tool_call
from tests.harness.patience import patience


class SyncMcpClient(Protocol):
    """A client of one server in one revision; `seen` is everything that ever arrived."""

    revision: str
    seen: bytearray

    def ask(self, body: bytes) -> McpAnswer:
        """Send these bytes as one message and wait for the answer."""
        ...

    def tell(self, body: bytes) -> None:
        """Send these bytes as one message that has no answer."""
        ...


def call_tool(client: SyncMcpClient, tool: str, /, **arguments: Any) -> McpAnswer:
    """Call a tool."""
    return client.ask(encoded(tool_call(client.revision, tool, arguments)))


def tool_value(answer: McpAnswer) -> Any:
    """The value that a tool returned."""
    return answer.value


def post(port: int, body: bytes, *extra: Header) -> bytes:
    """A POST to `/mcp` with the usual headers and these."""
    usual = [
        ("Host", f"{HOST}:{port}"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Length", str(len(body))),
    ]
    return http_request("POST", "/mcp", [*usual, *extra], body)


def answer_of(reply: Response) -> McpAnswer:
    """The message in a response: its JSON, or the last event of its stream."""
    return McpAnswer(reply.messages[-1], status=reply.status, raw=reply.body)


class SyncHttpMcpClient:
    """A client of the server at a port; the older revisions open a session when it is first needed."""

    def __init__(self, port: int, revision: str) -> None:
        self.port = port
        self.revision = revision
        self.seen = bytearray()
        self._session: str | None = None

    def headers(self, body: bytes) -> list[Header]:
        """What goes with this message besides what goes with every POST."""
        if self.revision == MODERN:
            return headers_for(body)
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

    def ask(self, body: bytes) -> McpAnswer:
        """Send these bytes as one message and wait for the answer."""
        return answer_of(self._fetch(self.request(body)))

    def tell(self, body: bytes) -> None:
        """Send these bytes as one message that has no answer."""
        reply = self._fetch(self.request(body))
        assert (reply.status, reply.body) == (202, b""), reply

    def _fetch(self, request: bytes) -> Response:
        with Connection(self.port) as connection:
            connection.send(request)
            reply = connection.reply()
            self.seen += connection.seen
        return reply


def open_session(port: int, revision: str) -> str:
    """Open a session of an older revision; its id."""
    reply = fetch(port, post(port, encoded(handshake(revision))))
    session = reply.headers.get("mcp-session-id")
    assert session, reply
    return session


class SyncStdioMcpClient:
    """A client of a server process on its standard input and output."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self.revision = MODERN
        self._log = log
        self._read = b""
        self.seen = bytearray()

    @property
    def log(self) -> str:
        """Everything written to the error output so far."""
        return self._log.read_text(errors="replace")

    def speak(self, revision: str) -> "SyncStdioMcpClient":
        """Go on in this revision; the older ones begin with their handshake."""
        self.revision = revision
        if revision in LEGACY:
            assert self.ask(encoded(handshake(revision))).result["protocolVersion"] == revision
        return self

    def ask(self, body: bytes) -> McpAnswer:
        """Send these bytes as one message and wait for the answer."""
        self.tell(body)
        while True:
            line = self.line()
            found = json.loads(line)
            if "method" not in found:
                return McpAnswer(found, raw=line)

    def tell(self, body: bytes) -> None:
        """Send these bytes as one message that has no answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(body + b"\n")
        self.process.stdin.flush()

    def line(self, seconds: float | None = None) -> bytes:
        """The next line that the server wrote."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self._read:
            ready, _, _ = select.select([descriptor], [], [], patience() if seconds is None else seconds)
            data = os.read(descriptor, 65536) if ready else b""
            assert data, f"no answer; the server's log:\n{self.log}"
            self._read += data
            self.seen += data
        found, _, self._read = self._read.partition(b"\n")
        return found
