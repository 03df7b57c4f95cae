"""Lists, calls, reads and prompts as all revisions share them: pages, name resolution, list changes, refused calls.

`ClientView` is everything that decides what a client is shown; a client is notified only of changes in its own view.
"""

from collections.abc import Callable, Mapping

import msgspec

from toolhall.dialects.mcp.prompts import write_prompt
from toolhall.dialects.mcp.protocol import JsonRpcRequest, Revision, method_not_found
from toolhall.dialects.mcp.requests import CALL_METHODS, ListToolsParams, read_complete
from toolhall.dialects.mcp.resources import write_resource
from toolhall.dialects.mcp.responses import RESOURCES_LIST, McpEncoder, write_listed_tool
from toolhall.model.caller import Caller
from toolhall.model.errors import NotFound, ToolhallError
from toolhall.model.messages import CallTool, ToolPage, WireResponse
from toolhall.model.tool import Kind, Tool
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.registry import RegistryChange, lists_differ
from toolhall.registry.snapshot import ListedTools, Snapshot, with_listed_name
from toolhall.telemetry import set_trace_context

_NO_REVISION = "mcp"  # before a revision is negotiated
_METHOD_KINDS: Mapping[str, Kind] = {
    "resources/list": "resource",
    "resources/templates/list": "resource",
    "resources/read": "resource",
    "resources/subscribe": "resource",
    "resources/unsubscribe": "resource",
    "prompts/list": "prompt",
    "prompts/get": "prompt",
}


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
    kind = None if request is None else CALL_METHODS.get(request.method)
    if request is None or kind is None:
        return error
    name = request.params.get("uri" if kind == "resource" else "name")
    arguments = request.params.get("arguments") if kind != "resource" else None
    tool = name if isinstance(name, str) else ""
    return dispatcher.refuse(
        CallTool(tool, arguments if isinstance(arguments, dict) else {}, dialect, size, kind=kind), caller, error
    )


class ClientView(msgspec.Struct, frozen=True):
    """Everything that decides what a client is shown."""

    caller: Caller
    revision: Revision
    versions: bool = False  # all versions of a tool, not only the one that its name means


def list_page(dispatcher: Dispatcher, caller: Caller, listing: ListToolsParams, method: str = "tools/list") -> ToolPage:
    """Return one page of a list; Malformed for an unknown cursor."""
    if method != "tools/list":
        snapshot = dispatcher.visible_snapshot(caller)
        match method:
            case "resources/list":
                return snapshot.resources.pages.page(listing.cursor)
            case "resources/templates/list":
                return snapshot.resources.template_pages.page(listing.cursor)
            case _:
                return snapshot.prompts.pages.page(listing.cursor)
    listed = dispatcher.shortlist.for_snapshot(dispatcher.registry.snapshot)
    can_see = _visibility(dispatcher, caller)
    if can_see is None:
        return listed.pages(versions=listing.versions).page(listing.cursor)
    pages = dispatcher.cached_for(
        caller, ("pages", listing.versions), lambda: listed.pages_for(can_see, versions=listing.versions)
    )
    return pages.page(listing.cursor)


async def refresh_files(dispatcher: Dispatcher, listing: ListToolsParams, method: str) -> None:
    """Look at the files of folders and skills again before the first page of resources; later pages go on from it."""
    if method == RESOURCES_LIST and listing.cursor is None:
        await dispatcher.files.refresh()


async def answer_completion(
    dispatcher: Dispatcher, encoder: McpEncoder, request: JsonRpcRequest, caller: Caller
) -> WireResponse:
    """Return the response to `completion/complete`."""
    dialect = f"mcp@{encoder.revision.name}"
    completion = await dispatcher.complete(read_complete(request, dialect), caller)
    if isinstance(completion, NotFound):  # -32602 in every revision, other than for a read
        completion = NotFound(completion.message)
    if isinstance(completion, ToolhallError):
        return encoder.error(request.id, completion, "prompt")
    return encoder.complete_result(request.id, completion)


def resolve_name(dispatcher: Dispatcher, name: str, kind: Kind = "tool") -> str:
    """Return the id of the pinned version that the name of a tool or prompt means, if pins are configured."""
    if not dispatcher.shortlist.pins or kind == "resource":  # the dispatcher resolves URIs
        return name
    entry = dispatcher.shortlist.for_snapshot(dispatcher.registry.snapshot).names.of_kind(kind).find(name)
    return name if entry is None else entry.id


def resolve_call(dispatcher: Dispatcher, call: CallTool) -> CallTool:
    """Return the call of the version that its name means."""
    name = resolve_name(dispatcher, call.tool, call.kind)
    return call if name == call.tool else msgspec.structs.replace(call, tool=name, requested_name=call.tool)


def check_served(dispatcher: Dispatcher, method: str) -> None:
    """Raise McpRefusal for a method of a kind of which this hall has nothing, and which it does not declare."""
    kinds, kind = dispatcher.registry.snapshot.kinds, _METHOD_KINDS.get(method, "tool")
    if kind != "tool" and kind not in kinds:
        raise method_not_found(method)
    if method == "completion/complete" and kinds <= {"tool"}:
        raise method_not_found(method)


def subscribe_list_changes(
    dispatcher: Dispatcher, client_view: Callable[[], ClientView], listener: Callable[[], None], kind: Kind = "tool"
) -> Callable[[], None]:
    """Call the listener when a list that this client is shown changes; return the function that unsubscribes."""
    return dispatcher.registry.subscribe(
        listener, lambda change: _is_visible_change(dispatcher, change, kind, client_view())
    )


def _is_visible_change(dispatcher: Dispatcher, change: RegistryChange, kind: Kind, view: ClientView) -> bool:
    if change.visibility_only:  # what was visible before is unknown, so notify all with limited views
        return not dispatcher.policy.can_see_all(view.caller)
    if kind != "tool":
        return _is_visible_change_beside_tools(dispatcher, change, kind, view)
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


def _is_visible_change_beside_tools(
    dispatcher: Dispatcher, change: RegistryChange, kind: Kind, view: ClientView
) -> bool:
    can_see = _visibility(dispatcher, view.caller)
    write = write_resource if kind == "resource" else write_prompt

    def listed(snapshot: Snapshot) -> dict[str, Tool]:
        prompts = (entry.tool for entry in snapshot.prompts.listed)
        shown = snapshot.resources.shown if kind == "resource" else prompts
        return {
            tool.resource.uri if tool.resource else tool.name: tool for tool in shown if not can_see or can_see(tool)
        }

    def differ() -> bool:
        return lists_differ(listed(change.before), listed(change.after), lambda _, tool: write(tool, view.revision))

    return change.cached((kind, view.revision), differ) if can_see is None else differ()


def _visible_tools(listed: ListedTools, view: ClientView, can_see: Callable[[Tool], bool]) -> dict[str, Tool]:
    return {name: tool for name, tool in listed.tools_by_name(versions=view.versions).items() if can_see(tool)}


def _differ(before: dict[str, Tool], after: dict[str, Tool], revision: Revision) -> bool:
    return lists_differ(before, after, lambda name, tool: write_listed_tool(with_listed_name(name, tool), revision))


def _visibility(dispatcher: Dispatcher, caller: Caller) -> Callable[[Tool], bool] | None:
    """Return the predicate of visible tools for this caller; None if it sees all."""
    if dispatcher.policy.can_see_all(caller):
        return None
    return lambda tool: dispatcher.policy.can_see(caller, tool)
