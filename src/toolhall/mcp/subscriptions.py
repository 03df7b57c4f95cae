"""`Subscriptions`: the open `subscriptions/listen` streams, limited per caller and in total."""

from collections import Counter
from collections.abc import Callable, Iterator

from toolhall.dialects.mcp.protocol import RATE_LIMITED, JsonRpcRequest, McpRefusal, invalid_params
from toolhall.dialects.mcp.requests import wants_all_versions
from toolhall.dialects.mcp.responses import SUBSCRIPTION_KEY, McpEncoder
from toolhall.http.sse import EventStream
from toolhall.mcp.tool_requests import ClientView, subscribe_list_changes
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.json import JsonObject
from toolhall.pipeline.dispatcher import Dispatcher

MAX_STREAMS = 5_000
MAX_PER_CALLER = 5
MAX_LOCAL = 100  # every program of this machine is the one local caller
_TOOLS_LIST_CHANGED = "toolsListChanged"


class Subscriptions:
    """All open listen streams; each is told once of a change until it has read that."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder) -> None:
        self._dispatcher = dispatcher
        self._encoder = encoder
        self._open: dict[EventStream, JsonRpcRequest] = {}
        self._by_caller: Counter[str] = Counter()

    def listen(self, request: JsonRpcRequest, caller: Caller, stream: EventStream) -> Callable[[], None]:
        """Acknowledge, then tell of changes until the returned function is called."""
        wanted = _notification_filter(request)
        audience = ClientView(caller, self._encoder.revision, wants_all_versions(request))
        self._check_limits(caller)
        honoured = {_TOOLS_LIST_CHANGED: True} if wanted.get(_TOOLS_LIST_CHANGED) else {}
        params = {"notifications": honoured, "_meta": {SUBSCRIPTION_KEY: request.id}}
        stream.send(self._encoder.notification("notifications/subscriptions/acknowledged", params))
        self._open[stream] = request
        self._by_caller[caller.rate_limit_key] += 1
        notice = self._encoder.tools_list_changed(request.id)
        stop = (
            subscribe_list_changes(self._dispatcher, lambda: audience, lambda: stream.send(notice))
            if honoured
            else None
        )

        def end() -> None:
            del self._open[stream]
            self._by_caller[caller.rate_limit_key] -= 1
            if not self._by_caller[caller.rate_limit_key]:
                del self._by_caller[caller.rate_limit_key]
            if stop:
                stop()

        return end

    def _check_limits(self, caller: Caller) -> None:
        most = MAX_LOCAL if caller.id == LOCAL.id else MAX_PER_CALLER
        if self._by_caller[caller.rate_limit_key] >= most:
            words = f"at most {most} listen streams are open per caller; close one, or share it"
        elif len(self._open) >= MAX_STREAMS:
            words = f"this server has {MAX_STREAMS} listen streams already; try again later"
        else:
            return
        raise McpRefusal(RATE_LIMITED, words, status=429)

    def cancellations(self) -> Iterator[bytes]:
        """MCP 2026-07-28, cancellation: where all share one channel, a subscription that ends is also cancelled."""
        for request in self._open.values():
            params = {"requestId": request.id, "_meta": {SUBSCRIPTION_KEY: request.id}}
            yield self._encoder.notification("notifications/cancelled", params)

    def close(self) -> None:
        """MCP 2026-07-28: a listen request that the server ends is answered, then closed."""
        for stream, request in list(self._open.items()):
            stream.finish(self.closing_response(request))

    def closing_response(self, request: JsonRpcRequest) -> bytes:
        """The answer that ends a subscription."""
        return self._encoder.response(request.id, {"_meta": {SUBSCRIPTION_KEY: request.id}}).body


def _notification_filter(request: JsonRpcRequest) -> JsonObject:
    wanted = request.params.get("notifications")
    if not isinstance(wanted, dict):
        raise invalid_params('params.notifications must be an object such as {"toolsListChanged": true}')
    if not isinstance(wanted.get(_TOOLS_LIST_CHANGED, False), bool):
        raise invalid_params(f"params.notifications.{_TOOLS_LIST_CHANGED} must be true or false")
    return wanted
