"""Answers callers while there is no process to serve them: at once, always the same, and never for long."""

import contextlib
import selectors
import socket
import threading
import time
from types import TracebackType

from toolhall.model.json import encode

_SAID = "what is served here cannot be loaded; look at the terminal of 'toolhall serve', which says why"
_BODY = encode({"error": {"code": "unavailable", "message": _SAID}})
_REPLY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Cache-Control: no-store\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
)
_MOST_OPEN = 128
_LINGER_SECONDS = 1.0
_STOP_SECONDS = 0.1  # how soon a signal is heard
_PART = 65_536


class StandIn:
    """Takes connections only while it is told to; what it does not take waits in line for the next process.

    A caller that has its answer is heard out until it hangs up, or the answer could be lost on its way.
    """

    def __init__(self, listening: socket.socket) -> None:
        listening.setblocking(False)  # whoever serves does the same
        self._listening = listening
        self._answered: dict[socket.socket, float] = {}  # until when each is heard out, the oldest first
        self._ready = selectors.DefaultSelector()

    def __enter__(self) -> "StandIn":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for connection in list(self._answered):
            self._forget(connection)
        self._ready.close()

    @property
    def open(self) -> int:
        """How many callers have their answer and have not hung up."""
        return len(self._answered)

    def wait(self, seconds: float, stopped: threading.Event, *, answering: bool) -> bool:
        """Let this much time pass, meanwhile answer if that is asked for; whether it is time to stop."""
        if not answering and not self._answered:
            return stopped.wait(seconds)
        until = time.monotonic() + seconds
        if answering:
            self._ready.register(self._listening, selectors.EVENT_READ)
        try:
            while not stopped.is_set() and (left := until - time.monotonic()) > 0:
                self._turn(min(left, _STOP_SECONDS))
        finally:
            if answering:
                self._ready.unregister(self._listening)
        return stopped.is_set()

    def _turn(self, seconds: float) -> None:
        for key, _ in self._ready.select(seconds):
            if key.fileobj is self._listening:
                self._take()
            elif key.data in self._answered and not _goes_on(key.data):
                self._forget(key.data)
        now = time.monotonic()
        for connection in [each for each, until in self._answered.items() if until <= now]:
            self._forget(connection)

    def _take(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:  # it has gone again
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):  # whoever has hung up is forgotten when it is read
            connection.send(_REPLY)  # fits into the buffer of a new connection
            connection.shutdown(socket.SHUT_WR)
        if len(self._answered) >= _MOST_OPEN:
            self._forget(next(iter(self._answered)))
        self._answered[connection] = time.monotonic() + _LINGER_SECONDS
        self._ready.register(connection, selectors.EVENT_READ, connection)

    def _forget(self, connection: socket.socket) -> None:
        del self._answered[connection]
        self._ready.unregister(connection)
        connection.close()


def _goes_on(connection: socket.socket) -> bool:
    """Read some of the request; False once there is no more."""
    try:
        return bool(connection.recv(_PART))
    except BlockingIOError:
        return True
    except OSError:
        return False
