"""Responses of a keep-alive connection: status, headers, every kind of body, and connections that must not be used."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.unit.egress.loopback_server import fixed_resolver, loopback_server, raw_response, tls_contexts
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.connection_pool import ConnectionPool, PeerSettings
from toolhall.egress.exchange import ExchangeLost, ExchangeTooLarge, PeerRejected
from toolhall.egress.http_response import HttpResponse
from toolhall.egress.resolver import Dialer

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
SETTINGS = PeerSettings(peer="the peer", max_bytes=10_000)


@asynccontextmanager
async def pool_of(url: str, settings: PeerSettings = SETTINGS) -> AsyncGenerator[ConnectionPool]:
    dialer = Dialer(EgressAllowlist()).with_address(ip_address("127.0.0.1"))
    pool = ConnectionPool(dialer, dialer.parse(url), settings, asyncio.get_running_loop())
    try:
        yield pool
    finally:
        pool.close()


async def exchange(content: bytes, settings: PeerSettings = SETTINGS) -> tuple[HttpResponse, list[bytes], ExchangeLost]:
    """The response, its messages, and how it ended."""
    async with loopback_server(raw_response(content)) as server, pool_of(server.url, settings) as pool:
        connection = await pool.acquire(for_call=True)
        response = connection.send(REQUEST)
        messages: list[bytes] = []
        try:
            while True:
                while (message := response.pop()) is not None:
                    messages.append(message)
                await response.wait()
        except ExchangeLost as lost:
            connection.release(finished=False)
            return response, messages, lost


def _given(context: ssl.SSLContext) -> ssl.SSLContext:
    return context


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


EVENTS = head("Content-Type: text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
BODIES: list[tuple[bytes, int, list[bytes]]] = [
    (head("Content-Length: 2") + b"{}", 200, [b"{}"]),
    (head("Content-Length: 2", status="404 Not Found") + b"no", 404, [b"no"]),
    (head("Content-Length: 0", status="202 Accepted"), 202, [b""]),
    (head("Connection: close") + b"until the end", 200, [b"until the end"]),
    (head("Content-Type: text/event-stream", "Connection: close") + b"data: a\n\n", 200, [b"a"]),
    (EVENTS + b"9\r\ndata: a\n\n\r\n3\r\nid:\r\n0\r\n\r\n", 200, [b"a"]),
    (head("Content-Type: application/x-ndjson", "Content-Length: 3") + b"1\n2", 200, [b"1", b"2"]),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + head("Content-Length: 2") + b"{}", 200, [b"{}"]),
]


@pytest.mark.parametrize("number", range(len(BODIES)))
async def test_body_is_read_message_by_message(number: int) -> None:
    content, status, expected = BODIES[number]
    response, messages, lost = await exchange(content)
    assert (response.status, messages) == (status, expected)
    assert lost.reason == "the answer ended without its last message"
    assert lost.delivered


async def test_headers_are_kept_if_they_are_wanted() -> None:
    content = head("WWW-Authenticate: Bearer", "www-authenticate: Basic", "Content-Length: 0", status="401 No")
    response, _, _ = await exchange(content)
    assert response.headers[b"www-authenticate"] == b"Bearer, Basic"
    response, _, _ = await exchange(content, PeerSettings(max_bytes=100, keeps_headers=False))
    assert response.headers == {}


REFUSED: list[tuple[bytes, str]] = [
    (head("Location: https://a.example/b?key=1", "Content-Length: 0", status="307 Moved"), "(to https://a.example/b)"),
    (head("Upgrade: h2c", status="101 Switching Protocols"), "the peer answered 101"),
    (head("Content-Encoding: gzip", "Content-Length: 1") + b"x", "the peer encoded its answer"),
    (head("Content-Length: 5") + b"x", "the peer closed the connection"),
    (b"no HTTP\r\n\r\n", "what the peer answers is no HTTP"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
async def test_refused_response_names_the_peer_and_no_secret(number: int) -> None:
    content, why = REFUSED[number]
    _, messages, lost = await exchange(content)
    assert messages == []
    assert why in lost.reason
    assert "key" not in lost.reason


@pytest.mark.parametrize(
    "content",
    [
        head("Content-Length: 20000") + b"x" * 20_000,
        EVENTS + b"4e20\r\n" + b"x" * 20_000 + b"\r\n",
        EVENTS + b"4e20\r\n" + b"data: " + b"x" * 19_994 + b"\r\n",
    ],
    ids=["text", "line", "event"],
)
async def test_unread_bytes_are_bounded(content: bytes) -> None:
    _, messages, lost = await exchange(content)
    assert messages == []
    assert isinstance(lost, ExchangeTooLarge)


async def test_certificate_decides_whether_a_peer_is_talked_to(tmp_path: Path) -> None:
    (serving, trusted), (_, other) = tls_contexts(tmp_path, "a.example"), tls_contexts(tmp_path, "b.example")
    async with loopback_server(raw_response(head("Content-Length: 2") + b"{}"), tls=serving) as server:
        for context in (trusted, other):
            dialer = Dialer(EgressAllowlist(), fixed_resolver(["127.0.0.1"]), partial(_given, context))
            dialer = dialer.with_address(ip_address("127.0.0.1"))
            url = dialer.parse(f"https://a.example:{server.port}")
            pool = ConnectionPool(dialer, url, SETTINGS, asyncio.get_running_loop())
            if context is trusted:
                response = (await pool.acquire(for_call=True)).send(REQUEST)
                await response.wait()
                assert response.pop() == b"{}"
            else:
                with pytest.raises(PeerRejected, match=r"certificate of https://a.example:\d+ is not trusted"):
                    await pool.acquire(for_call=True)
            pool.close()


async def test_forbidden_address_is_rejected_and_not_only_lost() -> None:
    dialer = Dialer(EgressAllowlist(), fixed_resolver(["127.0.0.1"]))
    pool = ConnectionPool(dialer, dialer.parse("https://a.example"), SETTINGS, asyncio.get_running_loop())
    with pytest.raises(PeerRejected, match="not allowed"):
        await pool.acquire(for_call=True)
    pool.close()
