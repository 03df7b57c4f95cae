"""SharedSocketAcceptor: connections of a burst are shared, and a lack of descriptors passes."""

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.harness.patience import patience
from toolhall.server import shared_socket
from toolhall.server.process import new_event_loop
from toolhall.server.shared_socket import SharedSocketAcceptor


class _Worker:
    """The acceptor of one worker, and the connections that it has."""

    def __init__(self, listening: socket.socket) -> None:
        self.connections: list[_Connection] = []
        self._listening = listening
        self._acceptor = SharedSocketAcceptor(
            listening, lambda: _Connection(self.connections), lambda: len(self.connections)
        )

    async def close(self) -> None:
        """Close the acceptor and the connections."""
        self._acceptor.close()
        self._listening.close()
        for connection in self.connections:
            connection.transport.close()
        async with asyncio.timeout(patience()):
            for connection in self.connections:
                await connection.lost.wait()


class _Connection(asyncio.Protocol):
    transport: asyncio.BaseTransport

    def __init__(self, connections: "list[_Connection]") -> None:
        self._connections = connections
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._connections.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set()


@asynccontextmanager
async def _clients(count: int, listening: socket.socket) -> AsyncGenerator[None]:
    clients = [socket.create_connection(listening.getsockname()) for _ in range(count)]
    try:
        yield
    finally:
        for client in clients:
            client.close()


async def _accepted(count: int, *workers: _Worker) -> None:
    async with asyncio.timeout(patience()):
        while sum(len(worker.connections) for worker in workers) < count:  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.001)


def _run(count: int, *, shared_by: int, listening: socket.socket) -> list[int]:
    """Accept so many connections of a burst; how many each worker got."""

    async def accept() -> list[int]:
        async with _clients(count, listening):
            workers = [_Worker(listening.dup()) for _ in range(shared_by)]
            await _accepted(count, *workers)
            for worker in workers:
                await worker.close()
            return [len(worker.connections) for worker in workers]

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(accept())


def test_connections_of_a_burst_are_shared_between_workers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        shares = _run(32, shared_by=2, listening=listening)
    assert sum(shares) == 32
    assert min(shares) >= 8


def test_worker_alone_accepts_every_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert _run(20, shared_by=1, listening=listening) == [20]


class _NoDescriptors(socket.socket):
    """A listening socket whose first connection cannot be accepted."""

    refused = 0

    def dup(self) -> "_NoDescriptors":  # the test looks at this one
        return self

    def accept(self) -> tuple[socket.socket, object]:
        if not self.refused:
            self.refused += 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_lack_of_descriptors_is_logged_and_passes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shared_socket, "RETRY_SECONDS", 0.01)
    with _NoDescriptors(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert _run(1, shared_by=1, listening=listening) == [1]
        assert listening.refused == 1
    assert "no connection can be accepted for a second: Too many open files" in caplog.text
