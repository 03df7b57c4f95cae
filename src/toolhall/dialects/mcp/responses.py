"""Encodes MCP results, errors and notifications as bytes (McpEncoder): every answer and error, in every revision."""

from collections.abc import Sequence

import msgspec

from toolhall.dialects.convert import lossless
from toolhall.dialects.mcp.catalog import WRAPPER_KEY, McpCatalog, output_form
from toolhall.dialects.mcp.content import write_block
from toolhall.dialects.mcp.errors import ErrorResult, ProtocolError, translate_error
from toolhall.dialects.mcp.input_requests import write_input_request
from toolhall.dialects.mcp.protocol import (
    MISSING_CAPABILITY,
    REVISIONS,
    SUPPORTED_VERSIONS,
    URL_ELICITATION_REQUIRED,
    RequestId,
    Revision,
)
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject, encode, walk_levels
from toolhall.model.json_diff import JsonChange
from toolhall.model.messages import CompletedCall, InputRequired, ToolPage, WireResponse
from toolhall.model.questions import Visit
from toolhall.model.tool import Tool

_CATALOGS = {name: McpCatalog(revision) for name, revision in REVISIONS.items()}
# What a tool is called by, what its values are checked with and how it runs is for the hall to say, which answers.
_HALL_MEMBERS = frozenset({"name", "inputSchema", "outputSchema", "execution"})
# Clients read these as types of their own, and for a null there some refuse the whole list; it says nothing anyway.
_TYPED_MEMBERS = frozenset({"title", "description", "annotations", "icons", "_meta"})


def write_listed_tool(tool: Tool, revision: Revision) -> JsonObject:
    """The definition of one tool in a list."""
    remainder = tool.remainder
    if remainder is not None:
        item = tuple(change for change in remainder.item if _is_for_clients(change))
        tool = msgspec.structs.replace(tool, remainder=msgspec.structs.replace(remainder, item=item))
    return lossless.write((tool,), _CATALOGS[revision.name])


def _is_for_clients(change: JsonChange) -> bool:
    """Whether a list may say this as the document did; never a document that is to be replaced whole."""
    member = change.path[1:].partition("/")[0]
    return (
        bool(change.path)
        and member not in _HALL_MEMBERS
        and not (member in _TYPED_MEMBERS and _holds_null(change.value))
    )


def _holds_null(value: Json) -> bool:
    parts = (part.values() if isinstance(part, dict) else part for level in walk_levels(value) for part in level)
    return value is None or any(each is None for part in parts for each in part)


SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
LIST_TTL_MS = 2_000
DISCOVER_TTL_MS = 60_000
_WRAPPER_START = b'{"' + WRAPPER_KEY.encode() + b'":'


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How the hall introduces itself."""

    name: str
    version: str
    instructions: str | None = None


class McpEncoder:
    """Writes for one revision; what never changes is encoded once."""

    def __init__(self, server: ServerInfo, revision: Revision) -> None:
        self.revision = revision
        self._server = server
        self._info: JsonObject = {"name": server.name, "version": server.version}
        self._meta: JsonObject = {_SERVER_INFO_KEY: self._info} if revision.stateless else {}
        # MCP 2026-07-28: every result says what kind it is, and SHOULD say whose it is.
        complete: JsonObject = {"resultType": "complete", "_meta": self._meta} if revision.stateless else {}
        self._common_members = complete
        self._result_end = b"," + encode(complete)[1:] + b"}" if complete else b"}}"
        # Every revision: who sends log messages MUST declare it.
        self._capabilities: JsonObject = {"tools": {"listChanged": True}, "logging": {}}

    def response(self, request_id: RequestId, result: JsonObject) -> WireResponse:
        """A result with this revision's usual members."""
        body = {**result, **self._common_members}
        if "_meta" in result:
            body["_meta"] = {**result["_meta"], **self._meta}
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "result": body}))

    def initialize_result(self, request_id: RequestId) -> WireResponse:
        """The answer to `initialize`."""
        result: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": self._capabilities,
            "serverInfo": self._info,
        }
        return self.response(request_id, result | self._instructions())

    def discover_result(self, request_id: RequestId) -> WireResponse:
        """The answer to `server/discover`."""
        result: JsonObject = {
            "supportedVersions": list(SUPPORTED_VERSIONS),
            "capabilities": self._capabilities,
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "public",
        }
        return self.response(request_id, result | self._instructions())

    def list_result(self, request_id: RequestId, page: ToolPage) -> WireResponse:
        """The answer to `tools/list`, from bytes that are encoded once per page and revision."""
        inner = page.encoded.get(self.revision.name)
        if inner is None:
            inner = page.encoded[self.revision.name] = self._encode_page(page)
        return WireResponse(b'{"jsonrpc":"2.0","id":' + encode(request_id) + b',"result":' + inner + b"}")

    def call_result(self, request_id: RequestId, finished: CompletedCall) -> WireResponse:
        """The answer to a call that ran to its end."""
        result, shown = finished.result, output_form(finished.tool, self.revision)
        encoded = result.encoded
        structured = None
        if encoded is not None and shown.structured:
            if shown.wrapped:
                structured = _WRAPPER_START + encoded + b"}"
            elif self.revision.any_output or encoded.startswith(b"{"):
                structured = encoded
        if structured is not None and not (result.content or result.meta or result.is_error):
            return self._structured_result(request_id, result, structured)
        body: JsonObject = {"content": _content_blocks(result)}
        if structured is not None:
            body["structuredContent"] = msgspec.Raw(structured)
        if result.is_error:
            body["isError"] = True
        if result.meta:
            body["_meta"] = result.meta
        return self.response(request_id, body)

    def input_required(self, request_id: RequestId, asked: InputRequired, state: str) -> WireResponse:
        """`input_required`: the questions, and the sealed state to send back with the replies."""
        questions = {key: write_input_request(question, self.revision) for key, question in asked.questions.items()}
        result = {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": state,
            "_meta": self._meta,
        }
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "result": result}))

    def error(self, request_id: RequestId | None, error: ToolhallError) -> WireResponse:
        """Any error, as a JSON-RPC error or as a result the model can read."""
        said = translate_error(error)
        if isinstance(said, ProtocolError) and said.code == MISSING_CAPABILITY and not self.revision.stateless:
            said = ErrorResult(error.message)  # the code exists only since 2026-07-28
        if isinstance(said, ErrorResult) and request_id is not None:
            return self._error_result(request_id, said)
        return write_error(request_id, error)

    def url_elicitation_required(self, request_id: RequestId, visits: Sequence[Visit]) -> WireResponse:
        """MCP 2025-11-25: the person must open pages before the call can succeed; the client then sends it again."""
        pages = [
            {"mode": "url", "message": visit.message, "url": visit.url, "elicitationId": visit.id} for visit in visits
        ]
        message = "; ".join(visit.message for visit in visits)
        body = {"code": URL_ELICITATION_REQUIRED, "message": message, "data": {"elicitations": pages}}
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "error": body}))

    def notification(self, method: str, params: JsonObject) -> bytes:
        """A notification."""
        return encode({"jsonrpc": "2.0", "method": method, "params": params})

    def tools_list_changed(self, subscription: RequestId | None = None) -> bytes:
        """The list of tools is no longer what it was."""
        params = {} if subscription is None else {"_meta": {SUBSCRIPTION_KEY: subscription}}
        return self.notification("notifications/tools/list_changed", params)

    def _structured_result(self, request_id: RequestId, result: Result, structured: bytes) -> WireResponse:
        """The usual result, a value and its text, put together from bytes that are there already."""
        text = encode(_result_text(result))
        body = b',"result":{"content":[{"type":"text","text":' + text + b'}],"structuredContent":' + structured
        return WireResponse(b'{"jsonrpc":"2.0","id":' + encode(request_id) + body + self._result_end)

    def _error_result(self, request_id: RequestId, said: ErrorResult) -> WireResponse:
        body: JsonObject = {"content": [{"type": "text", "text": said.text}], "isError": True}
        return self.response(request_id, body | ({"_meta": said.meta} if said.meta else {}))

    def _instructions(self) -> JsonObject:
        return {"instructions": self._server.instructions} if self._server.instructions else {}

    def _encode_page(self, page: ToolPage) -> bytes:
        result: JsonObject = {"tools": [write_listed_tool(tool, self.revision) for tool in page.tools]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        if self.revision.stateless:
            result |= {"ttlMs": LIST_TTL_MS, "cacheScope": "public" if page.shared else "private"}
        return encode({**result, **self._common_members})


def write_error(request_id: RequestId | None, error: ToolhallError) -> WireResponse:
    """A JSON-RPC error; the same in every revision."""
    said = translate_error(error)
    if isinstance(said, ErrorResult):
        said = ProtocolError(-32603, said.text)
    body: JsonObject = {"code": said.code, "message": said.message}
    if said.data is not None:
        body["data"] = said.data
    # MCP: an id is never null; an error to a message whose id could not be read has none.
    known: JsonObject = {} if request_id is None else {"id": request_id}
    return WireResponse(encode({"jsonrpc": "2.0", **known, "error": body}), said.status, said.headers)


def _content_blocks(result: Result) -> list[Json]:
    """The tool's own blocks; for a bare value its JSON as text, which older clients show to the model."""
    if result.content or result.encoded is None:
        return [write_block(block) for block in result.content]
    return [{"type": "text", "text": _result_text(result)}]


def _result_text(result: Result) -> str:
    return result.text if result.text is not None else (result.encoded or b"").decode()
