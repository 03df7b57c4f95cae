"""The same call in every dialect: how it is put, and one small reader of what comes back."""

import json
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

from tests.properties.callers.desk import BLOCKS, FREE, NOTHING, OBJECT, TEXT
from tests.properties.callers.house import Building, Reply
from toolhall.model.json import Json, JsonObject

LEFT_OUT: Any = object()  # arguments that are not sent at all
OK = "ok"
JUNE, NOVEMBER, MODERN = "2025-06-18", "2025-11-25", "2026-07-28"
PREFIX = "io.modelcontextprotocol/"


class Call(NamedTuple):
    """What is asked for, in no dialect."""

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
        """The arguments under a dialect's own word, unless they are left out."""
        return {} if self.arguments is LEFT_OUT else {key: self.arguments}


class Said(NamedTuple):
    """An answer: `ok` and the value, or the dialect's own word for what went wrong and its text."""

    word: str
    what: Json


class Way(Protocol):
    """One dialect, in one conversation with one house."""

    dialect: str
    sent: int  # bytes of the last message

    def asked(self, call: Call) -> str:
        """The tool's name in this dialect."""
        ...

    async def send(self, house: Building, call: Call) -> Reply:
        """Make the call."""
        ...

    def read(self, reply: Reply, shape: str) -> Said:
        """What the reply says of a tool whose value is declared in this shape."""
        ...


class Mcp:
    """Model Context Protocol, in one of its revisions."""

    def __init__(self, revision: str) -> None:
        self.dialect = f"mcp@{revision}"
        self.sent = 0
        self._revision = revision
        self._sessions: dict[str | None, str] = {}

    def asked(self, call: Call) -> str:
        """One flat name; a version can only be asked for by the whole id."""
        return call.id if call.version else f"{call.toolkit}_{call.tool}"

    async def send(self, house: Building, call: Call) -> Reply:
        """`tools/call`, after a handshake where the revision has one."""
        name = self.asked(call)
        params: JsonObject = {"name": name, **call.under("arguments")}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": self._revision}
        if self._revision == MODERN:
            params["_meta"] = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}
            headers |= {"mcp-method": "tools/call", "mcp-name": name}
        else:
            headers["mcp-session-id"] = await self._session(house, call.caller)
        body = call.body({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        self.sent = len(body)
        return await house.post("/mcp", body, call.caller, headers)

    async def _session(self, house: Building, caller: str | None) -> str:
        if caller not in self._sessions:
            client = {"name": "caller", "version": "1"}
            params = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": client}
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
            reply = await house.post("/mcp", json.dumps(hello).encode(), caller, {"accept": "application/json"})
            self._sessions[caller] = reply.headers["mcp-session-id"]
        return self._sessions[caller]

    def read(self, reply: Reply, shape: str) -> Said:
        """A JSON-RPC error with its status, or a result."""
        *_, message = _messages(reply)
        if "error" in message:
            return Said(f"{reply.status} {message['error']['code']}", message["error"]["message"])
        assert reply.status == 200
        result = message["result"]
        if result.get("isError"):
            refused = result.get("_meta", {}).get("dev.toolhall/refused")
            return Said(f"isError {refused}" if refused else "isError", "\n".join(_texts(result["content"])))
        return Said(OK, self._value(result, shape))

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
            return _one_or_all(list(_texts(content)))
        if shape == FREE:
            return result["structuredContent"] if "structuredContent" in result else _free(content)
        structured = result["structuredContent"]
        return structured if self._revision == MODERN else structured["result"]


class Oxp:
    """OXP 1.0."""

    dialect = "oxp"
    sent = 0

    def asked(self, call: Call) -> str:
        """`Toolkit.tool`, with a version or without."""
        return call.id

    async def send(self, house: Building, call: Call) -> Reply:
        """`POST /oxp/tools/call`."""
        body = call.body({"request": {"tool_id": call.id, **call.under("input")}})
        self.sent = len(body)
        return await house.post("/oxp/tools/call", body, call.caller, {})

    def read(self, reply: Reply, shape: str) -> Said:
        """A status other than 200, or a result that says whether it succeeded."""
        message = json.loads(reply.body)
        if reply.status != 200:
            return Said(str(reply.status), message["message"])
        result = message["result"]
        if not result["success"]:
            return Said("failed", result["error"]["message"])
        assert "error" not in result
        return Said(OK, result.get("value"))


class Hub:
    """The hub's Tool API."""

    dialect = "hub"
    sent = 0

    def asked(self, call: Call) -> str:
        """Tool and method, as records name them."""
        return call.id

    async def send(self, house: Building, call: Call) -> Reply:
        """`tool_request`."""
        version = {"metadata": {"version": call.version}} if call.version else {}
        message = {"type": "tool_request", "id": "1", "tool": call.toolkit, "method": call.tool, **version}
        body = call.body({**message, **call.under("params")})
        self.sent = len(body)
        return await house.post("/hub", body, call.caller, {})

    def read(self, reply: Reply, shape: str) -> Said:
        """An error with a code, or a result that is always an object."""
        message = json.loads(reply.body)
        if message["error"]:
            return Said(message["error"]["code"], message["error"]["message"])
        assert reply.status == 200
        return Said(OK, _unwrapped(message["result"], shape))


class Machine:
    """Machine Context Protocol."""

    dialect = "machine"
    sent = 0

    def asked(self, call: Call) -> str:
        """Tool and capability, as records name them; there is no version."""
        return f"{call.toolkit}.{call.tool}"

    async def send(self, house: Building, call: Call) -> Reply:
        """An execute request."""
        header = {"version": "1.0", "messageId": str(uuid.uuid4()), "messageType": "request", "source": "test"}
        tool = {"id": call.toolkit, "capability": call.tool, **call.under("parameters")}
        body = call.body({"header": header, "payload": {"tool": tool}})
        self.sent = len(body)
        return await house.post("/machine", body, call.caller, {})

    def read(self, reply: Reply, shape: str) -> Said:
        """An error message, or an execution with a status."""
        message = json.loads(reply.body)
        if message["header"]["messageType"] == "error":
            return Said(f"error {message['error']['code']}", message["error"]["message"])
        execution = message["payload"]["execution"]
        if execution["status"] != "success":
            return Said(f"{execution['status']} {execution['error']['code']}", execution["error"]["message"])
        assert reply.status == 200
        return Said(OK, _unwrapped(execution["result"], shape))


class Rest:
    """Plain REST."""

    dialect = "openapi"
    sent = 0

    def asked(self, call: Call) -> str:
        """Toolkit and tool of the path, as records name them."""
        return call.id

    async def send(self, house: Building, call: Call) -> Reply:
        """The body is the arguments."""
        query = f"?version={call.version}" if call.version else ""
        body = b"" if call.arguments is LEFT_OUT else call.body(call.arguments)
        self.sent = len(body)
        return await house.post(f"/tools/{call.toolkit}/{call.tool}{query}", body, call.caller, {})

    def read(self, reply: Reply, shape: str) -> Said:
        """The bare value, or an error."""
        message = json.loads(reply.body)
        if reply.status != 200:
            return Said(f"{reply.status} {message['error']['code']}", message["error"]["message"])
        return Said(OK, message)


_REVISIONS = (MODERN, NOVEMBER, JUNE)
WAYS: tuple[Callable[[], Way], ...] = (*(partial(Mcp, each) for each in _REVISIONS), Oxp, Hub, Machine, Rest)


def _messages(reply: Reply) -> Iterator[Any]:
    if reply.headers["content-type"] != "text/event-stream":
        yield json.loads(reply.body)
        return
    for line in reply.body.decode().split("\n"):
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _texts(content: list[JsonObject]) -> Iterator[str]:
    """Blocks as dialects without blocks say them."""
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


def _one_or_all(texts: list[str]) -> Json:
    return texts[0] if len(texts) == 1 else texts


def _free(content: list[JsonObject]) -> Json:
    """A value of a tool that promises nothing, in the older revisions: text is text, anything else is JSON."""
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
