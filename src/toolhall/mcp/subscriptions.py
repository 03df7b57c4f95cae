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
MAX_LOCAL = 100  # every program of this machine is the same local caller
_TOOLS_LIST_CHANGED = "toolsListChanged"


class Subscriptions:
    """All open `subscriptions/listen` streams."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder) -> None:
        self._dispatcher = dispatcher
        self._encoder = encoder
        self._open: dict[EventStream, JsonRpcRequest] = {}
        self._by_caller: Counter[str] = Counter()

    def listen(self, request: JsonRpcRequest, caller: Caller, stream: EventStream) -> Callable[[], None]:
        """Acknowledge, then send list changes to the stream until the returned function is called."""
        requested = _notification_filter(request)
        view = ClientView(caller, self._encoder.revision, wants_all_versions(request))
        self._check_limits(caller)
        accepted = {_TOOLS_LIST_CHANGED: True} if requested.get(_TOOLS_LIST_CHANGED) else {}
        params = {"notifications": accepted, "_meta": {SUBSCRIPTION_KEY: request.id}}
        stream.send(self._encoder.notification("notifications/subscriptions/acknowledged", params))
        self._open[stream] = request
        self._by_caller[caller.rate_limit_key] += 1
        notification = self._encoder.tools_list_changed(request.id)
        unsubscribe = (
            subscribe_list_changes(self._dispatcher, lambda: view, lambda: stream.send(notification))
            if accepted
            else None
        )

        def end() -> None:
            del self._open[stream]
            self._by_caller[caller.rate_limit_key] -= 1
            if not self._by_caller[caller.rate_limit_key]:
                del self._by_caller[caller.rate_limit_key]
            if unsubscribe:
                unsubscribe()

        return end

    def _check_limits(self, caller: Caller) -> None:
        limit = MAX_LOCAL if caller.id == LOCAL.id else MAX_PER_CALLER
        if self._by_caller[caller.rate_limit_key] >= limit:
            message = f"at most {limit} listen streams are open per caller; close one, or share it"
        elif len(self._open) >= MAX_STREAMS:
            message = f"this server has {MAX_STREAMS} listen streams already; try again later"
        else:
            return
        raise McpRefusal(RATE_LIMITED, message, status=429)

    def cancellations(self) -> Iterator[bytes]:
        """Yield `notifications/cancelled` for each subscription, required on a shared channel such as stdio."""
        for request in self._open.values():
            params = {"requestId": request.id, "_meta": {SUBSCRIPTION_KEY: request.id}}
            yield self._encoder.notification("notifications/cancelled", params)

    def close(self) -> None:
        """Send the final response of every listen request and end its stream (MCP 2026-07-28)."""
        for stream, request in list(self._open.items()):
            stream.finish(self.closing_response(request))

    def closing_response(self, request: JsonRpcRequest) -> bytes:
        """Return the final response of a listen request."""
        return self._encoder.response(request.id, {"_meta": {SUBSCRIPTION_KEY: request.id}}).body


def _notification_filter(request: JsonRpcRequest) -> JsonObject:
    requested = request.params.get("notifications")
    if not isinstance(requested, dict):
        raise invalid_params('params.notifications must be an object such as {"toolsListChanged": true}')
    if not isinstance(requested.get(_TOOLS_LIST_CHANGED, False), bool):
        raise invalid_params(f"params.notifications.{_TOOLS_LIST_CHANGED} must be true or false")
    return requested
