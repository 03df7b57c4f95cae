"""MCP clients over HTTP: StatelessMcpClient for 2026-07-28, SessionMcpClient for older revisions, JSON-RPC."""

import base64
import itertools
import re
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Protocol

import msgspec

from toolhall.cli.clients.base import CallUI, ToolInfo
from toolhall.cli.clients.http import Endpoint, HttpExchange
from toolhall.cli.errors import CallTimeout, CommandError
from toolhall.cli.output import visible
from toolhall.dialects.mcp.protocol import METHOD_NOT_FOUND, REVISION_2026_07_28, STATEFUL_REVISIONS
from toolhall.dialects.mcp.requests import VERSIONS_KEY
from toolhall.model.json import Json, JsonObject
from toolhall.schema.header_parameters import header_parameters

ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST_SECONDS = 30.0
MAX_PAGES = 1_000
new_id = itertools.count(1).__next__


class RpcError(CommandError):
    """The server answered with an error."""

    outcome = "refused"

    def __init__(self, message: str, code: int | None = None, status: int = 200) -> None:
        self.rpc_code = code
        self.status = status
        super().__init__(message)


class NoResponse(RpcError):
    """The stream ended before the response came."""


class McpRequester(Protocol):
    """One revision's way to talk to a server."""

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """The result of a request that reports nothing while it runs."""
        ...


def new_request(method: str, params: JsonObject) -> JsonObject:
    """A request with an id of its own."""
    return {"jsonrpc": "2.0", "id": new_id(), "method": method, "params": params}


def read_response(
    exchange: HttpExchange, status: int, request_id: Json, on_message: Callable[[JsonObject], None]
) -> JsonObject:
    """The result for this id; every other message is handed to `heard`."""
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
            case {"error": {"message": str(text)}} if status >= 500:  # what stands before it, or in for it
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
    """For requests that nobody attends to."""


def notification_handler(ui: CallUI) -> Callable[[JsonObject], None]:
    """Hands progress and log notices to the attendant."""

    def heard(message: JsonObject) -> None:
        match message:
            case {"method": "notifications/progress", "params": {"progress": int() | float() as done, **rest}}:
                total, text = rest.get("total"), rest.get("message")
                known = total if isinstance(total, int | float) else None
                ui.progress(done, known, text if isinstance(text, str) else None)
            case {"method": "notifications/message", "params": {"level": str(level), "data": data}}:
                ui.log(level, data)
            case _:
                return

    return heard


def fetch_tool_documents(client: McpRequester, *, versions: bool = False) -> list[JsonObject]:
    """Every definition, page after page; with `versions` a hall also lists older ones, under their ids as names."""
    tools: list[JsonObject] = []
    cursor: Json = None
    asked: JsonObject = {"_meta": {VERSIONS_KEY: "all"}} if versions else {}
    for _ in range(MAX_PAGES):
        page = client.request("tools/list", asked if cursor is None else {**asked, "cursor": cursor}, LIST_SECONDS)
        listed, following = page.get("tools"), page.get("nextCursor")
        if not isinstance(listed, list):
            raise CommandError("the server's answer to tools/list holds no tools")
        tools.extend(tool for tool in listed if isinstance(tool, dict))
        if following is None or following == cursor:
            return tools
        cursor = following
    raise CommandError(f"the server's list of tools has more than {MAX_PAGES} pages")


def encode_header_value(value: Json) -> str:
    """A value as a header says it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()


_META = "io.modelcontextprotocol/"
_MAX_ROUNDS = 10
_PLAIN_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?")
_ENCODED_HEADER = re.compile(r"=\?base64\?.*\?=")


class StatelessMcpClient:
    """Remembers nothing about the server."""

    revision = REVISION_2026_07_28.name

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def discover(self, seconds: float) -> list[str]:
        """The revisions that the server speaks."""
        found = self.request("server/discover", {}, seconds).get("supportedVersions")
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """The result of a request that reports nothing while it runs."""
        message = new_request(method, params | {"_meta": params.get("_meta", {}) | _request_meta()})
        with HttpExchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", self._headers(method), message)
            return read_response(exchange, status, message["id"], ignore_message)

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> JsonObject:
        """The result of `tools/call`; what the tool asks is answered in rounds, each with its own time."""
        params: JsonObject = {"name": info.name, "arguments": arguments}
        for _ in range(_MAX_ROUNDS):
            result = self._call_once(info, params, ui, seconds)
            if result.get("resultType") != "input_required":
                return result
            # A tool without a state asks for nothing but to be called again with the replies.
            params = {"name": info.name, "arguments": arguments, "inputResponses": _answer_questions(result, ui)}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise CommandError(f"the tool asked more than {_MAX_ROUNDS} times; nothing was decided")

    def close(self) -> None:
        """There is no session to end."""

    def _call_once(self, offer: ToolInfo, params: JsonObject, attendant: CallUI, seconds: float) -> JsonObject:
        message = new_request("tools/call", params | {"_meta": _request_meta() | {f"{_META}logLevel": "info"}})
        message["params"]["_meta"]["progressToken"] = message["id"]
        headers = self._headers("tools/call") | {"Mcp-Name": _encode_header(offer.name)}
        headers |= _parameter_headers(offer, params["arguments"])
        with HttpExchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", headers, message)
            return read_response(exchange, status, message["id"], notification_handler(attendant))

    def _headers(self, method: str) -> dict[str, str]:
        return ACCEPT | {"MCP-Protocol-Version": REVISION_2026_07_28.name, "Mcp-Method": method}


def _request_meta() -> JsonObject:
    return {
        f"{_META}protocolVersion": REVISION_2026_07_28.name,
        f"{_META}clientInfo": client_info(),
        f"{_META}clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
    }


def client_info() -> JsonObject:
    """How this program introduces itself."""
    return {"name": "toolhall-cli", "version": version("toolhall")}


def _parameter_headers(offer: ToolInfo, arguments: JsonObject) -> dict[str, str]:
    """The arguments that the tool wants repeated in headers (`x-mcp-header`)."""
    headers: dict[str, str] = {}
    for parameter in header_parameters(offer.input):
        value: Json = arguments
        for part in parameter.path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            headers[f"Mcp-Param-{parameter.header}"] = _encode_header(encode_header_value(value))
    return headers


def _encode_header(text: str) -> str:
    """As it is where a header can carry it; else, and where it looks wrapped itself, in base64."""
    if (_PLAIN_HEADER.fullmatch(text) or not text) and not _ENCODED_HEADER.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _answer_questions(result: JsonObject, attendant: CallUI) -> JsonObject:
    questions = result.get("inputRequests", {})
    replies: JsonObject = {}
    for key, question in questions.items() if isinstance(questions, dict) else ():
        match question:
            case {"method": str(method), "params": dict(params)}:
                replies[key] = attendant.answer(method, params)
            case _:
                raise CommandError("the server asks a question that is not one")
    return replies


_NOTIFY_SECONDS = 10.0
_DEFAULT_RETRY_MS = 1_000


class SessionMcpClient:
    """One session with a server; opened by `start`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session = ""
        self.revision = ""

    def initialize(self, revision: str, seconds: float) -> None:
        """The handshake; the server decides which revision is spoken."""
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
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """The result of a request that reports nothing while it runs."""
        return self._request(new_request(method, params), ignore_message, seconds)

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> JsonObject:
        """The result of `tools/call`; one that is given up is cancelled, because to hang up is not to cancel here."""
        message = new_request("tools/call", {"name": info.name, "arguments": arguments})
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
                return  # the server forgets it by itself

    def _request(self, message: JsonObject, heard: Callable[[JsonObject], None], seconds: float) -> JsonObject:
        deadline = time.monotonic() + seconds
        with HttpExchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", self._headers(), message)
            try:
                return read_response(exchange, status, message["id"], heard)
            except NoResponse:
                if exchange.last_event is None:
                    raise
        while True:
            exchange = self._resume(exchange, deadline)
            with exchange:
                headers = self._headers() | {"Last-Event-ID": exchange.last_event or ""}
                try:
                    return read_response(exchange, exchange.send("GET", headers), message["id"], heard)
                except NoResponse:
                    continue

    def _resume(self, ended: HttpExchange, deadline: float) -> HttpExchange:
        """MCP 2025-11-25: a stream that was closed with an event id goes on with a GET, after the time it asks for."""
        pause = (ended.retry_ms if ended.retry_ms is not None else _DEFAULT_RETRY_MS) / 1000
        left = deadline - time.monotonic()
        if pause >= left:
            raise CallTimeout(left)
        time.sleep(pause)
        following = HttpExchange(self._endpoint, left - pause)
        following.last_event, following.retry_ms = ended.last_event, ended.retry_ms
        return following

    def _message_handler(self, attendant: CallUI) -> Callable[[JsonObject], None]:
        show = notification_handler(attendant)

        def heard(message: JsonObject) -> None:
            match message:
                case {"id": asked, "method": "ping"}:
                    self._post({"jsonrpc": "2.0", "id": asked, "result": {}})
                case {"id": asked, "method": "elicitation/create", "params": dict(params)}:
                    reply = attendant.answer("elicitation/create", params)
                    self._post({"jsonrpc": "2.0", "id": asked, "result": reply})
                case {"id": asked, "method": str(method)}:
                    error = {"code": METHOD_NOT_FOUND, "message": f"this client cannot answer {method[:64]}"}
                    self._post({"jsonrpc": "2.0", "id": asked, "error": error})
                case _:
                    show(message)

        return heard

    def _post(self, message: JsonObject) -> None:
        """Send something that has no answer."""
        with HttpExchange(self._endpoint, _NOTIFY_SECONDS) as exchange:
            exchange.send("POST", self._headers(), message)

    def _headers(self) -> dict[str, str]:
        session = {"Mcp-Session-Id": self._session} if self._session else {}
        return ACCEPT | {"MCP-Protocol-Version": self.revision} | session
