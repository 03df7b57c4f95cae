"""A server that lets whoever asks wait, until the test goes on."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tests.harness.patience import patience
from tests.servers.serving import Asked


class Held:
    """A path that answers once the test goes on."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._asked = threading.Event()
        self._released = threading.Event()

    async def reached(self) -> None:
        """Wait until somebody asks there."""
        assert await asyncio.to_thread(self._asked.wait, 10)

    def wait(self) -> None:
        self._asked.set()
        assert self._released.wait(patience())

    def release(self) -> None:
        self._released.set()


class Holding:
    """For servers: `hold` waits where a test holds a path."""

    _held: Held | None = None

    @contextmanager
    def holding(self, path: str) -> Generator[Held]:
        """Let whoever asks there wait until the end of this block."""
        self._held = held = Held(path)
        try:
            yield held
        finally:
            self._held = None
            held.release()

    def hold(self, asked: Asked) -> None:
        held = self._held
        if held is not None and held.path == asked.path:
            held.wait()
