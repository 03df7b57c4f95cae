"""Every example in the documentation is a file, and every file runs."""

import re
from pathlib import Path

import pytest

from docs_src import asking, changing_tools, folders, long_calls, many_tools, pages, results, schemas, skills
from docs_src.test_calendar import test_an_event_is_listed as test_calendar
from tests.harness.local_mcp import ask, listed
from toolhall import Answered, Filled, Question, Reply, Text, ToolFailed, Toolhall
from toolhall.dialects.mcp.requests import ListToolsParams
from toolhall.mcp import tool_requests
from toolhall.model.caller import LOCAL
from toolhall.model.errors import BadArguments
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.testing import Client

__all__ = ["test_calendar"]  # collected from the file that the README shows

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
_INCLUDED = re.compile(r"<!-- file: (?P<path>[\w./-]+) -->\n```\w+\n(?P<code>.*?)```", re.DOTALL)
_CODE = re.compile(r"^```python\n", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_code_on_a_page_equals_its_file_in_docs_src(page: Path) -> None:
    text = page.read_text()
    included = list(_INCLUDED.finditer(text))
    assert len([match for match in included if "```python" in match[0]]) == len(_CODE.findall(text)), (
        f"{page.name}: put '<!-- file: docs_src/NAME.py -->' above each Python block"
    )
    for match in included:
        file = (ROOT / match["path"]).read_text()
        assert match["code"].strip() in file, f"{page.name} shows something other than {match['path']}"


@pytest.mark.parametrize("name", ["mount", "open-and-close"])
def test_mount_and_open_and_close_pages_show_whole_files(name: str) -> None:
    included = list(_INCLUDED.finditer((ROOT / f"docs/how-to/{name}.md").read_text()))
    assert included
    for match in included:
        assert match["code"] == (ROOT / match["path"]).read_text()
        assert "docs_src" not in match["code"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_on_a_page_exist(page: Path) -> None:
    broken = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken


async def test_long_calls_example_runs_as_tasks_and_asks_before_one() -> None:
    orders = long_calls.Orders()
    async with Client(orders, answers=lambda _, __: Filled("accept", {"sure": True})) as client:
        assert (await client.task("Orders_export", {"year": 2024})).text == "12 months exported"
        assert (await client.task("Orders_purge", {"year": 2024})).text == "the orders of 2024 are deleted"
    async with Client(orders, answers=lambda _, __: Filled("decline")) as client:
        assert (await client.task("Orders_purge", {"year": 2024})).text == "nothing was deleted"


async def test_asking_example_returns_the_order_or_fails_when_declined() -> None:
    def accept(_: str, __: Question) -> Answered:
        return Filled("accept", {"size": "large", "quantity": 2})

    async with Client(asking.order_pizza, answers=accept) as client:
        assert await client.call(asking.order_pizza, kind="margherita") == "2 large margherita"
    async with Client(asking.order_pizza, answers=lambda _, __: Filled("decline")) as client:
        with pytest.raises(ToolFailed, match="not confirmed"):
            await client.call(asking.order_pizza, kind="margherita")


async def test_results_example_returns_values_blocks_and_replies() -> None:
    async with Client(results) as client:
        assert await client.call(results.forecast, city="Oslo") == results.Forecast("Oslo", 21.5)
        blocks = await client.call(results.chart, city="Oslo")
        assert isinstance(blocks[0], Text)
        report = await client.call(results.report, "Oslo")
        assert isinstance(report, Reply)
        assert report.value == {"city": "Oslo", "celsius": 21.5}


async def test_schemas_example_validates_its_arguments() -> None:
    async with Client(schemas.find_flights) as client:
        assert await client.call(schemas.find_flights, "OSL", "JFK") == ["OSL-JFK economy x1"]
        with pytest.raises(BadArguments, match="/passengers"):
            await client.call(schemas.find_flights, "OSL", "JFK", passengers=10)


async def test_changing_tools_example_adds_a_tool_during_a_call() -> None:
    answer = await changing_tools.hall.dispatcher.answer(CallTool("open_door", {}, "test"), LOCAL)
    assert isinstance(answer, CompletedCall)
    assert changing_tools.hall.dispatcher.find("secret_door", LOCAL)
    changing_tools.hall.close()


async def test_many_tools_example_finds_and_calls_a_tool_by_search() -> None:
    with many_tools.hall as hall:
        shown = tool_requests.list_page(hall.dispatcher, LOCAL, ListToolsParams())
        assert [tool.name for tool in shown.tools] == ["search_tools", "Warehouse_count_stock"]
    async with Client(many_tools.Warehouse, config=many_tools.config) as client:
        found = await client.call_named("search_tools", {"query": "collect parcels"})
        assert b'"name":"Warehouse_order_parcels"' in (found.encoded or b"")
        ordered = await client.call_named("Warehouse_order_parcels", {"count": 2})
        assert ordered.encoded == b'"2 parcels will be collected"'


async def test_folders_example_lists_and_reads_its_files() -> None:
    with folders.hall as hall:
        (manual,) = await listed(hall, "resources/list", "resources")
        assert (manual["uri"], manual["annotations"]["audience"]) == ("shop://manuals/setup.md", ["user"])
        (read,) = (await ask(hall, "resources/read", uri=manual["uri"]))["contents"]
        assert read["text"] == (ROOT / "docs_src/manuals/setup.md").read_text()


async def test_skills_example_lists_its_skill() -> None:
    with skills.hall as hall:
        (skill,) = await listed(hall, "skills/list", "skills")
        assert skill["uri"] == "skill://acme/refund-letters/SKILL.md"
        assert skill["frontmatter"]["metadata"] == {"owner": "the shop"}
        assert [entry.id for entry in hall.registry.snapshot.resources.entries] == ["acme.refund-letters@0.1.0"]


async def test_pages_example_shows_its_results_by_its_page() -> None:
    with Toolhall(pages.Shop) as hall:
        tools = {each["name"]: each["_meta"]["ui"] for each in await listed(hall, "tools/list", "tools")}
        assert tools["Shop_mark_read"] == {"resourceUri": "ui://shop/orders", "visibility": ["app"]}
        (page,) = (await ask(hall, "resources/read", uri=tools["Shop_orders"]["resourceUri"]))["contents"]
        assert (page["text"], page["_meta"]["ui"]["prefersBorder"]) == (pages.PAGE, True)
