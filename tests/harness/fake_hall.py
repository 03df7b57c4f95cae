"""A hall as tool servers see it: takes everybody in, remembers what it was told, and calls back."""

import http.client
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.server import ServerConnection, serve

from tests.harness.patience import patience
from tests.servers.http_server import HttpRequest, HttpResponse, run_http_server

Answerer = Callable[[str, dict[str, Any]], dict[str, Any] | None]


class FakeHall:
    """Answers join, heartbeat and leave; `judge` may answer otherwise, with an error object."""

    def __init__(self, judge: Answerer | None = None) -> None:
        self.url = ""
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.keys: set[str | None] = set()
        self.leaving = threading.Event()
        self.let_go = threading.Event()
        self.let_go.set()
        self._judge = judge
        self._changed = threading.Condition()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The response to a request of a tool server."""
        method, params = message["method"], message["params"]
        with self._changed:
            self.told.append((method, params))
            self._changed.notify_all()
        error = self._judge(method, params) if self._judge else None
        result: Any = {"status": "ok"}
        if method == "join":
            states = dict.fromkeys(ids_of(params), "active")
            result = {"lease": f"lease-{len(self.told)}", "heartbeat": 0.1, "expires": 0.3, "tools": states}
        elif method == "leave":
            self.leaving.set()
            self.let_go.wait(patience())
            result = {"status": "left", "running": 0}
        return {"type": "response", "id": message["id"], "result": None if error else result, "error": error}

    def over_http(self, asked: HttpRequest) -> HttpResponse:
        """The same over HTTP."""
        self.keys.add(asked.headers.get("authorization"))
        said = self.answer(json.loads(asked.body))
        status = 503 if (said["error"] or {}).get("code") == "UNAVAILABLE" else 400 if said["error"] else 200
        return HttpResponse(status, json.dumps(said).encode())

    def wait_for(self, method: str, times: int = 1) -> dict[str, Any]:
        """Wait until it was told this so often; the last params."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.all(method)) >= times, patience()), self.told
            return self.all(method)[-1]

    def all(self, method: str) -> list[dict[str, Any]]:
        """The params of every request for this."""
        return [params for said, params in self.told if said == method]


def ids_of(params: dict[str, Any]) -> list[str]:
    return [
        f"{each['tool']['name']}.{method['name']}@{each['tool']['version']}"
        for each in params["tools"]
        for method in each["tool"]["capabilities"]["methods"]
    ]


@contextmanager
def fake_hall(judge: Answerer | None = None) -> Generator[FakeHall]:
    """One that tool servers reach over HTTP."""
    hall = FakeHall(judge)
    with run_http_server(hall.over_http) as hall.url:
        yield hall


def call(place: dict[str, Any], method: str, tool: str, params: Any = None, **more: Any) -> dict[str, Any]:
    """Call a tool of a server that joined, as a hall does."""
    message = {"type": "tool_request", "id": "1", "tool": tool, "method": method, "params": params or {}, **more}
    connection = http.client.HTTPConnection(urlsplit(place["url"]).netloc, timeout=patience())
    headers = {"content-type": "application/json", "authorization": f"Bearer {place['token']}"}
    try:
        connection.request("POST", "/hub", json.dumps(message), headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read().splitlines()[-1])
        return answer
    finally:
        connection.close()


class SocketFakeHall(FakeHall):
    """One that tool servers open a socket to, and that calls them over it."""

    def __init__(self, judge: Answerer | None = None) -> None:
        super().__init__(judge)
        self.lines: list[ServerConnection] = []
        self.heard: list[dict[str, Any]] = []

    def over_socket(self, line: ServerConnection) -> None:
        """Serve one socket until it closes."""
        self.lines.append(line)
        for text in line:
            message = json.loads(text)
            if message["type"] == "request":
                line.send(json.dumps(self.answer(message)))
            else:
                with self._changed:
                    self.heard.append(message)
                    self._changed.notify_all()

    def say(self, message: dict[str, Any]) -> None:
        """Over the newest socket."""
        self.lines[-1].send(json.dumps(message))

    def hear(self, kind: str, call_id: str) -> dict[str, Any]:
        """Wait for what a tool server says of a call."""

        def found() -> list[dict[str, Any]]:
            return [each for each in self.heard if (each["type"], each["id"]) == (kind, call_id)]

        with self._changed:
            assert self._changed.wait_for(found, patience()), self.heard
            return found()[-1]


@contextmanager
def fake_socket_hall(judge: Answerer | None = None) -> Generator[SocketFakeHall]:
    """One that tool servers open a socket to."""
    hall = SocketFakeHall(judge)
    with serve(hall.over_socket, "127.0.0.1", 0, close_timeout=1) as server:
        hall.url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hall
        finally:
            for line in hall.lines:
                line.close()
            server.shutdown()
            thread.join()
