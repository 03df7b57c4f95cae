"""Clients that change a running hall until it dies, each in toolkits of its own; each knows what it was promised."""

import http.client
import json
import random
import threading
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.threats.wire import HOST, TIMEOUT

SUNSET = "2099-01-31"
MOST_TOOLS = 4


class ToolState(NamedTuple):
    """The state of a tool, and its sunset date and successor, where they are set."""

    state: str
    ending: tuple[str | None, str | None] = (None, None)


@dataclass
class ExpectedTools:
    """The tools that one client was promised, and the events of their history in order."""

    tools: dict[str, ToolState] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)

    def put(self, tool_id: str, state: ToolState | None, what: str) -> None:
        """Something happened to a tool; None: it was removed."""
        if state is None:
            del self.tools[tool_id]
        else:
            self.tools[tool_id] = state
        self.events.append((tool_id, what))


class Request(NamedTuple):
    """One change, and what is true once it was made."""

    method: str
    path: str
    body: Any
    then: ExpectedTools


class Client:
    """Makes one change after the other; `asked` is the one that was not acknowledged."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.expected = ExpectedTools()
        self.asked: Request | None = None
        self._chance = random.Random(f"{seed} {name}")
        self._kits = 0
        self.failure: str | None = None

    def work(self, port: int, acknowledged: threading.Semaphore) -> None:
        """Until the server is gone; everything else that goes wrong is kept for the test."""
        connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
        try:
            while self.failure is None:
                self.asked = self._next(connection)
                status, body = _sent(connection, self.asked)
                if status >= 300:
                    self.failure = f"{self.asked.method} {self.asked.path}: {status} {body!r}"
                    return
                self.expected, self.asked = self.asked.then, None
                acknowledged.release()
        except (http.client.HTTPException, ConnectionError):
            pass
        except Exception as error:  # noqa: BLE001 - told by the thread that waits
            self.failure = repr(error)
        finally:
            connection.close()

    def settle(self, found: ExpectedTools) -> None:
        """After a restart: all that was acknowledged is there, and of what was asked all or nothing."""
        possible = [self.expected, *([self.asked.then] if self.asked else [])]
        assert self.failure is None, self.failure
        assert found in possible, _difference(found, possible)
        self.expected, self.asked = found, None

    def _next(self, connection: http.client.HTTPConnection) -> Request:
        ways = [self._register, self._activate, self._activate, self._deprecate, self._deactivate, self._remove]
        while True:
            request = self._chance.choice(ways)(deepcopy(self.expected), connection)
            if request is not None:
                return request

    def _register(self, expected: ExpectedTools, _: object) -> Request:
        """A document with several tools: all of them, or none."""
        self._kits += 1
        kit, count = f"{self.name}-{self._kits}", self._chance.randint(1, MOST_TOOLS)
        tools = [{"name": f"t{number}", "description": "Does one thing.", "parameters": []} for number in range(count)]
        about = {"name": kit, "description": "x" * self._chance.randrange(5_000), "securityLevel": 1}
        for number in range(count):
            expected.put(f"{kit}.t{number}@1.0.0", ToolState("quarantined"), "registered")
        return Request("POST", "/api/tools", {"id": kit, "version": "1.0.0", "capabilities": tools, **about}, expected)

    def _activate(self, expected: ExpectedTools, connection: http.client.HTTPConnection) -> Request | None:
        tool_id = self._one_of(expected, "quarantined", "inactive")
        if tool_id is None:
            return None
        shown = get(connection, _path(tool_id))
        expected.put(tool_id, ToolState("active"), "activated")
        return Request("POST", f"{_path(tool_id)}/activate", {"seen": shown["digests"]["document"]}, expected)

    def _deprecate(self, expected: ExpectedTools, _: object) -> Request | None:
        tool_id, successor = (
            self._one_of(expected, "active", "inactive"),
            self._one_of(expected, "active", "quarantined"),
        )
        if tool_id in (None, successor):
            return None
        ending = (self._chance.choice([None, SUNSET]), successor)
        expected.put(tool_id, ToolState(expected.tools[tool_id].state, ending), "deprecated")
        body = {"sunset": ending[0], "successor": ending[1]}
        return Request("POST", f"{_path(tool_id)}/deprecate", body, expected)

    def _deactivate(self, expected: ExpectedTools, _: object) -> Request | None:
        tool_id = self._one_of(expected, "active")
        if tool_id is None:
            return None
        expected.put(tool_id, expected.tools[tool_id]._replace(state="inactive"), "deactivated")
        return Request("POST", f"{_path(tool_id)}/deactivate", {}, expected)

    def _remove(self, expected: ExpectedTools, _: object) -> Request | None:
        tool_id = (
            self._one_of(expected, "active", "inactive", "quarantined")
            if len(expected.tools) > 2 * MOST_TOOLS
            else None
        )
        if tool_id is None:
            return None
        expected.put(tool_id, None, "removed")
        return Request("DELETE", _path(tool_id), None, expected)

    def _one_of(self, expected: ExpectedTools, *states: str) -> str | None:
        found = [each for each, state in expected.tools.items() if state.state in states]
        return self._chance.choice(found) if found else None


def read_states(clients: Iterable[Client], port: int) -> dict[str, ExpectedTools]:
    """Read each client's tools from a hall, and assert that it serves exactly the active ones."""
    connection = http.client.HTTPConnection(HOST, port, timeout=TIMEOUT)
    try:
        states = {client.name: ExpectedTools() for client in clients}
        served: set[str] = set()
        for tool in _all_tools(connection):
            if (expected := states.get(tool["toolkit"].partition("-")[0])) is not None:
                expected.tools[tool["id"]] = ToolState(tool["state"], (tool["sunset"], tool["successor"]))
                served |= {f"{tool['toolkit']}/{tool['tool']}"} if tool["state"] == "active" else set()
        for event in reversed(get(connection, "/api/history?limit=1000")["events"]):
            if (expected := states.get(event["id"].partition("-")[0])) is not None:
                expected.events.append((event["id"], event["what"]))
        paths = get(connection, "/openapi.json")["paths"]
    finally:
        connection.close()
    listed = {
        path.removeprefix("/tools/") for path in paths if path.removeprefix("/tools/").partition("-")[0] in states
    }
    assert listed == served
    return states


def get(connection: http.client.HTTPConnection, path: str) -> Any:
    """The JSON value at a path."""
    status, body = _sent(connection, Request("GET", path, None, ExpectedTools()))
    assert status == 200, body
    return json.loads(body)


def _all_tools(connection: http.client.HTTPConnection) -> Iterable[Any]:
    cursor = ""
    while True:
        page = get(connection, f"/api/tools?cursor={quote(cursor)}")
        yield from page["tools"]
        if "nextCursor" not in page:
            return
        cursor = page["nextCursor"]


def _sent(connection: http.client.HTTPConnection, request: Request) -> tuple[int, bytes]:
    body = None if request.body is None else json.dumps(request.body)
    headers = {} if body is None else {"Content-Type": "application/json"}
    connection.request(request.method, request.path, body, headers)
    reply = connection.getresponse()
    return reply.status, reply.read()


def _path(tool_id: str) -> str:
    return f"/api/tools/{quote(tool_id, safe='')}"


def _difference(found: ExpectedTools, possible: list[ExpectedTools]) -> str:
    """What is there and was not expected, and the other way round, for whoever must find out why."""
    differences = [
        f"possible: {each.events[-6:]}; differs in {set(found.tools.items()) ^ set(each.tools.items())}"
        for each in possible
    ]
    return "\n".join([f"found: {found.events[-6:]}", *differences])
