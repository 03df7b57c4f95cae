"""Requests and replies of a small HTTP server: one of each per connection."""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl, urlsplit

_MOST_BODY = 65_536
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


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Read one request and answer it; who takes too long or sends something else is left."""
    try:
        async with asyncio.timeout(_SECONDS):
            request = await _read(reader)
            reply = Reply(400) if request is None else answer(request)
            writer.write(_written(reply))
            await writer.drain()
    except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[1].startswith("/"):
        return None
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdecimal() or int(length) > _MOST_BODY:
        return None
    body = await reader.readexactly(int(length))
    parts = urlsplit(f"http://here{words[1]}")
    return Request(words[0], parts.path, _fields(parts.query), headers, body)


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
