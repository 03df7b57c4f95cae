"""Search: what is found, in which order, and what a query costs."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.builders import entry_named, tool_named
from toolhall.model.errors import Malformed
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool
from toolhall.registry.registry import Registry
from toolhall.registry.search import MAX_QUERY, SearchIndex, SnapshotSearch, search

MAIL = tool_named("send_email", description="Send a message to a person.", tags=("mail",))
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "A place such as Oslo."},
        "stops": {"type": "array", "items": {"type": "object", "properties": {"platform": {"type": "integer"}}}},
    },
}
TRAIN = tool_named("plan", title="Railway journey", description="Plan a trip.", input=NESTED)
NOISE = [tool_named(f"noise{number}", description="Does something else.") for number in range(20)]
TOOLS = [*NOISE, MAIL, TRAIN]


def names(query: str, tools: list[Tool] | None = None, limit: int = 5) -> list[str]:
    return [tool.name for tool in search(tools or TOOLS, query, limit)]


@pytest.mark.parametrize("query", ["email", "sendEmail", "SEND", "messages", "mail", "send_email", "two persons"])
def test_search_finds_a_tool_by_name_description_and_tags(query: str) -> None:
    assert names(query) == ["send_email"]


@pytest.mark.parametrize("query", ["railway", "city", "oslo", "platform", "trips"])
def test_search_finds_a_tool_by_title_and_parameters(query: str) -> None:
    assert names(query) == ["plan"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "quokka"])
def test_search_for_empty_or_unknown_words_finds_nothing(query: str) -> None:
    assert names(query) == []


def test_search_ranks_names_above_descriptions_and_rare_words_above_common_ones() -> None:
    tools = [
        tool_named("helper", description="It can delete a file, too, if need be."),
        tool_named("delete", description="Take it away."),
        *[tool_named(f"file{letter}", description="For a file.") for letter in "abc"],
    ]
    assert names("delete file", tools)[:2] == ["delete", "helper"]


def test_search_finds_tools_that_match_some_words_of_the_query() -> None:
    assert names("send a railway message to Oslo please") == ["send_email", "plan"]


def test_search_orders_equally_ranked_tools_by_id() -> None:
    tools = [tool_named(name, description="Same.") for name in "cab"]
    assert names("same", tools) == names("same", tools[::-1]) == ["a", "b", "c"]
    assert names("same same Same", tools, 2) == ["a", "b"]


def test_search_is_independent_of_the_order_of_words() -> None:
    assert names("oslo email city") == names("city email oslo")


def test_search_query_above_the_maximum_length_raises_malformed() -> None:
    assert names("é" * MAX_QUERY) == []
    with pytest.raises(Malformed, match="more than 400 characters; ask with fewer words"):
        names("a" * (MAX_QUERY + 1))


def test_search_fills_results_of_a_rare_word_with_those_of_a_common_word() -> None:
    crowd = [tool_named(f"weather{number}", description="The weather.") for number in range(400)]
    found = names("weather oslo", [*crowd, TRAIN], 10)
    assert (found[0], len(found)) == ("plan", 10)


def test_search_common_word_raises_the_rank_of_tools_found_by_rarer_words() -> None:
    crowd = [tool_named(f"c{number:03}", description="About the weather.") for number in range(400)]
    rare = [tool_named(f"r{number:03}", description="About snow and something.") for number in range(250)]
    others = [tool_named(f"o{number:04}") for number in range(1_000)]
    both = tool_named("z", description="About snow and weather.")
    assert names("weather snow", [*crowd, *rare, *others, both], 1) == ["z"]


def test_search_word_of_nearly_all_tools_is_used_only_to_fill_up_results() -> None:
    crowd = [tool_named(f"c{number:03}", description="Get it.") for number in range(400)]
    index = SearchIndex([*crowd, MAIL, TRAIN])
    assert index.find("get email", 1) == [MAIL]
    assert [tool.name for tool in index.find("get email", 2)] == ["send_email", "c000"]
    assert [tool.name for tool in index.find("get email", 1, lambda tool: tool != MAIL)] == ["c000"]


def test_search_finds_a_tool_with_an_invalid_schema() -> None:
    odd: Any = {"type": "object", "properties": ["a"], "items": 1, "anyOf": {"x": 2}, "description": 3}
    assert names("odd", [tool_named("odd", input=odd)]) == ["odd"]


def test_search_filters_only_matching_tools_up_to_the_limit() -> None:
    looked: list[Tool] = []

    def keep(tool: Tool) -> bool:
        looked.append(tool)
        return True

    for crowd in (10, 1_000):
        SearchIndex([*[tool_named(f"noise{number}") for number in range(crowd)], MAIL, TRAIN]).find("email", 5, keep)
    assert looked == [MAIL, MAIL]
    same = SearchIndex([tool_named(f"n{number}", description="Same.") for number in range(50)])
    assert same.find("same", 3, keep) == looked[2:]
    assert len(looked[2:]) == 3


def test_search_does_not_return_filtered_tools() -> None:
    index = SearchIndex(TOOLS)
    assert index.find("send plan", 5, lambda tool: tool.name != "plan") == [MAIL]


def test_search_index_follows_the_registry_and_contains_the_newest_version_only() -> None:
    registry, found = Registry(), SnapshotSearch()
    registry.add([entry_named("pick", description="Old words.")])
    assert [tool.name for tool in found.find(registry.snapshot, "old", 5)] == ["pick"]
    registry.add([entry_named("pick", description="New words.", id=ToolId("Kit", "pick", "2.0.0"))])
    assert found.find(registry.snapshot, "old", 5) == []
    assert [tool.id.version for tool in found.find(registry.snapshot, "new", 5)] == ["2.0.0"]
    assert [tool.id.version for tool in search(registry.snapshot, "words", 5)] == ["2.0.0"]


def test_search_index_is_built_once_per_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[SearchIndex] = []

    def build(tools: Iterable[Tool]) -> SearchIndex:
        built.append(SearchIndex(tools))
        return built[-1]

    registry, found = Registry(), SnapshotSearch()
    registry.add([entry_named("pick")])
    monkeypatch.setattr("toolhall.registry.search.SearchIndex", build)
    assert found.find(registry.snapshot, "pick", 1) == found.find(registry.snapshot, "kit", 1) != []
    assert len(built) == 1
