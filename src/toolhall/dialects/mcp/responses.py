"""Encodes MCP results, errors and notifications as bytes (McpEncoder): every answer and error, in every revision."""

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from toolhall.dialects.mcp.catalog import WRAPPER_KEY, OutputForm, output_form
from toolhall.dialects.mcp.content import write_block
from toolhall.dialects.mcp.definitions import McpCatalog
from toolhall.dialects.mcp.errors import ErrorResult, ProtocolError, translate_error, translate_read_error
from toolhall.dialects.mcp.input_requests import write_input_request
from toolhall.dialects.mcp.prompts import write_completion, write_prompt_result
from toolhall.dialects.mcp.protocol import (
    MISSING_CAPABILITY,
    REVISIONS,
    SUPPORTED_VERSIONS,
    URL_ELICITATION_REQUIRED,
    RequestId,
    Revision,
)
from toolhall.dialects.mcp.resources import write_read_result, write_skill
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonChange, JsonObject, encode, walk_levels
from toolhall.model.messages import (
    NOT_FRESH,
    CompletedCall,
    Completion,
    Freshness,
    InputRequired,
    ToolPage,
    Visit,
    WireResponse,
)
from toolhall.model.tool import Kind, Tool

SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
LIST_TTL_MS = 2_000
DISCOVER_TTL_MS = 60_000
_ALWAYS_DECLARED = 2  # capabilities: tools and logging
_WRAPPER_START = b'{"' + WRAPPER_KEY.encode() + b'":'
_CATALOGS = {name: McpCatalog(revision) for name, revision in REVISIONS.items()}
# Members that the hall decides itself, because it checks and runs the calls.
_HALL_MEMBERS = frozenset({"name", "inputSchema", "outputSchema", "execution"})
# Some clients refuse the whole list if one of these is null; null means the same as absent.
_TYPED_MEMBERS = frozenset({"title", "description", "annotations", "icons", "_meta"})


MAX_FORMS = 1_000  # of tools that were called; those of past snapshots too, until there are so many


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Name, version and instructions that the server states about itself."""

    name: str
    version: str
    instructions: str | None = None


class McpEncoder:
    """Encodes messages for one revision; constant parts are encoded once."""

    def __init__(self, server: ServerInfo, revision: Revision) -> None:
        self.revision = revision
        self._server = server
        self._info: JsonObject = {"name": server.name, "version": server.version}
        self._meta: JsonObject = {_SERVER_INFO_KEY: self._info} if revision.stateless else {}
        # MCP 2026-07-28: every result has a resultType, and SHOULD name the server.
        complete: JsonObject = {"resultType": "complete", "_meta": self._meta} if revision.stateless else {}
        self._common_members = complete
        self._result_end = b"," + encode(complete)[1:] + b"}" if complete else b"}}"
        self._result_end_behind_meta = b',"resultType":"complete"}}' if complete else b"}}"
        self._meta_end = b"," + encode(self._meta)[1:] if self._meta else b"}"  # behind members that it does not have
        self._forms: dict[int, tuple[Tool, OutputForm]] = {}  # by the identity of the tool

    def response(self, request_id: RequestId, result: JsonObject) -> WireResponse:
        """A result with the members that this revision adds to all results."""
        body = {**result, **self._common_members}
        if "_meta" in result:
            body["_meta"] = {**result["_meta"], **self._meta}
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "result": body}))

    def typed_response(self, request_id: RequestId, result: JsonObject) -> WireResponse:
        """A result that states its own `resultType`."""
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "result": {**self._common_members, **result}}))

    def initialize_result(
        self, request_id: RequestId, served: Collection[Kind], tasks: JsonObject | None = None
    ) -> WireResponse:
        """The response to `initialize` of a hall that serves these kinds; `tasks` is that capability, if it has it."""
        result: JsonObject = {
            "protocolVersion": self.revision.name,
            "capabilities": write_capabilities(served) | ({} if tasks is None else {"tasks": tasks}),
            "serverInfo": self._info,
        }
        return self.response(request_id, result | self._instructions())

    def discover_result(
        self, request_id: RequestId, served: Collection[Kind], extensions: JsonObject | None = None
    ) -> WireResponse:
        """The response to `server/discover`."""
        result: JsonObject = {
            "supportedVersions": list(SUPPORTED_VERSIONS),
            "capabilities": write_capabilities(served) | ({"extensions": extensions} if extensions else {}),
            "ttlMs": DISCOVER_TTL_MS,
            "cacheScope": "public",
        }
        return self.response(request_id, result | self._instructions())

    def list_result(self, request_id: RequestId, page: ToolPage, method: str = "tools/list") -> WireResponse:
        """The response to one of LIST_MEMBERS, from bytes that are encoded once per page and revision."""
        return self._page_result(request_id, page, LIST_MEMBERS[method])

    def skills_result(self, request_id: RequestId, page: ToolPage) -> WireResponse:
        """The response to `skills/list`."""
        return self._page_result(request_id, page, "skills")

    def skill_result(self, request_id: RequestId, tool: Tool, *, shared: bool) -> WireResponse:
        """The response to `skills/get`."""
        scope = "public" if shared else "private"
        return self.response(request_id, {"skill": write_skill(tool), "ttlMs": LIST_TTL_MS, "cacheScope": scope})

    def directory_result(self, request_id: RequestId, page: ToolPage) -> WireResponse:
        """The response to `resources/directory/read`."""
        return self._page_result(request_id, page, "resources")

    def _page_result(self, request_id: RequestId, page: ToolPage, member: str) -> WireResponse:
        inner = page.encoded.get(self.revision.name)
        if inner is None:
            inner = page.encoded[self.revision.name] = self._encode_page(page, member)
        return WireResponse(b'{"jsonrpc":"2.0","id":' + encode(request_id) + b',"result":' + inner + b"}")

    def result(self, request_id: RequestId, finished: CompletedCall, freshness: Freshness = NOT_FRESH) -> WireResponse:
        """The response to a call, a read or a prompt that completed; `freshness` is that of what was read."""
        tool, result = finished.tool, finished.result
        if tool.resource is not None and not tool.resource.as_tool:
            body = write_read_result(result, self.revision, freshness)
        elif tool.prompt is not None:
            body = write_prompt_result(tool, result)
        else:
            return self.call_result(request_id, finished)
        if result.meta:
            return self.response(request_id, body)
        return WireResponse(
            b'{"jsonrpc":"2.0","id":%b,"result":%b%b' % (encode(request_id), encode(body)[:-1], self._result_end)
        )

    def complete_result(self, request_id: RequestId, completion: Completion) -> WireResponse:
        """The response to `completion/complete`."""
        return self.response(request_id, write_completion(completion))

    def call_result(self, request_id: RequestId, finished: CompletedCall) -> WireResponse:
        """The response to a call of a tool that completed."""
        result, tool = finished.result, finished.tool
        known = self._forms.get(id(tool))
        form = self._remember_form(tool) if known is None else known[1]
        encoded = result.encoded
        structured = None
        if encoded is not None and form.structured:
            if form.wrapped:
                structured = _WRAPPER_START + encoded + b"}"
            elif self.revision.any_output or encoded.startswith(b"{"):
                structured = encoded
        if structured is not None and not (result.content or result.is_error):
            return self._structured_result(request_id, result, structured)
        body: JsonObject = {"content": _content_blocks(result)}
        if structured is not None:
            body["structuredContent"] = msgspec.Raw(structured)
        if result.is_error:
            body["isError"] = True
        if result.meta:
            body["_meta"] = result.meta
        return self.response(request_id, body)

    def _remember_form(self, tool: Tool) -> OutputForm:
        """Decide once per tool how its results are sent; the tool is kept too, so that no other one gets its id."""
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        form = output_form(tool, self.revision)
        self._forms[id(tool)] = tool, form
        return form

    def input_required(self, request_id: RequestId, asked: InputRequired, state: str) -> WireResponse:
        """An `input_required` result: the questions, and the sealed state to send back with the answers."""
        questions = {key: write_input_request(question, self.revision) for key, question in asked.questions.items()}
        result = {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": state,
            "_meta": self._meta,
        }
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "result": result}))

    def error(self, request_id: RequestId | None, error: ToolhallError, kind: Kind = "tool") -> WireResponse:
        """Any error, as a JSON-RPC error or, for a call of a tool, as a result that the model can read."""
        if kind != "tool":
            return write_protocol_error(request_id, translate_read_error(error, self.revision))
        translated = translate_error(error)
        if (
            isinstance(translated, ProtocolError)
            and translated.code == MISSING_CAPABILITY
            and not self.revision.stateless
        ):
            translated = ErrorResult(error.message)  # the code exists only since 2026-07-28
        if isinstance(translated, ErrorResult) and request_id is not None:
            return self._error_result(request_id, translated)
        return write_error(request_id, error)

    def url_elicitation_required(self, request_id: RequestId, visits: Sequence[Visit]) -> WireResponse:
        """MCP 2025-11-25: the person must open pages before the client can retry the call."""
        pages = [
            {"mode": "url", "message": visit.message, "url": visit.url, "elicitationId": visit.id} for visit in visits
        ]
        message = "; ".join(visit.message for visit in visits)
        body = {"code": URL_ELICITATION_REQUIRED, "message": message, "data": {"elicitations": pages}}
        return WireResponse(encode({"jsonrpc": "2.0", "id": request_id, "error": body}))

    def notification(self, method: str, params: JsonObject) -> bytes:
        return encode({"jsonrpc": "2.0", "method": method, "params": params})

    def list_changed(self, kind: Kind, subscription: RequestId | None = None) -> bytes:
        """The notification that the list of tools, resources or prompts changed."""
        params = {} if subscription is None else {"_meta": {SUBSCRIPTION_KEY: subscription}}
        return self.notification(f"notifications/{kind}s/list_changed", params)

    def resource_updated(self, uri: str, subscription: RequestId | None = None) -> bytes:
        """The notification that what a URI means has changed."""
        params: JsonObject = {"uri": uri}
        if subscription is not None:
            params["_meta"] = {SUBSCRIPTION_KEY: subscription}
        return self.notification("notifications/resources/updated", params)

    def _structured_result(self, request_id: RequestId, result: Result, structured: bytes) -> WireResponse:
        """The common result, a value and its text, assembled from bytes that are encoded already."""
        end = self._result_end
        if result.meta:
            if _SERVER_INFO_KEY in result.meta:
                meta = encode({**result.meta, **self._meta})
            else:
                meta = encode(result.meta)[:-1] + self._meta_end
            end = b',"_meta":%b%b' % (meta, self._result_end_behind_meta)
        return WireResponse(
            b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":%b}],"structuredContent":%b%b'
            % (encode(request_id), encode(_result_text(result)), structured, end)
        )

    def _error_result(self, request_id: RequestId, error: ErrorResult) -> WireResponse:
        body: JsonObject = {"content": [{"type": "text", "text": error.text}], "isError": True}
        return self.response(request_id, body | ({"_meta": error.meta} if error.meta else {}))

    def _instructions(self) -> JsonObject:
        return {"instructions": self._server.instructions} if self._server.instructions else {}

    def _encode_page(self, page: ToolPage, member: str) -> bytes:
        write = _LISTED[member]
        result: JsonObject = {member: [write(tool, self.revision) for tool in page.tools]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        if self.revision.stateless:
            result |= {"ttlMs": LIST_TTL_MS, "cacheScope": "public" if page.shared else "private"}
        return encode({**result, **self._common_members})


def write_capabilities(served: Collection[Kind]) -> JsonObject:
    """What a hall declares that serves these kinds; a client asks for nothing that is not declared."""
    # Every revision: a server that sends log messages MUST declare it.
    capabilities: JsonObject = {"tools": {"listChanged": True}, "logging": {}}
    if "resource" in served:
        capabilities["resources"] = {"subscribe": True, "listChanged": True}
    if "prompt" in served:
        capabilities["prompts"] = {"listChanged": True}
    return capabilities | ({"completions": {}} if len(capabilities) > _ALWAYS_DECLARED else {})


def write_error(request_id: RequestId | None, error: ToolhallError) -> WireResponse:
    """A JSON-RPC error; the same in every revision."""
    translated = translate_error(error)
    if isinstance(translated, ErrorResult):
        translated = ProtocolError(-32603, translated.text)
    return write_protocol_error(request_id, translated)


def write_protocol_error(request_id: RequestId | None, translated: ProtocolError) -> WireResponse:
    """A JSON-RPC error."""
    body: JsonObject = {"code": translated.code, "message": translated.message}
    if translated.data is not None:
        body["data"] = translated.data
    # MCP: an id is never null; an error response to an unreadable id has no id.
    known: JsonObject = {} if request_id is None else {"id": request_id}
    return WireResponse(encode({"jsonrpc": "2.0", **known, "error": body}), translated.status, translated.headers)


def write_listed_tool(tool: Tool, revision: Revision) -> JsonObject:
    """The definition of one tool, resource or prompt in a list."""
    from toolhall.dialects.convert import lossless  # lazy: `toolhall call` lists nothing

    remainder = tool.remainder
    if remainder is not None:
        item = tuple(change for change in remainder.item if _is_for_clients(change))
        tool = msgspec.structs.replace(tool, remainder=msgspec.structs.replace(remainder, item=item))
    return lossless.write((tool,), _CATALOGS[revision.name])


RESOURCES_LIST = "resources/list"
# By method: the member of the result that holds the list.
LIST_MEMBERS: Mapping[str, str] = {
    "tools/list": "tools",
    RESOURCES_LIST: "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_LISTED: Mapping[str, Callable[[Tool, Revision], JsonObject]] = {
    "tools": write_listed_tool,
    "resources": write_listed_tool,
    "resourceTemplates": write_listed_tool,
    "prompts": write_listed_tool,
    "skills": lambda tool, _: write_skill(tool),
}


def _is_for_clients(change: JsonChange) -> bool:
    """True if a list may repeat this change of the original document; a replacement of all of it never."""
    member = change.path[1:].partition("/")[0]
    return (
        bool(change.path)
        and member not in _HALL_MEMBERS
        and not (member in _TYPED_MEMBERS and _holds_null(change.value))
    )


def _holds_null(value: Json) -> bool:
    parts = (part.values() if isinstance(part, dict) else part for level in walk_levels(value) for part in level)
    return value is None or any(each is None for part in parts for each in part)


def _content_blocks(result: Result) -> list[Json]:
    """The tool's content blocks; for a bare value its JSON as text, which older clients show to the model."""
    if result.content or result.encoded is None:
        return [write_block(block) for block in result.content]
    return [{"type": "text", "text": _result_text(result)}]


def _result_text(result: Result) -> str:
    return result.text if result.text is not None else (result.encoded or b"").decode()
