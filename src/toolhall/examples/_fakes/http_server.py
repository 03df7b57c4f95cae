"""FakeServers: a small HTTP server on free local ports, in a thread, with one request per connection."""

import asyncio
import contextlib
import functools
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

_MAX_BODY = 65_536
_MAX_HEADERS = 32_768
_READ_CHUNK = 16_384
_SECONDS = 10.0
_HOST = "127.0.0.1"


class FakeRequest(NamedTuple):
    """An HTTP request; the path is not decoded, header names are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form."""
        return _parse_form(self.body.decode("utf-8", "replace"))

    @property
    def bearer(self) -> str:
        """The bearer token; empty if there is none."""
        scheme, _, credential = self.headers.get("authorization", "").partition(" ")
        return credential if scheme.lower() == "bearer" else ""


class FakeResponse(NamedTuple):
    """An HTTP response."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


FakeService: TypeAlias = Callable[[FakeRequest], FakeResponse]


def json_response(value: Any, status: int = 200) -> FakeResponse:
    """A JSON response that is not cached, because it may hold a token."""
    headers = (("content-type", "application/json"), ("cache-control", "no-store"))
    return FakeResponse(status, json.dumps(value).encode(), headers)


async def handle_connection(connection: socket.socket, service: FakeService) -> None:
    """Read one request and answer it; a client that is too slow or sends too much gets no answer."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, ValueError):  # a timeout is an OSError
        async with asyncio.timeout(_SECONDS):
            request = await _read(functools.partial(loop.sock_recv, connection, _READ_CHUNK))
            response = FakeResponse(400) if request is None else service(request)
            await loop.sock_sendall(connection, _encode_response(response))


async def _read(receive: Callable[[], Awaitable[bytes]]) -> FakeRequest | None:
    """Read a request; None for one to answer 400, ValueError for an incomplete or too large one."""
    received = b""
    while b"\r\n\r\n" not in received:
        received = _append_limited(received, await receive(), _MAX_HEADERS)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "0")
    if len(words) != 3 or not words[1].startswith("/") or "transfer-encoding" in headers or not length.isdecimal():
        return None
    if int(length) > _MAX_BODY:
        return None
    while len(body) < int(length):
        body = _append_limited(body, await receive(), _MAX_BODY + _READ_CHUNK)
    parts = urlsplit(f"http://here{words[1]}")
    return FakeRequest(words[0], parts.path, _parse_form(parts.query), headers, body[: int(length)])


def _append_limited(received: bytes, more: bytes, limit: int) -> bytes:
    if not more or len(received) + len(more) > limit:
        raise ValueError
    return received + more


def _parse_form(text: str) -> dict[str, str]:
    """The fields by name; a name that occurs twice is left out, because it is ambiguous."""
    pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=50)
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _encode_response(response: FakeResponse) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    lines += [f"content-length: {len(response.body)}", "connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + response.body


class FakeServers:
    """Serves fakes from one thread with its own event loop, each on a free port.

    A factory gets the URL of its server. Call `close` at the end.
    """

    def __init__(self, *factories: Callable[[str], FakeService]) -> None:
        self._sockets = [_listen() for _ in factories]
        self.urls = tuple(f"http://{_HOST}:{each.getsockname()[1]}" for each in self._sockets)
        self._services = [_check_host(url, make(url)) for url, make in zip(self.urls, factories, strict=True)]
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._loop = asyncio.SelectorEventLoop()  # it has add_reader on Windows, too
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="toolhall-fakes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop at once, with open connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels the connections at its end
            runner.run(self._serve())

    async def _serve(self) -> None:
        for listening, service in zip(self._sockets, self._services, strict=True):
            self._loop.add_reader(listening, self._accept, listening, service)
        await self._stopped.wait()
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()

    def _accept(self, listening: socket.socket, service: FakeService) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # the client has closed it again
            return
        connection.setblocking(False)
        task = self._loop.create_task(handle_connection(connection, service))
        self._connections[task] = connection
        task.add_done_callback(self._close_connection)

    def _close_connection(self, task: "asyncio.Task[None]") -> None:
        self._connections.pop(task).close()


def _listen() -> socket.socket:
    """A listening socket; clients that connect before the thread runs wait in its backlog."""
    listening = socket.create_server((_HOST, 0), backlog=128)
    listening.setblocking(False)
    return listening


def _check_host(url: str, service: FakeService) -> FakeService:
    """The service, with 421 for requests whose Host is not this very address (DNS rebinding)."""

    def guarded(request: FakeRequest) -> FakeResponse:
        return service(request) if f"http://{request.headers.get('host')}" == url else FakeResponse(421)

    return guarded
