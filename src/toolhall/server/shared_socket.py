"""SharedSocketAcceptor: accepts connections from a listening socket that several worker processes share.

Theory of operation. An event loop's own server accepts until the queue of the socket is empty. When a client opens all
of its connections at once, as connection pools and load balancers do, the worker that wakes up first then gets every
one of them, and the others have nothing to do for as long as these connections live. This acceptor takes one
connection at a time, and while PAUSE_FROM or more are open, it waits for PAUSE_SECONDS before it takes the next, so
that another worker gets a processor and a turn. Connections that end soon are few at any time and never wait.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

PAUSE_FROM = 4
PAUSE_SECONDS = 0.001
RETRY_SECONDS = 1.0
_NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_log = logging.getLogger("toolhall.http")


class SharedSocketAcceptor:
    """Accepts connections one by one in the running event loop, until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        new_connection: Callable[[], asyncio.Protocol],
        open_connections: Callable[[], int],
    ) -> None:
        """`open_connections` counts those of this process."""
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._new_connection = new_connection
        self._open_connections = open_connections
        self._is_closed = False
        self._connecting: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept nothing more; the socket stays open."""
        self._is_closed = True
        self._loop.remove_reader(self._socket)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._socket, self._accept)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another worker has it, or its client has gone
        except OSError as error:
            if error.errno not in _NO_RESOURCES:
                raise
            _log.error("no connection can be accepted for a second: %s", error.strerror)
            self._pause(RETRY_SECONDS)
            return
        task = self._loop.create_task(self._connect(accepted))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        if self._open_connections() >= PAUSE_FROM:
            self._pause(PAUSE_SECONDS)

    async def _connect(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._new_connection, accepted)
        except OSError as error:
            accepted.close()
            _log.debug("a connection ended before it was served: %s", error.strerror)
