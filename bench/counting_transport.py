"""CountingTransport: a transport without a socket, for connection code that is driven in this process."""

import asyncio
from collections.abc import Callable


class CountingTransport(asyncio.Transport):
    """Counts the responses, keeps the latest, and sends nothing."""

    def __init__(self, protocol: asyncio.BaseProtocol, answered: Callable[[], None]) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8_000)})
        self._protocol = protocol
        self._answered = answered
        self._closing = False
        self.latest = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Count a response; every server here writes one in one or two pieces, the last of which ends it."""
        self.latest = bytes(data)
        if b'"result"' in self.latest:
            self._answered()

    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def close(self) -> None:
        """Tell the protocol that the connection has ended, as its server waits for that when it stops."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        """The same, since nothing is ever buffered."""
        self.close()

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def is_reading(self) -> bool:
        """As good as always."""
        return not self._closing
