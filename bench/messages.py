"""The MCP messages that every server here is sent, byte for byte the same, and the same call in the other dialects."""

import json
from typing import Any, NamedTuple

MODERN = "2026-07-28"
SESSION = "2025-11-25"
KEY = "bench-key-0123456789abcdef0123456789abcdef"  # looked up by the ceiling; the others are asked without credentials
NUMBERS = {"a": 7, "b": 2.5}
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
CLIENT = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

Json = dict[str, Any]
_COUNT = 1_234_567_890  # stands for the number of a call while its message is put together


class Spoken(NamedTuple):
    """One call as HTTP: `%d` in the body stands for the number of the call, `good` is in every good answer."""

    path: str
    headers: dict[str, str]
    body: str
    good: str

    def numbered(self, number: int) -> bytes:
        """The body of one call."""
        return self.body.replace("%d", str(number)).encode()

    def request(self, number: int) -> bytes:
        """The whole HTTP request of one call."""
        body = self.numbered(number)
        pairs = {"Host": "127.0.0.1:8000"} | self.headers | {"Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in pairs.items())
        return f"POST {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def request(method: str, params: Json, number: int = 1) -> bytes:
    """A JSON-RPC request."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def call(number: int = 1, *, modern: bool = True) -> bytes:
    """`tools/call` of the one tool."""
    return request("tools/call", {"name": "add", "arguments": NUMBERS} | ({"_meta": META} if modern else {}), number)


def listing(cursor: str | None = None) -> bytes:
    """`tools/list` of the newest revision."""
    return request("tools/list", {"_meta": META} | ({"cursor": cursor} if cursor else {}))


def headers(method: str, *, session: str | None = None) -> dict[str, str]:
    """The headers a client sends; those of the newest revision, unless there is a session."""
    common = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {KEY}",
    }
    if session is not None:
        return common | {"mcp-protocol-version": SESSION, "mcp-session-id": session}
    named = {"mcp-name": "add"} if method == "tools/call" else {}
    return common | {"mcp-protocol-version": MODERN, "mcp-method": method} | named


def mcp_call(session: str | None = None, key: str | None = None) -> Spoken:
    """`tools/call` of the newest revision, or in a session of 2025-11-25; with a key, if there is a real one."""
    params = {"name": "add", "arguments": _numbers()} | ({"_meta": META} if session is None else {})
    message = {"jsonrpc": "2.0", "id": _COUNT, "method": "tools/call", "params": params}
    said = headers("tools/call", session=session) | ({} if key is None else {"authorization": f"Bearer {key}"})
    return Spoken("/mcp", said, _counted(message), '"structuredContent"')


def mcp_read() -> Spoken:
    """`resources/read` of the newest revision."""
    return _beside_tools("resources/read", {"uri": "bench://notes"}, "bench://notes", '"contents":[{')


def mcp_prompt() -> Spoken:
    """`prompts/get` of the newest revision."""
    return _beside_tools("prompts/get", {"name": "greeting"}, "greeting", '"messages":[{')


def _beside_tools(method: str, params: Json, name: str, good: str) -> Spoken:
    message = {"jsonrpc": "2.0", "id": _COUNT, "method": method, "params": params | {"_meta": META}}
    return Spoken("/mcp", headers(method) | {"mcp-name": name}, _counted(message), good)


def dialect_calls() -> dict[str, Spoken]:
    """The same call in every dialect of Toolhall, each as its clients usually put it."""
    plain = {"content-type": "application/json", "accept": "application/json", "authorization": f"Bearer {KEY}"}
    oxp = {"request": {"tool_id": "tools.add@0.1.0", "input": _numbers()}}
    hub = {"type": "tool_request", "id": f"call-{_COUNT}", "tool": "tools", "method": "add", "params": _numbers()}
    head = {"version": "1.0", "messageId": f"call-{_COUNT}", "messageType": "request", "source": "bench"}
    machine = {"header": head, "payload": {"tool": {"id": "tools", "capability": "add", "parameters": _numbers()}}}
    return {
        "mcp": mcp_call(),
        "oxp": Spoken("/oxp/tools/call", plain, _counted(oxp), '"value":{"result":'),
        "hub": Spoken("/hub", plain, _counted(hub), '"result":{"result":'),
        "machine": Spoken("/machine", plain, _counted(machine), '"result":{"result":'),
        "openapi": Spoken("/tools/tools/add", plain, _counted(_numbers()), '{"result":'),
    }


def _numbers() -> Json:
    return NUMBERS | {"a": _COUNT}


def _counted(message: Json) -> str:
    return json.dumps(message).replace(str(_COUNT), "%d")
