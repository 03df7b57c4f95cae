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
from toolhall.registry.listing import ListedTools, with_listed_name
from toolhall.registry.registry import RegistryChange, lists_differ
from toolhall.telemetry.spans import set_trace_context

_NO_REVISION = "mcp"  # before a revision is agreed on


def join_trace(request: JsonRpcRequest) -> None:
    """The call becomes a part of the client's trace, if the message says which that is."""
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
    """The answer to a request that goes no further; a call is recorded and counts, as far as it could be read."""
    if request is None or request.method != "tools/call":
        return error
    name, arguments = request.params.get("name"), request.params.get("arguments")
    known = name if isinstance(name, str) else ""
    return dispatcher.refuse(
        CallTool(known, arguments if isinstance(arguments, dict) else {}, dialect, size), caller, error
    )


class ClientView(msgspec.Struct, frozen=True):
    """Everything that decides what a client is shown."""

    caller: Caller
    revision: Revision
    versions: bool = False  # every version of a tool, not only the one that its name means


def list_page(dispatcher: Dispatcher, caller: Caller, listing: ListToolsParams) -> ToolPage:
    """One page of the list; Malformed for a cursor that is none."""
    shown = dispatcher.shortlist.for_snapshot(dispatcher.registry.snapshot)
    sees = _visibility(dispatcher, caller)
    if sees is None:
        return shown.pages(versions=listing.versions).page(listing.cursor)
    made = dispatcher.cached_for(
        caller, ("pages", listing.versions), lambda: shown.pages_for(sees, versions=listing.versions)
    )
    return made.page(listing.cursor)


def resolve_name(dispatcher: Dispatcher, name: str) -> str:
    """The id of the version that a name in a call means, where that may be another than the newest."""
    if not dispatcher.shortlist.pins:
        return name
    found = dispatcher.shortlist.for_snapshot(dispatcher.registry.snapshot).names.find(name)
    return name if found is None else found.id


def resolve_call(dispatcher: Dispatcher, call: CallTool) -> CallTool:
    """The call of the version that is meant."""
    name = resolve_name(dispatcher, call.tool)
    return call if name == call.tool else msgspec.structs.replace(call, tool=name, requested_name=call.tool)


def subscribe_list_changes(
    dispatcher: Dispatcher, client_view: Callable[[], ClientView], listener: Callable[[], None]
) -> Callable[[], None]:
    """Call `listener` whenever what this client is shown changes, and never else; returns how to end that."""
    return dispatcher.registry.subscribe(listener, lambda change: _is_visible_change(dispatcher, change, client_view()))


def _is_visible_change(dispatcher: Dispatcher, change: RegistryChange, view: ClientView) -> bool:
    if change.visibility_only:  # what was seen before is not known any more, so whoever does not see everything is told
        return not dispatcher.policy.can_see_all(view.caller)
    before, after = change.cached(
        dispatcher.shortlist,
        lambda: (dispatcher.shortlist.for_snapshot(change.before), dispatcher.shortlist.for_snapshot(change.after)),
    )
    sees = _visibility(dispatcher, view.caller)
    if sees is not None:
        return _differ(_visible_tools(before, view, sees), _visible_tools(after, view, sees), view.revision)
    # The same for everyone who sees everything, however many they are.
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
    """Which tools exist for this caller; None for all of them."""
    if dispatcher.policy.can_see_all(caller):
        return None
    return lambda tool: dispatcher.policy.can_see(caller, tool)
