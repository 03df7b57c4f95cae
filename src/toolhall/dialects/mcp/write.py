"""Answers and notices as MCP bytes; every answer and every error has a form in every revision."""

from collections.abc import Sequence

import msgspec

from toolhall.dialects.mcp.content import write_block
from toolhall.dialects.mcp.errors import ErrorResult, ProtocolError, say
from toolhall.dialects.mcp.jsonrpc import RequestId
from toolhall.dialects.mcp.output import WRAPPER, shown_output
from toolhall.dialects.mcp.questions import write_question
from toolhall.dialects.mcp.refusals import MISSING_CAPABILITY, URL_ELICITATION_REQUIRED
from toolhall.dialects.mcp.revisions import SUPPORTED, Revision
from toolhall.dialects.mcp.served import served
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Asked, Finished, Page, Wire
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.question import Visit

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
LIST_TTL_MS = 2_000
DISCOVER_TTL_MS = 60_000
_WRAP = b'{"' + WRAPPER.encode() + b'":'


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """How the hall introduces itself."""

    name: str
    version: str
    instructions: str | None = None


class Writer:
    """Writes for one revision; what never changes is encoded once."""

    def __init__(self, server: Server, revision: Revision) -> None:
        self.revision = revision
        self._server = server
        self._info: JsonObject = {"name": server.name, "version": server.version}
        self._meta: JsonObject = {_SERVER_KEY: self._info} if revision.modern else {}
        # MCP 2026-07-28: every result says what kind it is, and SHOULD say whose it is.
        complete: JsonObject = {"resultType": "complete", "_meta": self._meta} if revision.modern else {}
        self._complete = complete
        self._tail = b"," + encode(complete)[1:] + b"}" if complete else b"}}"
        # Every revision: who sends log messages MUST declare it.
        self._capabilities: JsonObject = {"tools": {"listChanged": True}, "logging": {}}

    def response(self, request_id: RequestId, result: JsonObject) -> Wire:
        """A result with this revision's usual members."""
        body = {**result, **self._complete}
        if "_meta" in result:
            body["_meta"] = {**result["_meta"], **self._meta}
        return Wire(encode({"jsonrpc": "2.0", "id": request_id, "result": body}))

    def initialized(self, request_id: RequestId) -> Wire:
        """The answer to `initialize`."""
        result: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": self._capabilities,
            "serverInfo": self._info,
        }
        return self.response(request_id, result | self._instructions())

    def discovered(self, request_id: RequestId) -> Wire:
        """The answer to `server/discover`."""
        result: JsonObject = {
            "supportedVersions": list(SUPPORTED),
            "capabilities": self._capabilities,
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "public",
        }
        return self.response(request_id, result | self._instructions())

    def page(self, request_id: RequestId, page: Page) -> Wire:
        """The answer to `tools/list`, from bytes that are encoded once per page and revision."""
        inner = page.encoded.get(self.revision.name)
        if inner is None:
            inner = page.encoded[self.revision.name] = self._page(page)
        return Wire(b'{"jsonrpc":"2.0","id":' + encode(request_id) + b',"result":' + inner + b"}")

    def finished(self, request_id: RequestId, finished: Finished) -> Wire:
        """The answer to a call that ran to its end."""
        result, shown = finished.result, shown_output(finished.tool, self.revision)
        encoded = result.encoded
        structured = None
        if encoded is not None and shown.structured:
            if shown.wrapped:
                structured = _WRAP + encoded + b"}"
            elif self.revision.any_output or encoded.startswith(b"{"):
                structured = encoded
        if structured is not None and not (result.content or result.meta or result.is_error):
            return self._plain(request_id, result, structured)
        body: JsonObject = {"content": _blocks(result)}
        if structured is not None:
            body["structuredContent"] = msgspec.Raw(structured)
        if result.is_error:
            body["isError"] = True
        if result.meta:
            body["_meta"] = result.meta
        return self.response(request_id, body)

    def asked(self, request_id: RequestId, asked: Asked, state: str) -> Wire:
        """`input_required`: the questions, and the sealed state to send back with the replies."""
        questions = {key: write_question(question, self.revision) for key, question in asked.questions.items()}
        result = {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": state,
            "_meta": self._meta,
        }
        return Wire(encode({"jsonrpc": "2.0", "id": request_id, "result": result}))

    def error(self, request_id: RequestId | None, error: ToolhallError) -> Wire:
        """Any error, as a JSON-RPC error or as a result the model can read."""
        said = say(error)
        if isinstance(said, ProtocolError) and said.code == MISSING_CAPABILITY and not self.revision.modern:
            said = ErrorResult(error.message)  # the code exists only since 2026-07-28
        if isinstance(said, ErrorResult) and request_id is not None:
            return self._error_result(request_id, said)
        return write_error(request_id, error)

    def visits(self, request_id: RequestId, visits: Sequence[Visit]) -> Wire:
        """MCP 2025-11-25: the person must open pages before the call can succeed; the client then sends it again."""
        pages = [
            {"mode": "url", "message": visit.message, "url": visit.url, "elicitationId": visit.id} for visit in visits
        ]
        message = "; ".join(visit.message for visit in visits)
        body = {"code": URL_ELICITATION_REQUIRED, "message": message, "data": {"elicitations": pages}}
        return Wire(encode({"jsonrpc": "2.0", "id": request_id, "error": body}))

    def notice(self, method: str, params: JsonObject) -> bytes:
        """A notification."""
        return encode({"jsonrpc": "2.0", "method": method, "params": params})

    def tools_changed(self, subscription: RequestId | None = None) -> bytes:
        """The list of tools is no longer what it was."""
        params = {} if subscription is None else {"_meta": {SUBSCRIPTION_KEY: subscription}}
        return self.notice("notifications/tools/list_changed", params)

    def _plain(self, request_id: RequestId, result: Result, structured: bytes) -> Wire:
        """The usual result, a value and its text, put together from bytes that are there already."""
        text = encode(_text(result))
        body = b',"result":{"content":[{"type":"text","text":' + text + b'}],"structuredContent":' + structured
        return Wire(b'{"jsonrpc":"2.0","id":' + encode(request_id) + body + self._tail)

    def _error_result(self, request_id: RequestId, said: ErrorResult) -> Wire:
        body: JsonObject = {"content": [{"type": "text", "text": said.text}], "isError": True}
        return self.response(request_id, body | ({"_meta": said.meta} if said.meta else {}))

    def _instructions(self) -> JsonObject:
        return {"instructions": self._server.instructions} if self._server.instructions else {}

    def _page(self, page: Page) -> bytes:
        result: JsonObject = {"tools": [served(tool, self.revision) for tool in page.tools]}
        if page.next is not None:
            result["nextCursor"] = page.next
        if self.revision.modern:
            result |= {"ttlMs": LIST_TTL_MS, "cacheScope": "public" if page.shared else "private"}
        return encode({**result, **self._complete})


def write_error(request_id: RequestId | None, error: ToolhallError) -> Wire:
    """A JSON-RPC error; the same in every revision."""
    said = say(error)
    if isinstance(said, ErrorResult):
        said = ProtocolError(-32603, said.text)
    body: JsonObject = {"code": said.code, "message": said.message}
    if said.data is not None:
        body["data"] = said.data
    # MCP: an id is never null; an error to a message whose id could not be read has none.
    known: JsonObject = {} if request_id is None else {"id": request_id}
    return Wire(encode({"jsonrpc": "2.0", **known, "error": body}), said.status, said.headers)


def _blocks(result: Result) -> list[Json]:
    """The tool's own blocks; for a bare value its JSON as text, which older clients show to the model."""
    if result.content or result.encoded is None:
        return [write_block(block) for block in result.content]
    return [{"type": "text", "text": _text(result)}]


def _text(result: Result) -> str:
    return result.text if result.text is not None else (result.encoded or b"").decode()
