"""ResourceSubscriptions: the resources of which one client wants to hear, in every revision.

A client hears of a resource only while its caller may see it, so a revoked grant is silent from the next change on. A
URI that the caller may not see is answered like one that names nothing.
"""

from collections.abc import Callable

from toolhall.dialects.mcp.protocol import RATE_LIMITED, McpRefusal
from toolhall.model.caller import LOCAL, Caller
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.find import not_found

MAX_PER_CALLER = 1_000  # of all its clients together
MAX_LOCAL = 100_000  # every program of this machine is the same local caller


class ResourceSubscriptions:
    """The subscriptions of one session or listen stream."""

    def __init__(self, dispatcher: Dispatcher, caller: Callable[[], Caller]) -> None:
        """`caller` returns the caller of the latest request, whose rights decide what the client hears."""
        self._dispatcher = dispatcher
        self._caller = caller
        self._ends: dict[str, Callable[[], None]] = {}
        self.notify: Callable[[str], None] | None = None

    def subscribe(self, uri: str, caller: Caller) -> None:
        """Hear of this resource from now on; NotFound if it names nothing that the caller may see."""
        if not self._is_visible(uri, caller):
            raise not_found("resource", uri)
        if uri in self._ends:
            return
        changes, account = self._dispatcher.changes, caller.rate_limit_key
        limit = MAX_LOCAL if caller.id == LOCAL.id else MAX_PER_CALLER
        if changes.count_of(account) >= limit:
            message = f"at most {limit} resources may be subscribed to by one caller; end some subscriptions"
            raise McpRefusal(RATE_LIMITED, message, status=429)
        self._ends[uri] = changes.subscribe(uri, self._changed, account)

    def unsubscribe(self, uri: str) -> None:
        """Hear of it no more; a URI that was not subscribed to is ignored."""
        end = self._ends.pop(uri, None)
        if end is not None:
            end()

    def close(self) -> None:
        """End all subscriptions."""
        for uri in tuple(self._ends):
            self.unsubscribe(uri)

    def _changed(self, uri: str) -> None:
        if self.notify is not None and self._is_visible(uri, self._caller()):
            self.notify(uri)

    def _is_visible(self, uri: str, caller: Caller) -> bool:
        return self._dispatcher.visible_snapshot(caller).resources.match(uri) is not None
