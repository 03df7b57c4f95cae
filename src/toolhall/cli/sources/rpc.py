"""JSON-RPC as a client speaks it: requests out, the one response back, whatever comes in between handed on."""

import itertools
from collections.abc import Callable
from typing import Protocol

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import visible
from toolhall.cli.sources.offer import Attendant
from toolhall.cli.sources.wire import Exchange
from toolhall.dialects.mcp.asks import VERSIONS_KEY
from toolhall.model.json import Json, JsonObject

ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST_SECONDS = 30.0
MOST_PAGES = 1_000

new_id = itertools.count(1).__next__


class RpcError(CommandFailed):
    """The server answered with an error."""

    outcome = "refused"

    def __init__(self, message: str, code: int | None = None, status: int = 200) -> None:
        self.rpc_code = code
        self.status = status
        super().__init__(message)


class Unanswered(RpcError):
    """The stream ended before the response came."""


class Client(Protocol):
    """One revision's way to talk to a server."""

    def ask(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """The result of a request that reports nothing while it runs."""
        ...


def request(method: str, params: JsonObject) -> JsonObject:
    """A request with an id of its own."""
    return {"jsonrpc": "2.0", "id": new_id(), "method": method, "params": params}


def response(exchange: Exchange, status: int, wanted: Json, heard: Callable[[JsonObject], None]) -> JsonObject:
    """The result for this id; every other message is handed to `heard`."""
    if status == 401:
        raise RpcError(exchange.refusal(status), None, status)
    for message in exchange.messages():
        match message:
            case {"id": found, "result": dict(result)} if found == wanted:
                return result
            case {"error": {"code": int(code), "message": str(text)}, **rest} if rest.get("id", wanted) in (
                wanted,
                None,
            ):
                raise RpcError(f"the server refused: {visible(text)}", code, status)
            case {"error": {"message": str(text)}} if status >= 500:  # what stands before it, or in for it
                raise RpcError(f"the server refused: {visible(text)}", None, status)
            case {"method": str(), "id": _}:
                with exchange.paused():
                    heard(message)
            case {"method": str()}:
                heard(message)
            case _ if status >= 400:
                break
            case _:
                continue
    if status == 403:
        raise RpcError(exchange.refusal(status), None, status)
    if status >= 400:
        raise RpcError(
            f"the server refused with HTTP status {status}; is this the URL of an MCP endpoint?", None, status
        )
    raise Unanswered("the server ended its reply without an answer", None, status)


def nothing_heard(message: JsonObject) -> None:
    """For requests that nobody attends to."""


def notices(attendant: Attendant) -> Callable[[JsonObject], None]:
    """Hands progress and log notices to the attendant."""

    def heard(message: JsonObject) -> None:
        match message:
            case {"method": "notifications/progress", "params": {"progress": int() | float() as done, **rest}}:
                total, text = rest.get("total"), rest.get("message")
                known = total if isinstance(total, int | float) else None
                attendant.progress(done, known, text if isinstance(text, str) else None)
            case {"method": "notifications/message", "params": {"level": str(level), "data": data}}:
                attendant.log(level, data)
            case _:
                return

    return heard


def list_tools(client: Client, *, versions: bool = False) -> list[JsonObject]:
    """Every definition, page after page; with `versions` a hall also lists older ones, under their ids as names."""
    tools: list[JsonObject] = []
    cursor: Json = None
    asked: JsonObject = {"_meta": {VERSIONS_KEY: "all"}} if versions else {}
    for _ in range(MOST_PAGES):
        page = client.ask("tools/list", asked if cursor is None else {**asked, "cursor": cursor}, LIST_SECONDS)
        listed, following = page.get("tools"), page.get("nextCursor")
        if not isinstance(listed, list):
            raise CommandFailed("the server's answer to tools/list holds no tools")
        tools.extend(tool for tool in listed if isinstance(tool, dict))
        if following is None or following == cursor:
            return tools
        cursor = following
    raise CommandFailed(f"the server's list of tools has more than {MOST_PAGES} pages")


def encoded(value: Json) -> str:
    """A value as a header says it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()
