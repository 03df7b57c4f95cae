"""Who listens for changes (`subscriptions/listen`), and what they hear."""

from collections import Counter
from collections.abc import Callable, Iterator

from toolhall.dialects.mcp.asks import wants_versions
from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import LIMITED, McpRefusal, bad_params
from toolhall.dialects.mcp.write import SUBSCRIPTION_KEY, Writer
from toolhall.hall import Hall
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.json import JsonObject
from toolhall.transports.mcp.storefront import Audience, hear
from toolhall.transports.stream import Stream

MAX_STREAMS = 5_000
MAX_PER_CALLER = 5
MAX_LOCAL = 100  # every program of this machine is the one local caller
_TOOLS = "toolsListChanged"


class Subscriptions:
    """All open listen streams; each is told once of a change until it has read that."""

    def __init__(self, hall: Hall, writer: Writer) -> None:
        self._hall = hall
        self._writer = writer
        self._open: dict[Stream, Request] = {}
        self._by_caller: Counter[str] = Counter()

    def listen(self, request: Request, caller: Caller, stream: Stream) -> Callable[[], None]:
        """Acknowledge, then tell of changes until the returned function is called."""
        wanted = _wanted(request)
        audience = Audience(caller, self._writer.revision, wants_versions(request))
        self._refuse_storm(caller)
        honoured = {_TOOLS: True} if wanted.get(_TOOLS) else {}
        params = {"notifications": honoured, "_meta": {SUBSCRIPTION_KEY: request.id}}
        stream.send(self._writer.notice("notifications/subscriptions/acknowledged", params))
        self._open[stream] = request
        self._by_caller[caller.account] += 1
        notice = self._writer.tools_changed(request.id)
        stop = hear(self._hall, lambda: audience, lambda: stream.send(notice)) if honoured else None

        def end() -> None:
            del self._open[stream]
            self._by_caller[caller.account] -= 1
            if not self._by_caller[caller.account]:
                del self._by_caller[caller.account]
            if stop:
                stop()

        return end

    def _refuse_storm(self, caller: Caller) -> None:
        most = MAX_LOCAL if caller.id == LOCAL.id else MAX_PER_CALLER
        if self._by_caller[caller.account] >= most:
            words = f"at most {most} listen streams are open per caller; close one, or share it"
        elif len(self._open) >= MAX_STREAMS:
            words = f"this server has {MAX_STREAMS} listen streams already; try again later"
        else:
            return
        raise McpRefusal(LIMITED, words, status=429)

    def cancellations(self) -> Iterator[bytes]:
        """MCP 2026-07-28, cancellation: where all share one channel, a subscription that ends is also cancelled."""
        for request in self._open.values():
            params = {"requestId": request.id, "_meta": {SUBSCRIPTION_KEY: request.id}}
            yield self._writer.notice("notifications/cancelled", params)

    def close(self) -> None:
        """MCP 2026-07-28: a listen request that the server ends is answered, then closed."""
        for stream, request in list(self._open.items()):
            stream.finish(self.farewell(request))

    def farewell(self, request: Request) -> bytes:
        """The answer that ends a subscription."""
        return self._writer.response(request.id, {"_meta": {SUBSCRIPTION_KEY: request.id}}).body


def _wanted(request: Request) -> JsonObject:
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise bad_params('params.notifications must be an object such as {"toolsListChanged": true}')
    if not isinstance(wanted.get(_TOOLS, False), bool):
        raise bad_params(f"params.notifications.{_TOOLS} must be true or false")
    return wanted
