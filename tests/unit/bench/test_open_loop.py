"""The open-loop load generator, against a server of a few lines."""

import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from bench.messages import Spoken
from bench.open_loop import Plan, generate
from tests.harness.patience import patience

CALL = Spoken("/", {"accept": "*/*"}, '{"n": %d}', "good")
STALL_SECONDS = 0.6
STALLED_REQUEST = 20


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@contextmanager
def server(response: bytes, *, stalls: bool = False, pieces: int = 1) -> Generator[int]:
    """Answer requests of one connection in turn, if asked once late or in pieces; the port."""

    def serve() -> None:
        with listener.accept()[0] as connection:
            count = 0
            while connection.recv(1 << 16):
                count += 1
                if stalls and count == STALLED_REQUEST:
                    time.sleep(STALL_SECONDS)
                size = -(-len(response) // pieces)
                for start in range(0, len(response), size):
                    connection.sendall(response[start : start + size])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(patience())


def plan(port: int) -> Plan:
    return Plan(port, connections=1, per_second=200.0, seconds=0.5, call=CALL)


def test_latency_counts_from_when_a_request_was_due() -> None:
    with server(answer(b"good"), stalls=True) as port:
        latency = generate(plan(port))
    # One request stalls, and more than half of the others are due meanwhile: a closed loop would see one slow request.
    assert latency.p50 > STALL_SECONDS / 4 * 1e6


def test_answer_in_pieces_is_read_whole() -> None:
    with server(answer(b"good" * 50), pieces=3) as port:
        assert generate(plan(port)).per_second > 0


@pytest.mark.parametrize("response", [answer(b"bad"), answer(b"good").replace(b"200 OK", b"500 Oh")])
def test_wrong_answer_ends_the_run(response: bytes) -> None:
    with server(response) as port, pytest.raises(RuntimeError, match="a wrong answer"):
        generate(plan(port))
