"""`search_tools`, alone and in a hall whose clients search."""

from typing import Any

import msgspec
import pytest

from tests.unit.builders import entry_named
from tests.unit.http.asgi_client import asked
from toolhall import Toolhall
from toolhall.authoring.context import Context
from toolhall.config import Config
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.protocol import REVISIONS
from toolhall.examples import calculator
from toolhall.model.caller import ANONYMOUS, LOCAL, Caller
from toolhall.model.content import Result
from toolhall.model.errors import BadArguments, NotFound, Unauthenticated
from toolhall.model.names import SEARCH_TOOL, ToolId
from toolhall.model.tool import Tool
from toolhall.registry.registry import Conflict
from toolhall.registry.search import MAX_QUERY, SearchToolkit, search_tool
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.audit.journal import MemoryJournal
from toolhall.testing import Client

SEARCHING = Config(search=True)


def everything(caller: Caller, tool: Tool) -> bool:
    return True


def filled() -> Snapshot:
    return Snapshot(
        [entry_named("send_email", description="Send a message."), entry_named("burn", description="Burn it.")], 100
    )


def test_search_tool_returns_name_id_description_and_input_schema() -> None:
    found = SearchToolkit(filled, everything).search_tools(Context(), "a message")
    (only,) = found.tools
    assert (only.name, only.id, only.description) == ("send_email", "Kit.send_email@1.0.0", "Send a message.")
    assert only.input_schema == {"type": "object"}


def test_search_tool_returns_only_tools_visible_to_the_caller() -> None:
    def sees(caller: Caller, tool: Tool) -> bool:
        return caller != LOCAL or tool.name != "burn"

    finder = SearchToolkit(filled, sees)
    assert finder.search_tools(Context(), "burn").tools == []
    assert len(finder.search_tools(Context(caller=Caller("guest")), "burn").tools) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_search_tool_is_published_by_its_short_name(revision: str) -> None:
    document = write_tool(search_tool(filled, everything).tool, REVISIONS[revision])
    assert (document["name"], document["annotations"]) == ("search_tools", {"readOnlyHint": True})
    assert document["outputSchema"]["type"] == "object"


def tools_in(found: Result) -> list[Any]:
    tools: list[Any] = msgspec.json.decode(found.encoded or b"")["tools"]
    return tools


async def test_search_tool_is_validated_and_audited_and_does_not_find_itself() -> None:
    async with Client(calculator, config=SEARCHING) as client:
        found = await client.call_named("search_tools", {"query": "search tools that add numbers", "limit": 1})
        (only,) = tools_in(found)
        assert only["name"] == "Calculator_Add"
        assert (await client.call_named(only["name"], {"a": 1, "b": 2})).encoded == b"3.0"
        with pytest.raises(BadArguments):
            await client.call_named("search_tools", {"query": "a" * (MAX_QUERY + 1)})
        journal = client.hall.journal
        assert isinstance(journal, MemoryJournal)
        assert str(SEARCH_TOOL) in [record.tool for record in journal.records], "it is a call like any other"


async def test_search_tool_without_search_setting_is_not_found() -> None:
    async with Client(calculator) as client:
        with pytest.raises(NotFound):
            await client.call_named("search_tools", {"query": "add"})


async def test_search_tool_for_an_anonymous_caller_is_unauthenticated() -> None:
    async with Client(calculator, config=SEARCHING, caller=ANONYMOUS) as client:
        with pytest.raises(Unauthenticated):
            await client.call_named("search_tools", {"query": "add"})


async def test_search_tool_hides_tools_above_the_level_of_the_caller() -> None:
    async with Client(calculator, config=SEARCHING, caller=Caller("ci", proof="key")) as client:
        assert tools_in(await client.call_named("search_tools", {"query": "add"}))
        client.hall.registry.add([entry_named("addend", level=4)])
        found = tools_in(await client.call_named("search_tools", {"query": "addend"}))
        assert "addend" not in [each["name"] for each in found]


async def test_search_tool_follows_registry_changes() -> None:
    async with Client(config=SEARCHING) as client:
        assert tools_in(await client.call_named("search_tools", {"query": "burn"})) == []
        client.hall.registry.add([entry_named("burn")])
        assert len(tools_in(await client.call_named("search_tools", {"query": "burn"}))) == 1


async def test_search_tool_describes_the_pinned_version() -> None:
    async with Client(config=Config(search=True, pinned=("Kit.get@^1",))) as client:
        versions = [
            entry_named("get", id=ToolId("Kit", "get", version), description=f"Gets {word}.")
            for version, word in (("1.0.0", "apples"), ("2.0.0", "pears"))
        ]
        client.hall.registry.add(versions)
        (found,) = tools_in(await client.call_named("search_tools", {"query": "get"}))
        assert (found["id"], found["description"]) == ("Kit.get@1.0.0", "Gets apples.")
        assert tools_in(await client.call_named("search_tools", {"query": "pears"})) == []


def test_search_tool_name_is_reserved_while_search_is_enabled() -> None:
    with Toolhall(config=SEARCHING) as hall, pytest.raises(Conflict, match="search_tools"):
        hall.registry.add([entry_named("search_tools")])


@pytest.mark.parametrize("path", ["/tools", "/tools?dialect=oxp", "/oxp/tools", "/machine/tools", "/openapi.json"])
async def test_search_setting_does_not_shorten_lists_of_other_dialects(path: str) -> None:
    with Toolhall(calculator, config=SEARCHING) as hall:
        status, listed = await asked(hall, path)
    assert status == 200
    text = msgspec.json.encode(listed).decode()
    for name in ("Subtract", "search_tools"):
        assert name in text
