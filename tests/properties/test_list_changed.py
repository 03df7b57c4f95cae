"""A client is notified that the tool list changed if and only if what it is shown changed."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import entry_named
from toolhall import Toolhall
from toolhall.config import Config
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.convert import lossless
from toolhall.dialects.mcp.protocol import REVISIONS
from toolhall.dialects.mcp.requests import ListToolsParams
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.mcp import tool_requests
from toolhall.mcp.tool_requests import ClientView
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.names import ToolId
from toolhall.model.tool import Icon, Tool
from toolhall.pipeline.policy import LevelPolicy
from toolhall.registry.snapshot import Entry

GUEST = Caller("guest")
NAMES, VERSIONS = ["a", "b", "c"], ["1.0.0", "1.1.0", "2.0.0", "3.0.0-rc.1"]
PINS = ["a", "Kit.b", "Kit.a@^1", "Kit.a@2.0.0", "Kit.b@~1.0", "Kit.c@1", "gone", "Toolhall.search_tools@1"]


def _remainder(**more: Any) -> Any:
    document = {"name": "a", "inputSchema": {"type": "object"}, **more}
    return lossless.read(document, CATALOGS["mcp@2026-07-28"])[0].remainder


def _constant(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": {"const": value}}}


# Some say the same, some what only some revisions say, some what no list says.
STATED: list[dict[str, Any]] = [
    {},
    {"title": "New"},
    {"icons": (Icon(src="data:,"),)},
    {"timeout": 3.0},
    {"tags": ("guests",)},
    {"input": _constant(1)},
    {"input": _constant(True)},
    {"input": _constant({"p": 1, "q": 2})},
    {"input": _constant({"q": 2, "p": 1})},
    {"remainder": _remainder(**{"x-note": 1})},
    {"remainder": _remainder(title=None)},
]


class GuestPolicy(LevelPolicy):
    """Guests see what is tagged for them."""

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        return caller.local or "guests" in tool.tags


def visible_tools(hall: Toolhall, view: ClientView) -> dict[str, bytes]:
    """What a client would be told, page by page and byte by byte; neither order of tools nor of members counts."""
    writer, found, cursor = McpEncoder(ServerInfo(name="x", version="1"), view.revision), dict[str, bytes](), None
    while True:
        page = tool_requests.list_page(hall.dispatcher, view.caller, ListToolsParams(cursor, versions=view.versions))
        for tool in msgspec.json.decode(writer.list_result(1, page).body)["result"]["tools"]:
            found[tool["name"]] = msgspec.json.encode(tool, order="deterministic")
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


CLIENT_VIEWS = [
    ClientView(caller, revision, versions=versions)
    for caller in (LOCAL, GUEST)
    for revision in REVISIONS.values()
    for versions in (False, True)
]
# By name and version, what the tool states from now on; None: it goes.
STEPS = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(VERSIONS)),
    st.none() | st.sampled_from(STATED),
    min_size=1,
    max_size=3,
)


def entry_of(key: tuple[str, str], stated: dict[str, Any]) -> Entry:
    name, version = key
    return entry_named(name, id=ToolId("Kit", name, version), **stated)


@given(st.booleans(), st.lists(st.sampled_from(PINS), max_size=3, unique=True), st.lists(STEPS, max_size=6))
def test_list_changed_notification_is_sent_if_and_only_if_the_visible_list_changed(
    search: bool, pinned: list[str], steps: list[Any]
) -> None:
    with Toolhall(config=Config(search=search, pinned=tuple(pinned), page_size=2)) as hall:
        hall.dispatcher.policy = GuestPolicy(clock=lambda: 0.0)
        notified: list[ClientView] = []

        def listen(view: ClientView) -> None:
            tool_requests.subscribe_list_changes(hall.dispatcher, lambda: view, lambda: notified.append(view))

        for view in CLIENT_VIEWS:
            listen(view)
        before = [visible_tools(hall, view) for view in CLIENT_VIEWS]
        for step in steps:
            notified.clear()
            added = [entry_of(key, stated) for key, stated in step.items() if stated is not None]
            hall.registry.change(added, removed_ids=[entry_of(key, {}).id for key in step])
            after = [visible_tools(hall, view) for view in CLIENT_VIEWS]
            assert notified == [each for each, old, new in zip(CLIENT_VIEWS, before, after, strict=True) if old != new]
            before = after
