"""A client of MCP 2026-07-28: every request stands alone, and a tool's questions are answered by calling it again."""

import base64
import re
from importlib.metadata import version

from toolhall.cli.failure import CommandFailed
from toolhall.cli.sources.offer import Attendant, Offer
from toolhall.cli.sources.rpc import ACCEPT, encoded, nothing_heard, notices, request, response
from toolhall.cli.sources.wire import Endpoint, Exchange
from toolhall.dialects.mcp.revisions import MODERN
from toolhall.model.json import Json, JsonObject
from toolhall.schema.headers import header_parameters

_META = "io.modelcontextprotocol/"
_MOST_ROUNDS = 10
_PLAIN = re.compile(r"[!-~]([ -~]*[!-~])?")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")


class ModernClient:
    """Remembers nothing about the server."""

    revision = MODERN.name

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def discover(self, seconds: float) -> list[str]:
        """The revisions that the server speaks."""
        found = self.ask("server/discover", {}, seconds).get("supportedVersions")
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

    def ask(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """The result of a request that reports nothing while it runs."""
        message = request(method, params | {"_meta": params.get("_meta", {}) | _terms()})
        with Exchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", self._headers(method), message)
            return response(exchange, status, message["id"], nothing_heard)

    def call(self, offer: Offer, arguments: JsonObject, attendant: Attendant, seconds: float) -> JsonObject:
        """The result of `tools/call`; what the tool asks is answered in rounds, each with its own time."""
        params: JsonObject = {"name": offer.name, "arguments": arguments}
        for _ in range(_MOST_ROUNDS):
            result = self._round(offer, params, attendant, seconds)
            if result.get("resultType") != "input_required":
                return result
            # A tool without a state asks for nothing but to be called again with the replies.
            params = {"name": offer.name, "arguments": arguments, "inputResponses": _replies(result, attendant)}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise CommandFailed(f"the tool asked more than {_MOST_ROUNDS} times; nothing was decided")

    def close(self) -> None:
        """There is no session to end."""

    def _round(self, offer: Offer, params: JsonObject, attendant: Attendant, seconds: float) -> JsonObject:
        message = request("tools/call", params | {"_meta": _terms() | {f"{_META}logLevel": "info"}})
        message["params"]["_meta"]["progressToken"] = message["id"]
        headers = self._headers("tools/call") | {"Mcp-Name": _header(offer.name)}
        headers |= _mirrored(offer, params["arguments"])
        with Exchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", headers, message)
            return response(exchange, status, message["id"], notices(attendant))

    def _headers(self, method: str) -> dict[str, str]:
        return ACCEPT | {"MCP-Protocol-Version": MODERN.name, "Mcp-Method": method}


def _terms() -> JsonObject:
    return {
        f"{_META}protocolVersion": MODERN.name,
        f"{_META}clientInfo": client_info(),
        f"{_META}clientCapabilities": {"elicitation": {"form": {}, "url": {}}},
    }


def client_info() -> JsonObject:
    """How this program introduces itself."""
    return {"name": "toolhall-cli", "version": version("toolhall")}


def _mirrored(offer: Offer, arguments: JsonObject) -> dict[str, str]:
    """The arguments that the tool wants repeated in headers (`x-mcp-header`)."""
    headers: dict[str, str] = {}
    for parameter in header_parameters(offer.input):
        value: Json = arguments
        for part in parameter.path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            headers[f"Mcp-Param-{parameter.header}"] = _header(encoded(value))
    return headers


def _header(text: str) -> str:
    """As it is where a header can carry it; else, and where it looks wrapped itself, in base64."""
    if (_PLAIN.fullmatch(text) or not text) and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _replies(result: JsonObject, attendant: Attendant) -> JsonObject:
    questions = result.get("inputRequests", {})
    replies: JsonObject = {}
    for key, question in questions.items() if isinstance(questions, dict) else ():
        match question:
            case {"method": str(method), "params": dict(params)}:
                replies[key] = attendant.answer(method, params)
            case _:
                raise CommandFailed("the server asks a question that is not one")
    return replies
