"""`tools/list` and `tools/call` as all revisions share them: pages, name resolution, list changes, refused calls.

`ClientView` is everything that decides which tools a client is shown; a client is notified only of changes in its
own view.
"""

from collections.abc import Callable

import msgspec

from toolhall.dialects.mcp.protocol import JsonRpcRequest, Revision
from toolhall.dialects.mcp.requests import ListToolsParams
from toolhall.dialects.mcp.responses import write_listed_tool
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.model.messages import CallTool, ToolPage
from toolhall.model.tool import Tool
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.registry import RegistryChange, lists_differ
from toolhall.registry.snapshot import ListedTools, with_listed_name
from toolhall.telemetry import set_trace_context

_NO_REVISION = "mcp"  # before a revision is negotiated


def join_trace(request: JsonRpcRequest) -> None:
    """Make the call a part of the client's trace, if the message has a `traceparent`."""
    meta = request.params.get("_meta")
    if type(meta) is dict and "traceparent" in meta:
        set_trace_context(meta["traceparent"], meta.get("tracestate"))


def refuse_call(
    dispatcher: Dispatcher,
    request: JsonRpcRequest | None,
    caller: Caller,
    size: int,
    error: ToolhallError,
    dialect: str = _NO_REVISION,
) -> ToolhallError:
    """Return the error of a refused request; a refused call is audited and rate limited as far as it was read."""
    if request is None or request.method != "tools/call":
        return error
    name, arguments = request.params.get("name"), request.params.get("arguments")
    tool = name if isinstance(name, str) else ""
    return dispatcher.refuse(
        CallTool(tool, arguments if isinstance(arguments, dict) else {}, dialect, size), caller, error
    )


class ClientView(msgspec.Struct, frozen=True):
    """Everything that decides what a client is shown."""

    caller: Caller
    revision: Revision
    versions: bool = False  # all versions of a tool, not only the one that its name means


def list_page(dispatcher: Dispatcher, caller: Caller, listing: ListToolsParams) -> ToolPage:
    """Return one page of the list; Malformed for an unknown cursor."""
    listed = dispatcher.shortlist.for_snapshot(dispatcher.registry.snapshot)
    can_see = _visibility(dispatcher, caller)
    if can_see is None:
        return listed.pages(versions=listing.versions).page(listing.cursor)
    pages = dispatcher.cached_for(
        caller, ("pages", listing.versions), lambda: listed.pages_for(can_see, versions=listing.versions)
    )
    return pages.page(listing.cursor)


def resolve_name(dispatcher: Dispatcher, name: str) -> str:
    """Return the id of the pinned version that a name means, if pins are configured."""
    if not dispatcher.shortlist.pins:
        return name
    entry = dispatcher.shortlist.for_snapshot(dispatcher.registry.snapshot).names.find(name)
    return name if entry is None else entry.id


def resolve_call(dispatcher: Dispatcher, call: CallTool) -> CallTool:
    """Return the call of the version that its name means."""
    name = resolve_name(dispatcher, call.tool)
    return call if name == call.tool else msgspec.structs.replace(call, tool=name, requested_name=call.tool)


def subscribe_list_changes(
    dispatcher: Dispatcher, client_view: Callable[[], ClientView], listener: Callable[[], None]
) -> Callable[[], None]:
    """Call the listener when the list that this client is shown changes; return the function that unsubscribes."""
    return dispatcher.registry.subscribe(listener, lambda change: _is_visible_change(dispatcher, change, client_view()))


def _is_visible_change(dispatcher: Dispatcher, change: RegistryChange, view: ClientView) -> bool:
    if change.visibility_only:  # what was visible before is unknown, so notify all with limited views
        return not dispatcher.policy.can_see_all(view.caller)
    before, after = change.cached(
        dispatcher.shortlist,
        lambda: (dispatcher.shortlist.for_snapshot(change.before), dispatcher.shortlist.for_snapshot(change.after)),
    )
    can_see = _visibility(dispatcher, view.caller)
    if can_see is not None:
        return _differ(_visible_tools(before, view, can_see), _visible_tools(after, view, can_see), view.revision)
    # Computed once for all clients that see everything.
    return change.cached(
        (dispatcher.shortlist, view.revision, view.versions),
        lambda: _differ(
            before.tools_by_name(versions=view.versions), after.tools_by_name(versions=view.versions), view.revision
        ),
    )


def _visible_tools(listed: ListedTools, view: ClientView, can_see: Callable[[Tool], bool]) -> dict[str, Tool]:
    return {name: tool for name, tool in listed.tools_by_name(versions=view.versions).items() if can_see(tool)}


def _differ(before: dict[str, Tool], after: dict[str, Tool], revision: Revision) -> bool:
    return lists_differ(before, after, lambda name, tool: write_listed_tool(with_listed_name(name, tool), revision))


def _visibility(dispatcher: Dispatcher, caller: Caller) -> Callable[[Tool], bool] | None:
    """Return the predicate of visible tools for this caller; None if it sees all."""
    if dispatcher.policy.can_see_all(caller):
        return None
    return lambda tool: dispatcher.policy.can_see(caller, tool)
