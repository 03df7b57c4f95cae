"""The small servers on the wire: what they take, whom they leave, and that they end."""

import contextlib
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.harness.patience import patience
from toolhall.examples._fakes.http_server import FakeRequest, FakeResponse, FakeServers, json_response


class Echo:
    """Says what it was asked."""

    def __call__(self, request: FakeRequest) -> FakeResponse:
        form = request.form if request.method == "POST" else {}
        return json_response([request.method, request.path, request.query, form, request.bearer])


@pytest.fixture
def running() -> Iterator[FakeServers]:
    running = FakeServers(lambda _: Echo())
    with contextlib.closing(running):
        yield running


def raw(running: FakeServers, sent: bytes) -> bytes:
    """What comes back until the end of the connection."""
    parts = urlsplit(running.urls[0])
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=patience()) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as reading:
            try:
                return reading.read()
            except ConnectionResetError:
                return b""


def host(running: FakeServers) -> bytes:
    return b"Host: " + urlsplit(running.urls[0]).netloc.encode() + b"\r\n"


def test_fake_server_request_has_path_query_form_and_bearer_token(running: FakeServers) -> None:
    connection = HTTPConnection(urlsplit(running.urls[0]).netloc, timeout=patience())
    headers = {"Authorization": "Bearer abc", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/a%2Fb?q=%C3%A9&twice=1&twice=2", "To=%2B49&Body=", headers)
    reply = connection.getresponse()
    assert reply.status == 200
    assert reply.read() == b'["POST", "/a%2Fb", {"q": "\\u00e9"}, {"To": "+49", "Body": ""}, "abc"]'
    connection.close()


@pytest.mark.parametrize("name", [b"Host: localhost.example:80\r\n", b"Host: 127.0.0.1\r\n", b""])
def test_fake_server_request_with_another_host_is_421(running: FakeServers, name: bytes) -> None:
    assert raw(running, b"GET / HTTP/1.1\r\n" + name + b"\r\n").startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize(
    "lines",
    [
        b"GET /\r\n",
        b"GET http://elsewhere.example/ HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 65537\r\n",
    ],
)
def test_fake_server_malformed_request_is_400(running: FakeServers, lines: bytes) -> None:
    assert raw(running, lines + host(running) + b"\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc",
        b"GET /?" + b"a=1&" * 60 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_fake_server_incomplete_or_oversized_request_closes_the_connection(running: FakeServers, sent: bytes) -> None:
    assert raw(running, sent) == b""


def test_fake_servers_close_with_open_connections() -> None:
    running = FakeServers(lambda _: Echo(), lambda _: Echo())
    first, second = map(urlsplit, running.urls)
    assert first.netloc != second.netloc
    with socket.create_connection((first.hostname or "", first.port or 0), timeout=patience()) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\n")
        running.close()
        with contextlib.suppress(ConnectionResetError):
            assert idle.recv(1) == b""
    running.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((second.hostname or "", second.port or 0), timeout=patience())
