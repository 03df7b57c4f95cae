"""The same tool call in every dialect (MCP, OXP, hub, Machine Context, REST), and what each answer means.

A dialect client writes a call as an HTTP request, sends it through anything that has `post`, and reads the response.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import httpx2
from websockets.asyncio.client import connect

from tests.harness.http_client import HOST, Response
from tests.harness.mcp_messages import MODERN, REVISIONS, initialize, modern_headers, modern_meta, request
from toolhall.model.json import Json, JsonObject

LEFT_OUT: Any = object()  # arguments that are not sent at all
OK = "ok"
# How the value of a tool is declared, which decides how a dialect writes it.
OBJECT, VALUE, TEXT, BLOCKS, NOTHING, FREE = "object", "value", "text", "blocks", "nothing", "free"


class Call(NamedTuple):
    """A tool call in no dialect."""

    caller: str | None
    toolkit: str
    tool: str
    arguments: Json
    version: str | None = None
    escaped: bool = False  # every letter that is not ASCII as \\uXXXX

    @property
    def id(self) -> str:
        """Toolkit, tool and the version asked for, as most dialects and all records name it."""
        return f"{self.toolkit}.{self.tool}" + (f"@{self.version}" if self.version else "")

    def body(self, message: Json) -> bytes:
        """A message as JSON."""
        return json.dumps(message, ensure_ascii=self.escaped).encode()

    def under(self, key: str) -> JsonObject:
        """The arguments under a dialect's own name for them, unless they are left out."""
        return {} if self.arguments is LEFT_OUT else {key: self.arguments}


class Outcome(NamedTuple):
    """What an answer means: `ok` and the value, or the dialect's own code for what went wrong and its text."""

    word: str
    what: Json


class Poster(Protocol):
    """A server that calls can be sent to."""

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Response:
        """Send one POST by this caller."""
        ...


class DialectClient(Protocol):
    """A client of one server in one dialect; `sent` is the size of its last message in bytes."""

    dialect: str
    sent: int

    def asked(self, call: Call) -> str:
        """The tool's name in this dialect."""
        ...

    async def send(self, server: Any, call: Call) -> Response:
        """Make the call."""
        ...

    def read(self, reply: Response, shape: str) -> Outcome:
        """What the response means for a tool whose value is declared in this shape."""
        ...


class McpDialect:
    """Model Context Protocol, in one of its revisions."""

    def __init__(self, revision: str) -> None:
        self.dialect = f"mcp@{revision}"
        self.sent = 0
        self._revision = revision
        self._sessions: dict[str | None, str] = {}

    def asked(self, call: Call) -> str:
        """One flat name; a version can only be asked for by the whole id."""
        return call.id if call.version else f"{call.toolkit}_{call.tool}"

    async def send(self, server: Poster, call: Call) -> Response:
        """`tools/call`, within a session where the revision has sessions."""
        name = self.asked(call)
        params: JsonObject = {"name": name, **call.under("arguments")}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": self._revision}
        if self._revision == MODERN:
            params["_meta"] = modern_meta()
            headers |= {key.lower(): value for key, value in modern_headers("tools/call", name).items()}
        else:
            headers["mcp-session-id"] = await self._session(server, call.caller)
        body = call.body(request("tools/call", params))
        self.sent = len(body)
        return await server.post("/mcp", body, call.caller, headers)

    async def _session(self, server: Poster, caller: str | None) -> str:
        if caller not in self._sessions:
            hello = json.dumps(initialize(self._revision)).encode()
            reply = await server.post("/mcp", hello, caller, {"accept": "application/json"})
            self._sessions[caller] = reply.headers["mcp-session-id"]
        return self._sessions[caller]

    def read(self, reply: Response, shape: str) -> Outcome:
        """A JSON-RPC error with its status, or a result."""
        *_, message = reply.messages
        if "error" in message:
            return Outcome(f"{reply.status} {message['error']['code']}", message["error"]["message"])
        assert reply.status == 200
        result = message["result"]
        if result.get("isError"):
            refused = result.get("_meta", {}).get("dev.toolhall/refused")
            return Outcome(f"isError {refused}" if refused else "isError", "\n".join(_texts(result["content"])))
        return Outcome(OK, self._value(result, shape))

    def _value(self, result: JsonObject, shape: str) -> Json:
        content = result["content"]
        if shape == OBJECT:
            return result["structuredContent"]
        if shape == NOTHING:
            assert content == []
            assert "structuredContent" not in result
            return None
        if shape == TEXT:
            return content[0]["text"]
        if shape == BLOCKS:
            texts = list(_texts(content))
            return texts[0] if len(texts) == 1 else texts
        if shape == FREE:
            return result["structuredContent"] if "structuredContent" in result else _free(content)
        structured = result["structuredContent"]
        return structured if self._revision == MODERN else structured["result"]


class _Stateless:
    """A dialect in which each call is one POST that needs no other."""

    dialect: str
    sent = 0

    def asked(self, call: Call) -> str:
        """Toolkit, tool and version, as records name them."""
        return call.id

    def request(self, call: Call) -> tuple[str, bytes]:
        """The path and the body of a call."""
        raise NotImplementedError

    async def send(self, server: Poster, call: Call) -> Response:
        """Send the request of the call."""
        path, body = self.request(call)
        self.sent = len(body)
        return await server.post(path, body, call.caller, {})


class OxpDialect(_Stateless):
    """OXP 1.0."""

    dialect = "oxp"

    def request(self, call: Call) -> tuple[str, bytes]:
        """`POST /oxp/tools/call`."""
        return "/oxp/tools/call", call.body({"request": {"tool_id": call.id, **call.under("input")}})

    def read(self, reply: Response, shape: str) -> Outcome:
        """A status other than 200, or a result that says whether it succeeded."""
        message = reply.json
        if reply.status != 200:
            return Outcome(str(reply.status), message["message"])
        result = message["result"]
        if not result["success"]:
            return Outcome("failed", result["error"]["message"])
        assert "error" not in result
        return Outcome(OK, result.get("value"))


class HubDialect(_Stateless):
    """The hub's Tool API."""

    dialect = "hub"

    def request(self, call: Call) -> tuple[str, bytes]:
        """`tool_request`."""
        version = {"metadata": {"version": call.version}} if call.version else {}
        message = {"type": "tool_request", "id": "1", "tool": call.toolkit, "method": call.tool, **version}
        return "/hub", call.body({**message, **call.under("params")})

    def read(self, reply: Response, shape: str) -> Outcome:
        """An error with a code, or a result that is always an object."""
        message = reply.json
        if message["error"]:
            return Outcome(message["error"]["code"], message["error"]["message"])
        assert reply.status == 200
        return Outcome(OK, _unwrapped(message["result"], shape))


class HubSocketDialect(HubDialect):
    """The hub's Tool API over its WebSocket, one connection for each call."""

    dialect = "hub socket"

    async def send(self, server: Any, call: Call) -> Response:
        """`tool_request`, to a server that also has `port`, `seen` and `proof`."""
        _, body = self.request(call)
        url, headers = f"ws://{HOST}:{server.port}/hub", server.proof(call.caller)
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            await socket.send(body.decode())
            said = await socket.recv(decode=False)
        server.seen += said
        return Response(200, httpx2.Headers(), said)


class MachineDialect(_Stateless):
    """Machine Context Protocol."""

    dialect = "machine"

    def asked(self, call: Call) -> str:
        """Tool and capability, as records name them; there is no version."""
        return f"{call.toolkit}.{call.tool}"

    def request(self, call: Call) -> tuple[str, bytes]:
        """An execute request."""
        header = {"version": "1.0", "messageId": str(uuid.uuid4()), "messageType": "request", "source": "test"}
        tool = {"id": call.toolkit, "capability": call.tool, **call.under("parameters")}
        return "/machine", call.body({"header": header, "payload": {"tool": tool}})

    def read(self, reply: Response, shape: str) -> Outcome:
        """An error message, or an execution with a status."""
        message = reply.json
        if message["header"]["messageType"] == "error":
            return Outcome(f"error {message['error']['code']}", message["error"]["message"])
        execution = message["payload"]["execution"]
        if execution["status"] != "success":
            return Outcome(f"{execution['status']} {execution['error']['code']}", execution["error"]["message"])
        assert reply.status == 200
        return Outcome(OK, _unwrapped(execution["result"], shape))


class RestDialect(_Stateless):
    """Plain REST."""

    dialect = "openapi"

    def request(self, call: Call) -> tuple[str, bytes]:
        """The body is the arguments."""
        query = f"?version={call.version}" if call.version else ""
        body = b"" if call.arguments is LEFT_OUT else call.body(call.arguments)
        return f"/tools/{call.toolkit}/{call.tool}{query}", body

    def read(self, reply: Response, shape: str) -> Outcome:
        """The bare value, or an error."""
        message = reply.json
        if reply.status != 200:
            return Outcome(f"{reply.status} {message['error']['code']}", message["error"]["message"])
        return Outcome(OK, message)


# A maker of a client for every dialect that is sent by POST; then with the hub's WebSocket.
DIALECT_CLIENTS: tuple[Callable[[], DialectClient], ...] = (
    *(partial(McpDialect, each) for each in reversed(REVISIONS)),
    *(OxpDialect, HubDialect, MachineDialect, RestDialect),
)
ALL_DIALECT_CLIENTS = (*DIALECT_CLIENTS, HubSocketDialect)


def _texts(content: list[JsonObject]) -> Iterator[str]:
    """Content blocks as dialects without blocks write them."""
    for block in content:
        match block:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "image", "data": str(data), "mimeType": str(kind)}:
                yield f"data:{kind};base64,{data}"
            case {"type": "resource_link", "uri": str(uri)}:
                yield uri
            case _:
                raise AssertionError(f"an unknown block: {block}")


def _free(content: list[JsonObject]) -> Json:
    """A value of a tool without output schema, in the older revisions: text is text, anything else is JSON."""
    if not content:
        return None
    text = content[0]["text"]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _unwrapped(result: JsonObject, shape: str) -> Json:
    """dialects.md 5.4: what is not declared as an object is wrapped; nothing at all is an empty object."""
    if shape == OBJECT:
        return result
    if shape == NOTHING:
        assert result == {}
        return None
    if shape == FREE and result.keys() != {"result"}:
        return result or None
    return result["result"]
