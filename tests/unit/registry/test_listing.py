"""The short list: which tools MCP clients are shown, in which version, and under which names."""

import logging

import pytest

from tests.unit.builders import FixedResultRunner, entry_named
from toolhall.model.names import SEARCH_TOOL, ToolId
from toolhall.registry.registry import Registry
from toolhall.registry.search import search_tool
from toolhall.registry.snapshot import Entry, ListedTools, Shortlist, Snapshot, compile_entry


def version_of(version: str, name: str = "get") -> Entry:
    return entry_named(name, id=ToolId("Kit", name, version), description=f"Version {version}.")


def searched() -> Entry:
    return compile_entry(search_tool(lambda: Snapshot((), 1), lambda caller, tool: True).tool, FixedResultRunner())


def registered(page_size: int = 100) -> Registry:
    registry = Registry(page_size)
    registry.add([searched(), entry_named("burn"), entry_named("send")])
    registry.add([version_of(version) for version in ("1.0.0", "1.5.0", "2.0.0")])
    return registry


def names(shown: ListedTools, *, versions: bool = False) -> list[str]:
    pages, found, cursor = shown.pages(versions=versions), list[str](), None
    while True:
        page = pages.page(cursor)
        found += [tool.name for tool in page.tools]
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


def test_shortlist_without_pins_and_search_is_the_snapshot_itself() -> None:
    snapshot = registered().snapshot
    shown = Shortlist().for_snapshot(snapshot)
    assert shown.names is snapshot
    assert shown.pages().page(None) is snapshot.page(None)


@pytest.mark.parametrize(
    ("pinned", "listed"),
    [
        ((), []),
        (("burn",), ["burn"]),
        (("Kit.burn",), ["burn"]),
        (("Kit.burn@1.0.0",), ["burn"]),
        (("Kit.burn@^1", "burn", "send"), ["burn", "send"]),
        (("Kit.burn@2.0.0", "gone", "", "@", "Kit.@", "kit.burn"), []),
    ],
)
def test_shortlist_with_search_lists_the_search_tool_and_pinned_tools(
    pinned: tuple[str, ...], listed: list[str]
) -> None:
    assert names(Shortlist(pinned, search=True).for_snapshot(registered().snapshot)) == ["search_tools", *listed]


def test_shortlist_is_cached_per_snapshot_and_follows_the_registry() -> None:
    registry, shortlist = registered(), Shortlist(["burn"], search=True)
    assert shortlist.for_snapshot(registry.snapshot) is shortlist.for_snapshot(registry.snapshot)
    assert shortlist.for_snapshot(registry.snapshot).pages() is shortlist.for_snapshot(registry.snapshot).pages()
    registry.remove("burn")
    assert names(shortlist.for_snapshot(registry.snapshot)) == ["search_tools"]


@pytest.mark.parametrize("search", [False, True])
@pytest.mark.parametrize(
    ("pinned", "version"),
    [
        (("get",), "2.0.0"),
        (("Kit.get",), "2.0.0"),
        (("Kit.get@1.0.0",), "1.0.0"),
        (("Kit.get@^1",), "1.5.0"),
        (("Kit.get@~1.0",), "1.0.0"),
        (("Kit.get@1",), "1.5.0"),
        (("Kit.get@^1", "Kit.get@2.0.0"), "1.5.0"),  # the first counts
        (("Kit.get@2", "Kit.get@^1"), "2.0.0"),
        (("Kit.get@3", "Kit.get@^1"), "1.5.0"),  # the first that there is
        (("get", "Kit.get@^1"), "1.5.0"),  # a pin without a version asks for none
    ],
)
def test_shortlist_pin_selects_the_version_of_a_name(pinned: tuple[str, ...], version: str, search: bool) -> None:
    shown = Shortlist(pinned, search=search).for_snapshot(registered().snapshot)
    assert [tool.id.version for tool in shown.pages().page(None).tools if tool.name == "get"] == [version]
    for name in ("get", "Kit.get"):
        found = shown.names.find(name)
        assert found is not None
        assert found.tool.id.version == version
    newest = shown.names.find("Kit.get@2")
    assert newest is not None, "who asks for a version gets it, whatever is pinned"
    assert newest.tool.id.version == "2.0.0"


def test_shortlist_pin_with_an_at_sign_in_the_toolkit_name_is_resolved() -> None:
    registry = Registry()
    registry.add([entry_named("get", id=ToolId("a@b", "get", version)) for version in ("1.0.0", "2.0.0")])
    found = Shortlist(["a@b.get", "a@b.get@^1"]).for_snapshot(registry.snapshot).names.find("get")
    assert found is not None
    assert found.tool.id.version == "1.0.0"


def test_shortlist_pin_that_matches_no_version_lists_the_newest() -> None:
    shown = Shortlist(["Kit.get@^3"]).for_snapshot(registered().snapshot)
    assert names(shown) == ["search_tools", "burn", "send", "get"]
    found = shown.names.find("get")
    assert found is not None
    assert found.tool.id.version == "2.0.0"


def test_shortlist_unmatched_pin_is_logged_once_and_applies_to_tools_added_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry, shortlist = Registry(), Shortlist(["later", "Kit.get@^1", "gone"], search=True)
    shortlist.for_snapshot(registry.snapshot)
    assert caplog.records == [], "a hall that has no tools yet says nothing of them"
    with caplog.at_level(logging.WARNING):
        registry.add([searched(), version_of("1.0.0")])
        shortlist.for_snapshot(registry.snapshot)
        registry.add([entry_named("later")])
        assert names(shortlist.for_snapshot(registry.snapshot)) == ["search_tools", "get", "later"]
        registry.remove("later")
        shortlist.for_snapshot(registry.snapshot)
    assert [record.args for record in caplog.records] == [("later",), ("gone",)]
    assert "the pin 'later' matches no tool; check its name and version" in caplog.text


@pytest.mark.parametrize("page_size", [1, 2, 100])
def test_shortlist_with_versions_lists_other_versions_by_their_id(page_size: int) -> None:
    snapshot = registered(page_size).snapshot
    older = ["Kit.get@1.0.0", "Kit.get@1.5.0"]
    assert names(Shortlist().for_snapshot(snapshot), versions=True) == ["search_tools", "burn", "send", *older, "get"]
    pinned = Shortlist(["Kit.get@1.5.0"]).for_snapshot(snapshot)
    assert names(pinned, versions=True)[3:] == ["Kit.get@1.0.0", "get", "Kit.get@2.0.0"]
    for name in names(pinned, versions=True):
        assert pinned.names.find(name), "what is listed can be called"


def test_shortlist_with_search_and_versions_lists_all_versions_of_pinned_tools_only() -> None:
    shown = Shortlist(["get"], search=True).for_snapshot(registered().snapshot)
    assert names(shown, versions=True) == ["search_tools", "Kit.get@1.0.0", "Kit.get@1.5.0", "get"]


def test_shortlist_search_tool_cannot_be_replaced_by_another_version() -> None:
    registry = registered()
    registry.add([entry_named("search_tools", id=ToolId(SEARCH_TOOL.toolkit, SEARCH_TOOL.tool, "9.0.0"))])
    shown = Shortlist(["Toolhall.search_tools@9.0.0"], search=True).for_snapshot(registry.snapshot)
    assert [tool.id for tool in shown.pages().page(None).tools] == [SEARCH_TOOL]
    found = shown.names.find("search_tools")
    assert found is not None
    assert found.tool.id == SEARCH_TOOL


def test_shortlist_hidden_version_is_not_replaced_by_an_older_one() -> None:
    shown = Shortlist().for_snapshot(registered().snapshot)
    pages = shown.pages_for(lambda tool: tool.id.version != "2.0.0" and tool.name != "send")
    assert [tool.name for tool in pages.page(None).tools] == ["search_tools", "burn"]
    assert not pages.page(None).shared, "one caller's list is nobody else's"
    older = shown.pages_for(lambda tool: tool.name == "get" and tool.id.version != "2.0.0", versions=True)
    assert [tool.name for tool in older.page(None).tools] == ["Kit.get@1.0.0", "Kit.get@1.5.0"]
    assert shown.pages().page(None).shared
    assert shown.pages(versions=True).page(None).shared
