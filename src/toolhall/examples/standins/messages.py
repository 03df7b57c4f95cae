"""Requests and replies of a small HTTP server: one of each per connection."""

import asyncio
import contextlib
import functools
import json
import socket
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

_MOST_BODY = 65_536
_MOST_HEAD = 32_768
_PART = 16_384
_SECONDS = 10.0


class Request(NamedTuple):
    """What was asked; the path as it came, and headers by their names in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form."""
        return _fields(self.body.decode("utf-8", "replace"))

    @property
    def bearer(self) -> str:
        """The key or token that it brings, if any."""
        scheme, _, credential = self.headers.get("authorization", "").partition(" ")
        return credential if scheme.lower() == "bearer" else ""


class Reply(NamedTuple):
    """What is answered."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Answer: TypeAlias = Callable[[Request], Reply]


def in_json(value: Any, status: int = 200) -> Reply:
    """A value that nobody keeps a copy of: it may hold a token."""
    headers = (("content-type", "application/json"), ("cache-control", "no-store"))
    return Reply(status, json.dumps(value).encode(), headers)


async def converse(connection: socket.socket, answer: Answer) -> None:
    """Read one request and answer it; who takes too long, or sends half or too much, is left."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, ValueError):  # a timeout is an OSError
        async with asyncio.timeout(_SECONDS):
            request = await _read(functools.partial(loop.sock_recv, connection, _PART))
            reply = Reply(400) if request is None else answer(request)
            await loop.sock_sendall(connection, _written(reply))


async def _read(receive: Callable[[], Awaitable[bytes]]) -> Request | None:
    """None for what no answer could be right to; ValueError for what never becomes a request."""
    received = b""
    while b"\r\n\r\n" not in received:
        received = _grown(received, await receive(), _MOST_HEAD)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "0")
    if len(words) != 3 or not words[1].startswith("/") or "transfer-encoding" in headers or not length.isdecimal():
        return None
    if int(length) > _MOST_BODY:
        return None
    while len(body) < int(length):
        body = _grown(body, await receive(), _MOST_BODY + _PART)
    parts = urlsplit(f"http://here{words[1]}")
    return Request(words[0], parts.path, _fields(parts.query), headers, body[: int(length)])


def _grown(received: bytes, more: bytes, most: int) -> bytes:
    if not more or len(received) + len(more) > most:
        raise ValueError
    return received + more


def _fields(text: str) -> dict[str, str]:
    """Each by its name; of several with one name there is none, because nobody can tell which is meant."""
    pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=50)
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _written(reply: Reply) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    lines += [f"content-length: {len(reply.body)}", "connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + reply.body
