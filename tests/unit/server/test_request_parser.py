"""RequestParser: upgrades that are not supported change nothing about where a request ends."""

from collections.abc import Sequence

import pytest

from toolhall.auth.authenticator import Scope
from toolhall.server.request_parser import MalformedRequest, RequestParser

HEAD = b"POST /mcp HTTP/1.1\r\nHost: here\r\n"
SMUGGLED = b"POST /mcp HTTP/1.1\r\nHost: here\r\nContent-Length: 1\r\n\r\nx"
OFFERS = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
    "unknown": b"Connection: upgrade\r\nUpgrade: websocket2\r\n",
    "close_too": b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n",
    "websocket_with_a_body": b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
}


class Requests:
    """Collects what the parser reads."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes, bool]] = []
        self.parser = RequestParser(self, ("127.0.0.1", 1), ("127.0.0.1", 2))

    def on_request(self, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> "Requests":
        assert not expects_continue
        assert "upgrade" not in dict(scope["headers"])
        self.seen.append((scope["method"], scope["path"], b"", keep_alive))
        return self

    def feed_body(self, data: bytes) -> None:
        method, path, body, keep_alive = self.seen[-1]
        self.seen[-1] = method, path, body + data, keep_alive

    def end_body(self) -> None:
        assert self.seen

    def feed(self, pieces: Sequence[bytes]) -> list[tuple[str, str, bytes, bool]]:
        for piece in pieces:
            self.parser.feed(piece)
        return self.seen


@pytest.mark.parametrize("offer", OFFERS)
def test_request_with_an_unsupported_upgrade_ends_where_its_length_says(offer: str) -> None:
    """At every split: the body is a body, and what follows it is a request of its own."""
    stream = HEAD + OFFERS[offer] + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED + SMUGGLED
    stays = offer != "close_too"
    for at in range(len(stream)):
        seen = Requests().feed([stream[:at], stream[at:]])
        assert seen[0] == ("POST", "/mcp", SMUGGLED, stays), f"split at {at}"
        assert seen[1:] == ([("POST", "/mcp", b"x", True)] if stays else []), f"split at {at}"


def test_request_with_chunks_and_an_unsupported_upgrade_is_read_whole() -> None:
    stream = HEAD + OFFERS["h2c"] + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert Requests().feed([stream]) == [("POST", "/mcp", b"{}", True)]


def test_requests_that_all_offer_an_upgrade_are_read_one_after_the_other() -> None:
    each = HEAD + OFFERS["h2c"] + b"Content-Length: 2\r\n\r\n{}"
    assert Requests().feed([each * 100]) == [("POST", "/mcp", b"{}", True)] * 100


def test_request_for_a_tunnel_is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        Requests().feed([b"CONNECT here:80 HTTP/1.1\r\nHost: here\r\n\r\n"])


def test_websocket_handshake_keeps_what_follows_it() -> None:
    requests = Requests()
    handshake = b"GET /hub HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert requests.feed([handshake + b"frame"]) == []
    assert requests.parser.wants_websocket
    assert requests.parser.behind_upgrade == b"frame"


@pytest.mark.parametrize(
    ("target", "good"), [("http://here/mcp", True), ("http://HERE/mcp", True), ("http://there/mcp", False)]
)
def test_request_target_that_names_another_host_is_malformed(target: str, good: bool) -> None:
    requests = Requests()
    data = f"POST {target} HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    if good:
        assert requests.feed([data]) == [("POST", "/mcp", b"{}", True)]
    else:
        with pytest.raises(MalformedRequest):
            requests.feed([data])
