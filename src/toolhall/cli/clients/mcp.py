"""MCP clients over HTTP: StatelessMcpClient for 2026-07-28, SessionMcpClient for older revisions, JSON-RPC."""

import base64
import itertools
import re
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from toolhall import __version__
from toolhall.cli.clients.base import CallUI, ToolInfo, object_or_empty
from toolhall.cli.clients.http import Endpoint, HttpExchange
from toolhall.cli.errors import CallTimeout, CommandError
from toolhall.cli.output import visible
from toolhall.dialects.mcp.protocol import METHOD_NOT_FOUND, REVISION_2026_07_28, STATEFUL_REVISIONS
from toolhall.dialects.mcp.requests import VERSIONS_KEY
from toolhall.model.json import Json, JsonObject
from toolhall.schema.annotations import header_parameters

ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST_SECONDS = 30.0
MAX_PAGES = 1_000
_NOTIFY_SECONDS = 10.0
_DEFAULT_RETRY_MS = 1_000
_META = "io.modelcontextprotocol/"
_MAX_ROUNDS = 10
_NO_PARAMS: Mapping[str, Json] = {}
_NO_HEADERS: Mapping[str, str] = {}
_PLAIN_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?")
_ENCODED_HEADER = re.compile(r"=\?base64\?.*\?=")
new_id = itertools.count(1).__next__


class RpcError(CommandError):
    """The server answered with a JSON-RPC error or an HTTP error status."""

    outcome = "refused"

    def __init__(self, message: str, code: int | None = None, status: int = 200) -> None:
        self.rpc_code = code
        self.status = status
        super().__init__(message)


class NoResponse(RpcError):
    """The stream ended before the response came."""


class McpRequester(Protocol):
    """Sends MCP requests in one revision."""

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """Send a request without progress and return its result."""
        ...


def new_request(method: str, params: JsonObject) -> JsonObject:
    """A JSON-RPC request with a new id."""
    return {"jsonrpc": "2.0", "id": new_id(), "method": method, "params": params}


def read_response(
    exchange: HttpExchange, status: int, request_id: Json, on_message: Callable[[JsonObject], None]
) -> JsonObject:
    """The result of this request; other messages of the response go to `on_message`. Raises RpcError."""
    if status == 401:
        raise RpcError(exchange.credential_error(status), None, status)
    for message in exchange.messages():
        match message:
            case {"id": found, "result": dict(result)} if found == request_id:
                return result
            case {"error": {"code": int(code), "message": str(text)}, **rest} if rest.get("id", request_id) in (
                request_id,
                None,
            ):
                raise RpcError(f"the server refused: {visible(text)}", code, status)
            case {"error": {"message": str(text)}} if (
                status >= 500
            ):  # of a proxy, or of a hall that cannot load its tools
                raise RpcError(f"the server refused: {visible(text)}", None, status)
            case {"method": str(), "id": _}:
                with exchange.paused():
                    on_message(message)
            case {"method": str()}:
                on_message(message)
            case _ if status >= 400:
                break
            case _:
                continue
    if status == 403:
        raise RpcError(exchange.credential_error(status), None, status)
    if status >= 400:
        raise RpcError(
            f"the server refused with HTTP status {status}; is this the URL of an MCP endpoint?", None, status
        )
    raise NoResponse("the server ended its reply without an answer", None, status)


def ignore_message(message: JsonObject) -> None:
    """Ignore a message."""


def notification_handler(ui: CallUI) -> Callable[[JsonObject], None]:
    """A message handler that passes progress and log notifications to the CallUI."""

    def on_message(message: JsonObject) -> None:
        match message:
            case {"method": "notifications/progress", "params": {"progress": int() | float() as done, **rest}}:
                total, text = rest.get("total"), rest.get("message")
                known = total if isinstance(total, int | float) else None
                ui.progress(done, known, text if isinstance(text, str) else None)
            case {"method": "notifications/message", "params": {"level": str(level), "data": data}}:
                ui.log(level, data)
            case _:
                return

    return on_message


def fetch_tool_documents(client: McpRequester, *, versions: bool = False) -> list[JsonObject]:
    """All tool definitions by `tools/list`; with `versions` a hall also lists older ones, named by their ids."""
    return fetch_documents(client, "tools/list", "tools", {"_meta": {VERSIONS_KEY: "all"}} if versions else {})


def fetch_documents(
    client: McpRequester, method: str, member: str, params: Mapping[str, Json] = _NO_PARAMS
) -> list[JsonObject]:
    """All definitions of a list, page by page; they are a member of each page."""
    documents: list[JsonObject] = []
    cursor: Json = None
    for _ in range(MAX_PAGES):
        page = client.request(method, {**params} if cursor is None else {**params, "cursor": cursor}, LIST_SECONDS)
        listed, next_cursor = page.get(member), page.get("nextCursor")
        if not isinstance(listed, list):
            raise CommandError(f"the server's answer to {method} holds no {member}")
        documents.extend(each for each in listed if isinstance(each, dict))
        if next_cursor is None or next_cursor == cursor:
            return documents
        cursor = next_cursor
    raise CommandError(f"the server's list of {member} has more than {MAX_PAGES} pages")


def fetch_other_documents(client: "StatelessMcpClient | SessionMcpClient") -> list[JsonObject]:
    """All definitions of resources, templates and prompts, as far as the server declares to serve any."""
    lists = (
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    )
    declared = [each for each in lists if each[0].partition("/")[0] in client.capabilities]
    return [document for method, member in declared for document in fetch_documents(client, method, member)]


def encode_header_value(value: Json) -> str:
    """An argument as the value of a header."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()


class StatelessMcpClient:
    """MCP 2026-07-28: no session; questions of a tool are answered by repeating the call with the replies."""

    revision = REVISION_2026_07_28.name

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.capabilities: JsonObject = {}

    def discover(self, seconds: float) -> list[str]:
        """The revisions that the server supports."""
        result = self.request("server/discover", {}, seconds)
        versions = result.get("supportedVersions")
        self.capabilities = object_or_empty(result.get("capabilities"))
        return [each for each in versions if isinstance(each, str)] if isinstance(versions, list) else []

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """Send a request without progress and return its result."""
        message = new_request(method, params | {"_meta": params.get("_meta", {}) | _request_meta()})
        with HttpExchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", self._headers(method), message)
            return read_response(exchange, status, message["id"], ignore_message)

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> JsonObject:
        """The result of `tools/call`; questions are answered in at most ten rounds, each with its own timeout."""
        headers = _parameter_headers(info, arguments)
        return self.interact("tools/call", {"name": info.name, "arguments": arguments}, ui, seconds, headers)

    def interact(
        self, method: str, params: JsonObject, ui: CallUI, seconds: float, headers: Mapping[str, str] = _NO_HEADERS
    ) -> JsonObject:
        """The result of a request with progress, in which the server may ask the person, at most ten times."""
        sent = params
        for _ in range(_MAX_ROUNDS):
            result = self._send(method, sent, ui, seconds, headers)
            if result.get("resultType") != "input_required":
                return result
            sent = params | {"inputResponses": _answer_questions(result, ui)}
            if "requestState" in result:
                sent["requestState"] = result["requestState"]
        raise CommandError(f"the tool asked more than {_MAX_ROUNDS} times; nothing was decided")

    def close(self) -> None:
        """Nothing: there is no session."""

    def _send(
        self, method: str, params: JsonObject, ui: CallUI, seconds: float, headers: Mapping[str, str]
    ) -> JsonObject:
        message = new_request(method, params | {"_meta": _request_meta() | {f"{_META}logLevel": "info"}})
        message["params"]["_meta"]["progressToken"] = message["id"]
        name = params["uri" if method == "resources/read" else "name"]
        with HttpExchange(self._endpoint, seconds) as exchange:
            all_headers = {**self._headers(method), "Mcp-Name": _encode_header(name), **headers}
            status = exchange.send("POST", all_headers, message)
            return read_response(exchange, status, message["id"], notification_handler(ui))

    def _headers(self, method: str) -> dict[str, str]:
        return ACCEPT | {"MCP-Protocol-Version": REVISION_2026_07_28.name, "Mcp-Method": method}


def _request_meta() -> JsonObject:
    return {
        f"{_META}protocolVersion": REVISION_2026_07_28.name,
        f"{_META}clientInfo": client_info(),
        f"{_META}clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
    }


def client_info() -> JsonObject:
    """The `clientInfo` of this program."""
    return {"name": "toolhall-cli", "version": __version__}


def _parameter_headers(info: ToolInfo, arguments: JsonObject) -> dict[str, str]:
    """The arguments that the schema wants repeated in headers (`x-mcp-header`)."""
    headers: dict[str, str] = {}
    for parameter in header_parameters(info.input):
        value: Json = arguments
        for part in parameter.path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            headers[f"Mcp-Param-{parameter.header}"] = _encode_header(encode_header_value(value))
    return headers


def _encode_header(text: str) -> str:
    """The text as a header value: in base64 if it is not plain ASCII or looks encoded itself."""
    if (_PLAIN_HEADER.fullmatch(text) or not text) and not _ENCODED_HEADER.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _answer_questions(result: JsonObject, ui: CallUI) -> JsonObject:
    questions = result.get("inputRequests", {})
    replies: JsonObject = {}
    for key, question in questions.items() if isinstance(questions, dict) else ():
        match question:
            case {"method": str(method), "params": dict(params)}:
                replies[key] = ui.answer(method, params)
            case _:
                raise CommandError("the server asks a question that is not one")
    return replies


class SessionMcpClient:
    """MCP 2025-11-25 and older: one session with a server, opened by `initialize`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session = ""
        self.revision = ""
        self.capabilities: JsonObject = {}

    def initialize(self, revision: str, seconds: float) -> None:
        """Open the session; the server chooses the revision."""
        capabilities: JsonObject = {"elicitation": {"form": {}, "url": {}}}
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client_info()}
        message = new_request("initialize", params)
        with HttpExchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", ACCEPT, message)
            result = read_response(exchange, status, message["id"], ignore_message)
            self._session = exchange.header("mcp-session-id")
        chosen = result.get("protocolVersion")
        if chosen not in STATEFUL_REVISIONS:
            raise CommandError(f"the server speaks a revision of MCP that is not known here: {chosen!r}"[:200])
        self.revision = chosen
        self.capabilities = object_or_empty(result.get("capabilities"))
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """Send a request without progress and return its result."""
        return self._request(new_request(method, params), ignore_message, seconds)

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> JsonObject:
        """The result of `tools/call`."""
        return self.interact("tools/call", {"name": info.name, "arguments": arguments}, ui, seconds)

    def interact(self, method: str, params: JsonObject, ui: CallUI, seconds: float) -> JsonObject:
        """The result of a request with progress, in which the server may ask the person.

        A timeout or Ctrl+C sends a cancellation, which a disconnect is not here.
        """
        message = new_request(method, dict(params))
        message["params"]["_meta"] = {"progressToken": message["id"]}
        try:
            return self._request(message, self._message_handler(ui), seconds)
        except (CallTimeout, KeyboardInterrupt):
            params = {"requestId": message["id"], "reason": "the caller gave up"}
            self._post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            raise

    def close(self) -> None:
        """End the session, if the server keeps one."""
        if self._session:
            try:
                with HttpExchange(self._endpoint, _NOTIFY_SECONDS) as exchange:
                    exchange.send("DELETE", self._headers())
            except CommandError:
                return  # the server will expire it

    def _request(self, message: JsonObject, on_message: Callable[[JsonObject], None], seconds: float) -> JsonObject:
        deadline = time.monotonic() + seconds
        with HttpExchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", self._headers(), message)
            try:
                return read_response(exchange, status, message["id"], on_message)
            except NoResponse:
                if exchange.last_event is None:
                    raise
        while True:
            exchange = self._resume(exchange, deadline)
            with exchange:
                headers = self._headers() | {"Last-Event-ID": exchange.last_event or ""}
                try:
                    return read_response(exchange, exchange.send("GET", headers), message["id"], on_message)
                except NoResponse:
                    continue

    def _resume(self, ended: HttpExchange, deadline: float) -> HttpExchange:
        """The next exchange of a stream that was closed after an event id (MCP 2025-11-25), after its retry time."""
        pause = (ended.retry_ms if ended.retry_ms is not None else _DEFAULT_RETRY_MS) / 1000
        left = deadline - time.monotonic()
        if pause >= left:
            raise CallTimeout(left)
        time.sleep(pause)
        resumed = HttpExchange(self._endpoint, left - pause)
        resumed.last_event, resumed.retry_ms = ended.last_event, ended.retry_ms
        return resumed

    def _message_handler(self, ui: CallUI) -> Callable[[JsonObject], None]:
        show = notification_handler(ui)

        def on_message(message: JsonObject) -> None:
            match message:
                case {"id": request_id, "method": "ping"}:
                    self._post({"jsonrpc": "2.0", "id": request_id, "result": {}})
                case {"id": request_id, "method": "elicitation/create", "params": dict(params)}:
                    reply = ui.answer("elicitation/create", params)
                    self._post({"jsonrpc": "2.0", "id": request_id, "result": reply})
                case {"id": request_id, "method": str(method)}:
                    error = {"code": METHOD_NOT_FOUND, "message": f"this client cannot answer {method[:64]}"}
                    self._post({"jsonrpc": "2.0", "id": request_id, "error": error})
                case _:
                    show(message)

        return on_message

    def _post(self, message: JsonObject) -> None:
        """Send a message that has no response."""
        with HttpExchange(self._endpoint, _NOTIFY_SECONDS) as exchange:
            exchange.send("POST", self._headers(), message)

    def _headers(self) -> dict[str, str]:
        session = {"Mcp-Session-Id": self._session} if self._session else {}
        return ACCEPT | {"MCP-Protocol-Version": self.revision} | session
