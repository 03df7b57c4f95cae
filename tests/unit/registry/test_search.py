"""Search: what is found, in which order, and what a query costs."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.parts import entry_named, tool_named
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
def test_a_tool_is_found_by_its_name_description_and_tags(query: str) -> None:
    assert names(query) == ["send_email"]


@pytest.mark.parametrize("query", ["railway", "city", "oslo", "platform", "trips"])
def test_a_tool_is_found_by_its_title_and_parameters(query: str) -> None:
    assert names(query) == ["plan"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "quokka"])
def test_nothing_is_found_by_nothing(query: str) -> None:
    assert names(query) == []


def test_a_name_counts_more_than_a_description_and_a_rare_word_more_than_a_common_one() -> None:
    tools = [
        tool_named("helper", description="It can delete a file, too, if need be."),
        tool_named("delete", description="Take it away."),
        *[tool_named(f"file{letter}", description="For a file.") for letter in "abc"],
    ]
    assert names("delete file", tools)[:2] == ["delete", "helper"]


def test_every_word_counts_but_none_must_match() -> None:
    assert names("send a railway message to Oslo please") == ["send_email", "plan"]


def test_equally_good_tools_come_by_id_whoever_was_first() -> None:
    tools = [tool_named(name, description="Same.") for name in "cab"]
    assert names("same", tools) == names("same", tools[::-1]) == ["a", "b", "c"]
    assert names("same same Same", tools, 2) == ["a", "b"]


def test_the_order_of_words_does_not_matter() -> None:
    assert names("oslo email city") == names("city email oslo")


def test_a_query_is_bounded() -> None:
    assert names("é" * MAX_QUERY) == []
    with pytest.raises(Malformed, match="more than 400 characters; ask with fewer words"):
        names("a" * (MAX_QUERY + 1))


def test_a_common_word_does_not_keep_back_what_a_rare_one_has_not_found() -> None:
    crowd = [tool_named(f"weather{number}", description="The weather.") for number in range(400)]
    found = names("weather oslo", [*crowd, TRAIN], 10)
    assert (found[0], len(found)) == ("plan", 10)


def test_a_common_word_lifts_what_rarer_ones_have_found() -> None:
    crowd = [tool_named(f"c{number:03}", description="About the weather.") for number in range(400)]
    rare = [tool_named(f"r{number:03}", description="About snow and something.") for number in range(250)]
    others = [tool_named(f"o{number:04}") for number in range(1_000)]
    both = tool_named("z", description="About snow and weather.")
    assert names("weather snow", [*crowd, *rare, *others, both], 1) == ["z"]


def test_a_word_that_nearly_all_tools_hold_is_heard_only_where_nothing_else_is_found() -> None:
    crowd = [tool_named(f"c{number:03}", description="Get it.") for number in range(400)]
    index = SearchIndex([*crowd, MAIL, TRAIN])
    assert index.find("get email", 1) == [MAIL]
    assert [tool.name for tool in index.find("get email", 2)] == ["send_email", "c000"]
    assert [tool.name for tool in index.find("get email", 1, lambda tool: tool != MAIL)] == ["c000"]


def test_schemas_that_are_none_hide_nothing_and_break_nothing() -> None:
    odd: Any = {"type": "object", "properties": ["a"], "items": 1, "anyOf": {"x": 2}, "description": 3}
    assert names("odd", [tool_named("odd", input=odd)]) == ["odd"]


def test_a_query_looks_at_no_tool_that_does_not_match_nor_at_more_than_are_wanted() -> None:
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


def test_what_a_caller_may_not_see_is_not_found() -> None:
    index = SearchIndex(TOOLS)
    assert index.find("send plan", 5, lambda tool: tool.name != "plan") == [MAIL]


def test_the_index_follows_the_registry_and_knows_the_newest_version_only() -> None:
    registry, found = Registry(), SnapshotSearch()
    registry.add([entry_named("pick", description="Old words.")])
    assert [tool.name for tool in found.find(registry.snapshot, "old", 5)] == ["pick"]
    registry.add([entry_named("pick", description="New words.", id=ToolId("Kit", "pick", "2.0.0"))])
    assert found.find(registry.snapshot, "old", 5) == []
    assert [tool.id.version for tool in found.find(registry.snapshot, "new", 5)] == ["2.0.0"]
    assert [tool.id.version for tool in search(registry.snapshot, "words", 5)] == ["2.0.0"]


def test_the_index_is_built_once_per_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[SearchIndex] = []

    def build(tools: Iterable[Tool]) -> SearchIndex:
        built.append(SearchIndex(tools))
        return built[-1]

    registry, found = Registry(), SnapshotSearch()
    registry.add([entry_named("pick")])
    monkeypatch.setattr("toolhall.registry.search.SearchIndex", build)
    assert found.find(registry.snapshot, "pick", 1) == found.find(registry.snapshot, "kit", 1) != []
    assert len(built) == 1
