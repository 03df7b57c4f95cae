"""A running hall, asked over HTTP."""

import msgspec

from toolhall.cli.sources.wire import MCP_PATH, Exchange, read_url
from toolhall.cli.waiting import waiting
from toolhall.model.json import Json, JsonObject

SECONDS = 60.0
_ACCEPT = {"Accept": "application/json"}
_JSON = {**_ACCEPT, "Content-Type": "application/json"}


class RemoteDesk:
    """One request for each thing that is asked."""

    def __init__(self, url: str, key: str | None = None) -> None:
        endpoint = read_url(url, key)
        self.sends_key = bool(endpoint.key)
        base = endpoint.path.partition("?")[0].rstrip("/").removesuffix(MCP_PATH)
        self._endpoint = msgspec.structs.replace(endpoint, path=base)

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """The status and the value of the reply."""
        place = msgspec.structs.replace(self._endpoint, path=f"{self._endpoint.path}{target}")
        if body is not None:  # it may hold a secret
            place.refuse_listeners()
        with waiting(f"Asking {self._endpoint}"), Exchange(place, SECONDS) as exchange:
            status = exchange.send(method, _ACCEPT if body is None else _JSON, body)
            return status, next(exchange.messages(), None)

    def bringing(self, detail: str) -> None:
        """A running hall knows by itself that it comes over HTTP, and believes nobody more."""

    def close(self) -> None:
        """Each request has closed its own connection."""
