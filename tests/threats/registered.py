"""Definitions brought to a hall over HTTP, what every dialect then lists, and calls in every dialect."""

import json
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.harness.dialect_clients import Call, HubDialect, MachineDialect, OxpDialect, RestDialect
from tests.harness.http_client import HOST, Header, fetch, http_request
from tests.harness.mcp_messages import REVISIONS, encoded, request_in, tool_call
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient

OUTSIDER: Header = ("X-Forwarded-For", "203.0.113.7")  # behind a proxy, whose word proves nobody
LISTS = ("/oxp/tools", "/machine/tools", "/openapi.json", "/tools")
HUB_LIST = {"type": "request", "id": "1", "method": "list_tools", "params": {}}


class Told(NamedTuple):
    """One reply."""

    status: int
    body: Any

    @property
    def rules(self) -> set[str]:
        """The rules of lint that were broken."""
        return {finding["rule"] for finding in self.body["findings"]}

    @property
    def places(self) -> set[str]:
        """Where."""
        return {finding["path"] for finding in self.body["findings"]}

    @property
    def problems(self) -> str:
        """Why something was refused, whole."""
        return json.dumps(self.body["error"], ensure_ascii=False)


class Registry:
    """The management of a running hall."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server

    def ask(self, method: str, path: str, body: Any = None, *extra: Header) -> Told:
        """One request."""
        content = b"" if body is None else encoded(body)
        headers = [("Host", HOST), ("Content-Length", str(len(content))), *extra]
        headers += [] if body is None else [("Content-Type", "application/json")]
        reply = fetch(self.server.port, http_request(method, path, headers, content))
        return Told(reply.status, json.loads(reply.body))

    def register(self, definition: Any, dialect: str = "mcp") -> Told:
        """As somebody from outside would."""
        return self.ask("POST", f"/api/tools?dialect={dialect}", definition)

    def add(self, definition: Any, dialect: str = "mcp") -> str:
        """Register what is fine; the id of its first tool."""
        told = self.register(definition, dialect)
        assert told.status == 201, told
        return str(told.body["tools"][0]["id"])

    def show(self, tool_id: str) -> Any:
        """Everything about one tool."""
        told = self.ask("GET", _path(tool_id))
        assert told.status == 200, told
        return told.body

    def activate(self, tool_id: str) -> None:
        """As a person who has looked at it."""
        seen = {"seen": self.show(tool_id)["digests"]["document"]}
        told = self.ask("POST", f"{_path(tool_id)}/activate", seen)
        assert told.status == 200, told

    def history(self, tool_id: str) -> list[str]:
        """What happened to it, the newest first."""
        return [event["what"] for event in self.ask("GET", f"{_path(tool_id)}/history").body["events"]]

    def lists(self) -> dict[str, str]:
        """Everything that a model or a program could read of the tools, in every dialect."""
        found = {path: json.dumps(self.ask("GET", path).body) for path in LISTS}
        found["/hub"] = json.dumps(self.ask("POST", "/hub", HUB_LIST).body)
        for revision in REVISIONS:
            answer = SyncHttpMcpClient(self.server.port, revision).ask(encoded(request_in(revision, "tools/list")))
            found[f"/mcp {revision}"] = json.dumps(answer.result)
        return found

    def offered(self, name: str) -> Any:
        """A tool as the newest revision of MCP lists it."""
        answer = SyncHttpMcpClient(self.server.port, REVISIONS[-1]).ask(
            encoded(request_in(REVISIONS[-1], "tools/list"))
        )
        return next(tool for tool in answer.result["tools"] if tool["name"] == name)


def calls(toolkit: str, tool: str, version: str) -> dict[str, tuple[str, Any]]:
    """By dialect, where to call a tool and how."""
    call, pinned = Call(None, toolkit, tool, {}), Call(None, toolkit, tool, {}, version)
    requests = {
        "rest": RestDialect().request(call),
        "oxp": OxpDialect().request(pinned),
        "hub": HubDialect().request(call),
        "machine": MachineDialect().request(call),
    }
    found = {dialect: (path, json.loads(body)) for dialect, (path, body) in requests.items()}
    found["machine"][1]["header"]["messageId"] = "1"  # answers repeat it
    return found


def mcp_calls(registry: Registry, name: str, *extra: Header) -> list[str]:
    """What comes of a call in each revision of MCP, whole."""
    found: list[str] = []
    for revision in REVISIONS:
        line = SyncHttpMcpClient(registry.server.port, revision)
        body = tool_call(revision, name)
        said = registry.ask("POST", "/mcp", body, *line.headers(encoded(body)), *extra)
        found.append(json.dumps(said.body))
    return found


def _path(tool_id: str) -> str:
    return f"/api/tools/{quote(tool_id, safe='')}"
