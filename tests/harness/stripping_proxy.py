"""`stripping_proxy`: a proxy that serves a hall below a path which the hall does not see, streams included."""

import socket
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.harness.patience import patience

PREFIX = "/a/b"
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


@contextmanager
def stripping_proxy(backend: Callable[[], int]) -> Generator[int]:
    """A proxy that serves a hall below PREFIX, and knows nothing else."""

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not self.path.startswith(f"{PREFIX}/"):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = HTTPConnection("127.0.0.1", backend(), timeout=patience())
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.request(self.command, self.path.removeprefix(PREFIX), body or None, headers)
            reply = connection.getresponse()
            self.send_response(reply.status)
            for name, value in reply.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")  # ends the body, which may be a stream of events
            self.end_headers()
            with suppress(OSError, HTTPException), closing(connection):  # the browser left
                threading.Thread(target=self._leave_with_reader, args=[connection], daemon=True).start()
                while part := reply.read1():
                    self.wfile.write(part)
            self.close_connection = True

        def _leave_with_reader(self, connection: HTTPConnection) -> None:
            """Leave a stream as soon as its reader does, and not at the next event."""
            with suppress(OSError):
                self.connection.recv(1)
            with suppress(OSError):
                if connection.sock:
                    connection.sock.shutdown(socket.SHUT_RDWR)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request  # noqa: N815 - names of the base class

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forward)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()
