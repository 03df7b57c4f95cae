"""Messages of the Model Context Protocol in every revision: requests, their HTTP headers, and answers."""

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.harness.http_client import Header, Json, Message

JUNE, NOVEMBER, MODERN = REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
LEGACY = (JUNE, NOVEMBER)
PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{PREFIX}protocolVersion"
CAPABILITIES_KEY = f"{PREFIX}clientCapabilities"
CLIENT_KEY = f"{PREFIX}clientInfo"
LEVEL_KEY = f"{PREFIX}logLevel"
SERVER_KEY = f"{PREFIX}serverInfo"
SUBSCRIPTION_KEY = f"{PREFIX}subscriptionId"
CLIENT = {"name": "test", "version": "1.0.0"}
ELICITATION: Message = {"elicitation": {}}


def encoded(content: Any) -> bytes:
    """JSON as clients usually write it."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def request(method: str, params: Json = None, id: Json = 1) -> Message:  # noqa: A002 - JSON-RPC's word
    """A request."""
    return {"jsonrpc": "2.0", "id": id, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: Json = None) -> Message:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def initialize(revision: str, capabilities: Json = None, id: Json = 1) -> Message:  # noqa: A002
    """The request that opens a session of an older revision."""
    params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": CLIENT}
    return request("initialize", params, id)


def handshake(revision: str) -> Message:
    """The request that opens a session of a client that can be asked questions."""
    return initialize(revision, ELICITATION, 0)


def modern_meta(capabilities: Json = None, **more: Json) -> Message:
    """The `_meta` of every request of the newest revision."""
    return {VERSION_KEY: MODERN, CLIENT_KEY: CLIENT, CAPABILITIES_KEY: capabilities or {}, **more}


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    """The headers in which a request of the newest revision repeats what its body says."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if name is None:
        return headers
    plain = re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", name)
    return {**headers, "Mcp-Name": name if plain else wrapped(name)}


def wrapped(text: str) -> str:
    """A value as it goes into a header that could not hold it as it is."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def modern_request(method: str, params: Message | None = None, **changed: Json) -> tuple[Message, dict[str, str]]:
    """The body and the headers of a request of the newest revision; `changed` may give id, meta and headers."""
    params = dict(params or {})
    name = params.get("uri") if method == "resources/read" else params.get("name", params.get("taskId"))
    headers = {**modern_headers(method, name if isinstance(name, str) else None), **changed.pop("headers", {})}
    meta = changed.pop("meta", modern_meta())
    body = request(method, params if meta is None else {**params, "_meta": meta}, changed.pop("id", 1))
    assert not changed, f"unknown options: {changed}"
    return body, {name: value for name, value in headers.items() if value is not None}


def request_in(revision: str, method: str, params: Message | None = None, id: int | str = 1) -> Message:  # noqa: A002
    """A right request in any revision."""
    meta = {} if revision in LEGACY else {"_meta": {VERSION_KEY: revision, CAPABILITIES_KEY: ELICITATION}}
    return request(method, (params or {}) | meta, id)


def tool_call(revision: str, tool: str, arguments: Message | None = None, **more: Any) -> Message:
    """A right `tools/call` in any revision."""
    return request_in(revision, "tools/call", {"name": tool, "arguments": arguments or {}, **more})


def headers_for(body: bytes) -> list[Header]:
    """The headers of the newest revision for an encoded message; for a broken one, those of a call of `touch`."""
    try:
        content = json.loads(body)
        method = content["method"]
        name = content["params"].get("uri" if method == "resources/read" else "name")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        method, name = "tools/call", "touch"
    stated = {"Mcp-Method": method, "Mcp-Name": name}
    fitting = [(key, said) for key, said in stated.items() if isinstance(said, str) and said.isascii()]
    return [("MCP-Protocol-Version", MODERN), *((key, said) for key, said in fitting if said.isprintable())]


def session_headers(revision: str, body: bytes, session: str) -> list[Header]:
    """The headers for an encoded message in any revision; the older ones name a session."""
    if revision in LEGACY:
        return [("MCP-Protocol-Version", revision), ("Mcp-Session-Id", session)]
    return headers_for(body)


@dataclass(frozen=True)
class McpAnswer:
    """The response to a request, what came before it, and how it came; `status` is None where there is no HTTP."""

    message: Message
    notices: list[Message] = field(default_factory=list)
    questions: list[Message] = field(default_factory=list)
    status: int | None = None
    raw: bytes = b""

    @property
    def result(self) -> Any:
        """The result; there must be one."""
        assert "result" in self.message, self.message
        return self.message["result"]

    @property
    def error(self) -> Message:
        """The error; there must be one."""
        assert "error" in self.message, self.message
        found: Message = self.message["error"]
        return found

    @property
    def code(self) -> int | None:
        """The code of a JSON-RPC error."""
        return self.message["error"]["code"] if "error" in self.message else None

    @property
    def is_error(self) -> bool:
        """Whether the tool call ended in an error that the model reads."""
        return bool(self.message.get("result", {}).get("isError"))

    @property
    def text(self) -> str:
        """What a model reads: the error's message, or the text of the result."""
        if "error" in self.message:
            return str(self.message["error"]["message"])
        return "".join(block.get("text", "") for block in self.result.get("content", []))

    @property
    def value(self) -> Any:
        """The JSON value that a tool returned."""
        assert not self.is_error, self.text
        return json.loads(self.text)

    def told(self, method: str) -> list[Message]:
        """The params of every notification by this method."""
        return [notice["params"] for notice in self.notices if notice["method"] == f"notifications/{method}"]
