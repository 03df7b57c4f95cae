"""`Subscriptions`: the open `subscriptions/listen` streams, limited per caller and in total."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from toolhall.dialects.mcp.protocol import RATE_LIMITED, JsonRpcRequest, McpRefusal, invalid_params
from toolhall.dialects.mcp.requests import wants_all_versions
from toolhall.dialects.mcp.responses import SUBSCRIPTION_KEY, McpEncoder
from toolhall.http.sse import EventStream
from toolhall.mcp.resource_subscriptions import ResourceSubscriptions
from toolhall.mcp.stateless_tasks import TaskFeed
from toolhall.mcp.tool_requests import ClientView, subscribe_list_changes
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import NotFound
from toolhall.model.json import JsonObject
from toolhall.model.tool import Kind
from toolhall.pipeline.dispatcher import Dispatcher

MAX_STREAMS = 5_000
MAX_PER_CALLER = 5
MAX_LOCAL = 100  # every program of this machine is the same local caller
# By member of the filter: the kind of the list.
_LIST_CHANGES: Mapping[str, Kind] = {
    "toolsListChanged": "tool",
    "resourcesListChanged": "resource",
    "promptsListChanged": "prompt",
}
_RESOURCES = "resourceSubscriptions"


class Subscriptions:
    """All open `subscriptions/listen` streams."""

    def __init__(self, dispatcher: Dispatcher, encoder: McpEncoder) -> None:
        self._dispatcher = dispatcher
        self._encoder = encoder
        self._open: dict[EventStream, JsonRpcRequest] = {}
        self._by_caller: Counter[str] = Counter()

    def listen(
        self, request: JsonRpcRequest, caller: Caller, stream: EventStream, tasks: TaskFeed | None = None
    ) -> Callable[[], None]:
        """Acknowledge, then send changes to the stream until the returned function is called."""
        requested = _notification_filter(request)
        view = ClientView(caller, self._encoder.revision, wants_all_versions(request))
        self._check_limits(caller)
        served = self._dispatcher.registry.snapshot.kinds
        kinds: list[Kind] = [
            kind for name, kind in _LIST_CHANGES.items() if requested.get(name) and kind in {"tool", *served}
        ]
        resources = ResourceSubscriptions(self._dispatcher, lambda: caller)
        accepted: JsonObject = {name: True for name, kind in _LIST_CHANGES.items() if kind in kinds}
        if uris := _subscribe_all(resources, requested.get(_RESOURCES) or (), caller):
            accepted[_RESOURCES] = uris
        if tasks is not None:
            accepted["taskIds"] = tasks.task_ids
        params = {"notifications": accepted, "_meta": {SUBSCRIPTION_KEY: request.id}}
        stream.send(self._encoder.notification("notifications/subscriptions/acknowledged", params))
        self._open[stream] = request
        self._by_caller[caller.rate_limit_key] += 1
        resources.notify = lambda uri: stream.send(self._encoder.resource_updated(uri, request.id))
        ends = [self._listen_to_list(kind, view, request, stream) for kind in kinds]
        if tasks is not None:
            tasks.open(stream)
            ends.append(tasks.close)

        def end() -> None:
            del self._open[stream]
            self._by_caller[caller.rate_limit_key] -= 1
            if not self._by_caller[caller.rate_limit_key]:
                del self._by_caller[caller.rate_limit_key]
            for each in (*ends, resources.close):
                each()

        return end

    def _listen_to_list(
        self, kind: Kind, view: ClientView, request: JsonRpcRequest, stream: EventStream
    ) -> Callable[[], None]:
        """Send changes of one list to the stream; returns what ends that."""
        notification = self._encoder.list_changed(kind, request.id)
        return subscribe_list_changes(self._dispatcher, lambda: view, lambda: stream.send(notification), kind)

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
    for name in _LIST_CHANGES:
        if not isinstance(requested.get(name, False), bool):
            raise invalid_params(f"params.notifications.{name} must be true or false")
    uris = requested.get(_RESOURCES)
    if uris is not None and not (isinstance(uris, list) and all(isinstance(uri, str) for uri in uris)):
        raise invalid_params(f"params.notifications.{_RESOURCES} must be a list of URIs")
    return requested


def _subscribe_all(resources: ResourceSubscriptions, uris: Iterable[str], caller: Caller) -> list[str]:
    """Subscribe to those of the URIs that the caller may read; returns them."""
    honoured: list[str] = []
    try:
        for uri in dict.fromkeys(uris):
            with suppress(NotFound):
                resources.subscribe(uri, caller)
                honoured.append(uri)
    except McpRefusal:
        resources.close()
        raise
    return honoured
