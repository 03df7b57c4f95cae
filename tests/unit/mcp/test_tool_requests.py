"""What MCP clients are shown: the list of each, what a name means in a call, and which changes are news to whom."""

from typing import Annotated, Any

import pytest
from msgspec import Meta

from tests.unit.builders import entry_named
from tests.unit.http.asgi_client import asked
from toolhall import Toolhall, Toolkit, tool
from toolhall.config import Config
from toolhall.dialects.mcp.protocol import REVISION_2025_06_18, REVISION_2025_11_25, REVISION_2026_07_28
from toolhall.dialects.mcp.requests import VERSION_KEY, ListToolsParams
from toolhall.mcp import tool_requests
from toolhall.mcp.tool_requests import ClientView
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import CallTool
from toolhall.model.names import ToolId
from toolhall.model.tool import HeaderParameter, Icon, Tool
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.policy import LevelPolicy
from toolhall.registry.snapshot import Entry

GUEST = Caller("guest")
EVERYTHING = ClientView(LOCAL, REVISION_2026_07_28)


class Guests(LevelPolicy):
    """Guests see what is tagged for them."""

    def can_see(self, caller: Caller, tool: Tool) -> bool:
        return caller.local or "guests" in tool.tags


def version_of(version: str, **stated: Any) -> Entry:
    return entry_named("get", id=ToolId("Kit", "get", version), **stated)


def hall_of(*entries: Entry, **settings: Any) -> Toolhall:
    hall = Toolhall(config=Config(**settings))
    hall.dispatcher.policy = Guests(clock=lambda: 0.0)
    hall.registry.add(entries)
    return hall


def heard(hall: Dispatcher, *audiences: ClientView) -> list[ClientView]:
    """Who heard of a change, as it happens."""
    told: list[ClientView] = []

    def listen(audience: ClientView) -> None:
        tool_requests.subscribe_list_changes(hall, lambda: audience, lambda: told.append(audience))

    for audience in audiences:
        listen(audience)
    return told


@pytest.mark.parametrize(
    ("pinned", "asked", "found"),
    [
        ((), "get", "get"),
        (("Kit.get@1",), "get", "Kit.get@1.5.0"),
        (("Kit.get@1",), "Kit.get", "Kit.get@1.5.0"),
        (("Kit.get@1",), "Kit.get@2", "Kit.get@2.0.0"),
        (("Kit.get@1",), "Kit.get@~1.0", "Kit.get@1.0.0"),
        (("Kit.get@1",), "unknown", "unknown"),
        (("Kit.get@3",), "get", "Kit.get@2.0.0"),
    ],
)
def test_resolve_call_with_pins_returns_listed_version(pinned: tuple[str, ...], asked: str, found: str) -> None:
    with hall_of(*map(version_of, ("1.0.0", "1.5.0", "2.0.0")), pinned=pinned) as hall:
        call = tool_requests.resolve_call(hall.dispatcher, CallTool(asked, {"a": 1}, "mcp", 7))
        assert (call.tool, call.arguments, call.dialect, call.size) == (found, {"a": 1}, "mcp", 7)
        assert call.requested_name in (asked, None), "what a refusal repeats"


def test_resolve_call_without_pins_returns_same_call() -> None:
    with hall_of(version_of("1.0.0")) as hall:
        call = CallTool("get", {}, "mcp")
        assert tool_requests.resolve_call(hall.dispatcher, call) is call


def test_list_page_is_shared_unless_view_is_limited() -> None:
    with hall_of(entry_named("a"), entry_named("b", tags=("guests",))) as hall:
        page = tool_requests.list_page(hall.dispatcher, LOCAL, ListToolsParams())
        assert page is tool_requests.list_page(hall.dispatcher, LOCAL, ListToolsParams()), "so it is encoded once"
        versions = tool_requests.list_page(hall.dispatcher, LOCAL, ListToolsParams(versions=True))
        assert versions is tool_requests.list_page(hall.dispatcher, LOCAL, ListToolsParams(versions=True))
        guests = tool_requests.list_page(hall.dispatcher, GUEST, ListToolsParams())
        assert ([tool.name for tool in guests.tools], guests.shared) == (["b"], False)


def test_list_change_with_search_notifies_for_listed_tools_only() -> None:
    with hall_of(entry_named("a"), search=True, pinned=("b", "Kit.get@^1")) as hall:
        told = heard(hall.dispatcher, EVERYTHING)
        hall.registry.add([entry_named("c")])
        hall.registry.remove("a")
        assert told == []
        hall.registry.add([entry_named("b")])
        assert told == [EVERYTHING]
        hall.registry.add([version_of("1.0.0"), version_of("2.0.0")])
        assert len(told) == 2
        hall.registry.add([version_of("1.1.0", title="New")])
        assert len(told) == 3, "the pin means this one now, though a newer one was there before"
        hall.registry.add([version_of("2.1.0")])
        hall.registry.remove("Kit.get@2.0.0")
        assert len(told) == 3
        hall.registry.remove("Kit.get@1.1.0")
        assert len(told) == 4


def test_list_change_of_unlisted_fields_does_not_notify() -> None:
    entry = entry_named("a", timeout=1.0, header_parameters=(HeaderParameter("X", ("x",)),))
    with hall_of(entry) as hall:
        told = heard(hall.dispatcher, EVERYTHING)
        hall.registry.change([entry_named("a", timeout=2.0)], removed_ids=[entry.id])
        assert told == []
        hall.registry.change([entry_named("a", timeout=2.0, level=3)], removed_ids=[entry.id])
        assert told == [EVERYTHING]


def test_list_change_notifies_only_revisions_that_show_it() -> None:
    everyone = [
        ClientView(LOCAL, revision) for revision in (REVISION_2025_06_18, REVISION_2025_11_25, REVISION_2026_07_28)
    ]
    with hall_of(entry := entry_named("a")) as hall:
        told = heard(hall.dispatcher, *everyone)
        hall.registry.change([entry_named("a", icons=(Icon(src="data:,"),))], removed_ids=[entry.id])
        assert told == everyone[1:]


def test_list_change_of_old_version_notifies_views_of_all_versions() -> None:
    every = ClientView(LOCAL, REVISION_2026_07_28, versions=True)
    with hall_of(version_of("1.1.0")) as hall:
        told = heard(hall.dispatcher, EVERYTHING, every)
        hall.registry.add([version_of("1.0.0")])
        assert told == [every]
        hall.registry.change([version_of("1.0.0")], removed_ids=["Kit.get@1.0.0"])
        assert told == [every]
        hall.registry.add([version_of("1.2.0")])
        assert told == [every, EVERYTHING, every]


def test_list_change_of_invisible_tool_does_not_notify() -> None:
    guest = ClientView(GUEST, REVISION_2026_07_28)
    with hall_of() as hall:
        told = heard(hall.dispatcher, guest, EVERYTHING)
        hall.registry.add([entry_named("a")])
        assert told == [EVERYTHING]
        hall.registry.add([entry_named("b", tags=("guests",))])
        assert told == [EVERYTHING, guest, EVERYTHING]


def test_list_change_with_many_listeners_compares_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write_listed_tool(tool: Tool, revision: object) -> dict[str, Any]:
        written.append(tool.name)
        return {"name": tool.name, "title": tool.title}

    monkeypatch.setattr(tool_requests, "write_listed_tool", write_listed_tool)
    with hall_of(entry := entry_named("a"), entry_named("b")) as hall:
        told = heard(hall.dispatcher, *[EVERYTHING] * 50)
        hall.registry.change([entry_named("a", title="New")], removed_ids=[entry.id])
    assert (len(told), written) == (50, ["a", "a"])


# --- through the endpoint, with search off ----------------------------------------------------------------------------


async def requested(hall: Toolhall, method: str, params: dict[str, Any], **headers: str) -> Any:
    """The answer to a request of the newest revision."""
    meta = {VERSION_KEY: REVISION_2026_07_28.name, "io.modelcontextprotocol/clientCapabilities": {}}
    usual = {"mcp-protocol-version": REVISION_2026_07_28.name, "mcp-method": method, "accept": "application/json"}
    named = {"mcp-name": params["name"]} if "name" in params else {}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return (await asked(hall, "/mcp", "POST", message, usual | named | headers))[1]


def in_region(version: str, header: str | None) -> type[Toolkit]:
    """A version of a tool, one argument of which is repeated in a header, or not."""
    extra = {"x-mcp-header": header} if header else {}

    class Shop(Toolkit, name="Shop", version=version):
        @tool(effect="reads")
        async def price(self, region: Annotated[str, Meta(extra_json_schema=extra)]) -> str:
            """A price."""
            return f"{version} {region}"

    return Shop


async def test_list_without_search_respects_pins() -> None:
    with Toolhall(in_region("1.0.0", None), in_region("2.0.0", None), config=Config(pinned=("Shop.price@1",))) as hall:
        (listed,) = (await requested(hall, "tools/list", {}))["result"]["tools"]
        assert (listed["name"], listed["_meta"]["dev.toolhall/id"]) == ("Shop_price", "Shop.price@1.0.0")
        answer = await requested(hall, "tools/call", {"name": "Shop_price", "arguments": {"region": "north"}})
        assert answer["result"]["content"][0]["text"] == "1.0.0 north"
        _, other = await asked(hall, "/tools/Shop/price", "POST", {"region": "north"})
        assert other == "2.0.0 north", "a pin is for MCP"


@pytest.mark.parametrize(("version", "refused"), [("1.0.0", True), ("2.0.0", False)])
async def test_parameter_headers_are_checked_for_pinned_version(version: str, refused: bool) -> None:
    config = Config(pinned=(f"Shop.price@{version}",))
    with Toolhall(in_region("1.0.0", "Region"), in_region("2.0.0", None), config=config) as hall:
        params = {"name": "Shop_price", "arguments": {"region": "north"}}
        assert ("error" in await requested(hall, "tools/call", params)) == refused
        answer = await requested(hall, "tools/call", params, **{"mcp-param-region": "north"})
        assert answer["result"]["content"][0]["text"] == f"{version} north"


async def test_open_with_unmatched_pin_logs_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Toolhall(in_region("1.0.0", None), config=Config(pinned=("Shop.price", "Shop.prise@1"))) as hall:
        await hall.open()
        await hall.open()
    assert [record.args for record in caplog.records] == [("Shop.prise@1",)]
