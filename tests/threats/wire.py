"""A client that can be as wrong as it likes: bytes on a socket, and what came back, byte for byte."""

import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

TIMEOUT = 60.0
HOST = "127.0.0.1"
Header = tuple[str, str]


class Reply(NamedTuple):
    """One HTTP reply."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header, if it is there."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Connection:
    """One TCP connection, read and written in plain bytes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket = socket.create_connection((HOST, port), TIMEOUT)
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
        """Close it rudely: the other side sees a reset."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self._socket.sendall(data)

    def send_if_open(self, data: bytes) -> None:
        """Send these bytes, unless the other side has closed already."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def wait(self, seconds: float) -> None:
        """Change how long reading may take."""
        self._socket.settimeout(seconds)

    def reply(self) -> Reply:
        """The next reply, whole."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines if line)]
        found = Reply(int(first.split()[1]), headers, b"")
        return found._replace(body=b"".join(self._body(found)))

    def head(self) -> bytes:
        """The status line and headers of the next reply only."""
        return self._until(b"\r\n\r\n")

    def part(self) -> bytes:
        """Whatever comes next; nothing once the other side has closed."""
        self.parts += 1
        if not self._read:
            self._more()
        data, self._read = self._read, b""
        return data

    def until(self, text: bytes) -> None:
        """Read on until this has come."""
        while text not in self.seen:
            if not self._more():
                raise ConnectionError(f"the server closed the connection after {self._read[-200:]!r}")
        self._read = b""

    @property
    def answered(self) -> bool:
        """Whether there is something to read, or the other side has closed."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def rest(self) -> bytes:
        """Everything until the other side closes."""
        while self._more():
            pass
        data, self._read = self._read, b""
        return data

    def _body(self, reply: Reply) -> Iterator[bytes]:
        if reply.header("transfer-encoding") == "chunked":
            while size := int(self._until(b"\r\n"), 16):
                yield self._exactly(size)
                self._exactly(2)
            self._exactly(2)
        else:
            yield self._exactly(int(reply.header("content-length") or 0))

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._read:
            if not self._more():
                raise ConnectionError(f"the server closed the connection after {self._read!r}")
        found, _, self._read = self._read.partition(mark)
        return found + mark

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            if not self._more():
                raise ConnectionError(f"the server closed the connection after {self._read[:200]!r}")
        found, self._read = self._read[:size], self._read[size:]
        return found

    def _more(self) -> bool:
        try:
            data = self._socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self._read += data
        self.seen += data
        return bool(data)


def http(method: str, path: str, headers: Iterable[Header], body: bytes = b"") -> bytes:
    """A request, exactly as these headers say."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


def post(port: int, body: bytes, *extra: Header) -> bytes:
    """A POST to `/mcp` with the usual headers and these."""
    usual = [
        ("Host", f"{HOST}:{port}"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Length", str(len(body))),
    ]
    return http("POST", "/mcp", [*usual, *extra], body)


def fetch(port: int, request: bytes) -> Reply:
    """Send one request on a connection of its own."""
    with Connection(port) as connection:
        connection.send(request)
        return connection.reply()


def healthy(port: int) -> bool:
    """Whether `/health` says so."""
    reply = fetch(port, http("GET", "/health", [("Host", f"{HOST}:{port}")]))
    return reply.status == 200 and b'"healthy"' in reply.body
