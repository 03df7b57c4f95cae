"""Holding requests to one path of a test server until the test releases them."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.harness.patience import patience
from tests.servers.http_server import HttpRequest


class HeldPath:
    """A path whose requests are answered once the test releases them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._asked = threading.Event()
        self._released = threading.Event()

    async def reached(self) -> None:
        """Wait until a request arrives."""
        assert await asyncio.to_thread(self._asked.wait, 10)

    def wait(self) -> None:
        self._asked.set()
        assert self._released.wait(patience())

    def release(self) -> None:
        self._released.set()


class RequestHolder:
    """Mixin for servers: `hold` waits while the test holds the path of the request."""

    _held: HeldPath | None = None

    @contextmanager
    def holding(self, path: str) -> Generator[HeldPath]:
        """Hold requests to this path until the end of the block."""
        self._held = held = HeldPath(path)
        try:
            yield held
        finally:
            self._held = None
            held.release()

    def hold(self, asked: HttpRequest) -> None:
        held = self._held
        if held is not None and held.path == asked.path:
            held.wait()
