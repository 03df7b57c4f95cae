"""HttpProtocol: what a client may send before its requests are answered."""

import pytest

from tests.harness.connections import MemoryConnection, Piece
from toolhall.server.protocol import MAX_PIPELINED_BYTES


def request(body: bytes) -> bytes:
    head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


@pytest.mark.parametrize(("bodies", "aborted"), [(MAX_PIPELINED_BYTES // 2, False), (MAX_PIPELINED_BYTES * 2, True)])
async def test_pipelined_bodies_of_a_connection_are_bounded_in_bytes(bodies: int, aborted: bool) -> None:
    """Behind a request that waits, far fewer than the number of requests that may be pipelined."""
    large = request(b"x" * 15_000)
    connection = MemoryConnection()
    await connection.feed([Piece(request(b"wait") + large * (bodies // 15_000))])
    assert (await connection.finish()).aborted == aborted
