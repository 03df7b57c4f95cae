"""A client of MCP 2025-06-18 and 2025-11-25: a handshake, a session, questions as requests of the server's own."""

import time
from collections.abc import Callable

from toolhall.cli.failure import CommandFailed, OutOfTime
from toolhall.cli.sources.modern import client_info
from toolhall.cli.sources.offer import Attendant, Offer
from toolhall.cli.sources.rpc import ACCEPT, Unanswered, nothing_heard, notices, request, response
from toolhall.cli.sources.wire import Endpoint, Exchange
from toolhall.dialects.mcp.refusals import METHOD_NOT_FOUND
from toolhall.dialects.mcp.revisions import LEGACY
from toolhall.model.json import JsonObject

_SIDE_SECONDS = 10.0
_DEFAULT_RETRY_MS = 1_000


class LegacyClient:
    """One session with a server; opened by `start`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._session = ""
        self.revision = ""

    def start(self, revision: str, seconds: float) -> None:
        """The handshake; the server decides which revision is spoken."""
        capabilities: JsonObject = {"elicitation": {"form": {}, "url": {}}}
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client_info()}
        message = request("initialize", params)
        with Exchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", ACCEPT, message)
            result = response(exchange, status, message["id"], nothing_heard)
            self._session = exchange.header("mcp-session-id")
        chosen = result.get("protocolVersion")
        if chosen not in LEGACY:
            raise CommandFailed(f"the server speaks a revision of MCP that is not known here: {chosen!r}"[:200])
        self.revision = chosen
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """The result of a request that reports nothing while it runs."""
        return self._request(request(method, params), nothing_heard, seconds)

    def call(self, offer: Offer, arguments: JsonObject, attendant: Attendant, seconds: float) -> JsonObject:
        """The result of `tools/call`; one that is given up is cancelled, because to hang up is not to cancel here."""
        message = request("tools/call", {"name": offer.name, "arguments": arguments})
        message["params"]["_meta"] = {"progressToken": message["id"]}
        try:
            return self._request(message, self._attended(attendant), seconds)
        except (OutOfTime, KeyboardInterrupt):
            params = {"requestId": message["id"], "reason": "the caller gave up"}
            self._post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            raise

    def close(self) -> None:
        """End the session, if the server keeps one."""
        if self._session:
            try:
                with Exchange(self._endpoint, _SIDE_SECONDS) as exchange:
                    exchange.send("DELETE", self._headers())
            except CommandFailed:
                return  # the server forgets it by itself

    def _request(self, message: JsonObject, heard: Callable[[JsonObject], None], seconds: float) -> JsonObject:
        deadline = time.monotonic() + seconds
        with Exchange(self._endpoint, seconds) as exchange:
            status = exchange.send("POST", self._headers(), message)
            try:
                return response(exchange, status, message["id"], heard)
            except Unanswered:
                if exchange.last_event is None:
                    raise
        while True:
            exchange = self._resume(exchange, deadline)
            with exchange:
                headers = self._headers() | {"Last-Event-ID": exchange.last_event or ""}
                try:
                    return response(exchange, exchange.send("GET", headers), message["id"], heard)
                except Unanswered:
                    continue

    def _resume(self, ended: Exchange, deadline: float) -> Exchange:
        """MCP 2025-11-25: a stream that was closed with an event id goes on with a GET, after the time it asks for."""
        pause = (ended.retry_ms if ended.retry_ms is not None else _DEFAULT_RETRY_MS) / 1000
        left = deadline - time.monotonic()
        if pause >= left:
            raise OutOfTime(left)
        time.sleep(pause)
        following = Exchange(self._endpoint, left - pause)
        following.last_event, following.retry_ms = ended.last_event, ended.retry_ms
        return following

    def _attended(self, attendant: Attendant) -> Callable[[JsonObject], None]:
        show = notices(attendant)

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
        with Exchange(self._endpoint, _SIDE_SECONDS) as exchange:
            exchange.send("POST", self._headers(), message)

    def _headers(self) -> dict[str, str]:
        session = {"Mcp-Session-Id": self._session} if self._session else {}
        return ACCEPT | {"MCP-Protocol-Version": self.revision} | session
