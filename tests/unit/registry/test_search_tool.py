"""`search_tools`, and the short list that it belongs to."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from tests.unit.parts import Returning, entry_named
from toolhall.authoring.context import Context
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.revisions import REVISIONS
from toolhall.examples import calculator
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import BadArguments
from toolhall.model.tool import Tool
from toolhall.registry.entry import compile_entry
from toolhall.registry.registry import Registry
from toolhall.registry.search import MAX_QUERY
from toolhall.registry.search_tool import Finder, search_tool
from toolhall.registry.shortlist import Shortlist
from toolhall.runners.function import FunctionRunner
from toolhall.testing import Client


def everything(caller: Caller, tool: Tool) -> bool:
    return True


def filled() -> Registry:
    registry = Registry()
    registry.add(
        [entry_named("send_email", description="Send a message."), entry_named("burn", description="Burn it.")]
    )
    return registry


def test_it_finds_what_is_needed_for_a_call() -> None:
    found = Finder(filled(), everything).search_tools(Context(), "a message")
    (only,) = found.tools
    assert (only.name, only.id, only.description) == ("send_email", "Kit.send_email@1.0.0", "Send a message.")
    assert only.input_schema == {"type": "object"}


def test_it_finds_only_what_its_caller_may_see() -> None:
    def sees(caller: Caller, tool: Tool) -> bool:
        return caller != LOCAL or tool.name != "burn"

    finder = Finder(filled(), sees)
    assert finder.search_tools(Context(), "burn").tools == []
    assert len(finder.search_tools(Context(caller=Caller("guest")), "burn").tools) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_it_is_published_by_its_short_name(revision: str) -> None:
    document = write_tool(search_tool(filled(), everything).tool, REVISIONS[revision])
    assert (document["name"], document["annotations"]) == ("search_tools", {"readOnlyHint": True})
    assert document["outputSchema"]["type"] == "object"


async def test_it_is_called_like_any_tool_and_does_not_find_itself() -> None:
    async with Client(calculator) as client:
        registry = client.hall.registry
        definition = search_tool(registry, everything)
        with ThreadPoolExecutor(1) as threads:
            registry.add([compile_entry(definition.tool, FunctionRunner(definition.body, threads))])
            found = await client.call_named("search_tools", {"query": "search tools that add numbers", "limit": 1})
            with pytest.raises(BadArguments):
                await client.call_named("search_tools", {"query": "a" * (MAX_QUERY + 1)})
        assert [tool["name"] for tool in msgspec.json.decode(found.encoded or b"")["tools"]] == ["Calculator_Add"]


@pytest.mark.parametrize(
    ("pinned", "listed"),
    [
        ((), ["search_tools"]),
        (("burn",), ["burn", "search_tools"]),
        (("Kit.burn",), ["burn", "search_tools"]),
        (("Kit.burn@1.0.0",), ["burn", "search_tools"]),
        (("Kit.burn@2.0.0", "gone"), ["search_tools"]),
    ],
)
def test_the_short_list_is_the_search_and_what_was_pinned(pinned: tuple[str, ...], listed: list[str]) -> None:
    registry, shortlist = filled(), Shortlist(pinned)
    registry.add([compile_entry(search_tool(registry, everything).tool, Returning())])
    snapshot = registry.snapshot
    assert [tool.name for tool in shortlist.of(snapshot).page(None).tools] == listed
    assert shortlist.of(snapshot) is shortlist.of(snapshot)
    registry.remove("burn")
    assert [tool.name for tool in shortlist.of(registry.snapshot).page(None).tools] == ["search_tools"]
