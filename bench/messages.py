"""The MCP messages that every server here is sent, byte for byte the same."""

import json
from typing import Any

MODERN = "2026-07-28"
SESSION = "2025-11-25"
KEY = "bench-key-0123456789abcdef0123456789abcdef"  # looked up by the ceiling; the others are asked without credentials
NUMBERS = {"a": 7, "b": 2.5}
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
CLIENT = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}

INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

Json = dict[str, Any]


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
