"""`GET /api/tools`: search, filters, facets and summaries of many registered tools."""

from collections.abc import AsyncIterator
from typing import Annotated, Any
from urllib.parse import quote

import pytest

from tests.unit.http.api.management_client import activated, definition, manage, place, registered
from toolhall import Config, Toolhall
from toolhall.authoring.declaration import Toolkit, tool


class Mail(Toolkit, version="1.0.0"):
    """Letters."""

    @tool(effect="reads", tags=["letters"])
    def search_letters(self, words: Annotated[str, "What to look for."]) -> list[str]:
        """Find letters by their words."""
        return [words]

    @tool(effect="destroys", level=7, tags=["letters", "danger"], secrets=["MAIL_PASSWORD"])
    def remove_letter(self, number: int) -> None:
        """Remove one letter for ever."""


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    """A toolkit from code, and three definitions from outside: two versions of one tool, and another."""
    with Toolhall(Mail, config=Config(page_size=50)) as hall:
        await hall.open()
        await registered(hall, definition(), definition(version="1.1.0"), definition("letters", description="Letters."))
        yield hall


async def page(hall: Toolhall, query: str = "") -> Any:
    reply = await manage(hall, "GET", f"/api/tools?{query}")
    assert reply.status == 200, reply
    return reply.body


async def found(hall: Toolhall, query: str) -> list[str]:
    return [each["id"] for each in (await page(hall, query))["tools"]]


async def test_filters_combine(hall: Toolhall) -> None:
    assert await found(hall, "effect=reads") == ["Mail.search_letters@1.0.0"]
    assert await found(hall, "effect=none&state=quarantined&tag=none") == []
    assert await found(hall, "effect=none&toolkit=Kit&origin=http") == [
        "Kit.letters@1.0.0",
        "Kit.pick@1.0.0",
        "Kit.pick@1.1.0",
    ]
    assert await found(hall, "tag=danger") == ["Mail.remove_letter@1.0.0"]
    assert await found(hall, "level=7") == ["Mail.remove_letter@1.0.0"]
    assert await found(hall, "level=4-7&origin=code") == ["Mail.remove_letter@1.0.0"]
    assert await found(hall, "server=unknown") == []


@pytest.mark.parametrize("query", ["level=11", "level=4-", "effect=none-such", "state=x", "origin=x", "limit=0"])
async def test_filter_values_that_no_tool_can_have_are_refused(hall: Toolhall, query: str) -> None:
    assert (await manage(hall, "GET", f"/api/tools?{query}")).status == 400


async def test_search_returns_best_match_first_and_pages_by_rank(hall: Toolhall) -> None:
    everything = await found(hall, "query=letters")
    assert everything[0] == "Kit.letters@1.0.0"
    assert set(everything[1:]) == {"Mail.search_letters@1.0.0", "Mail.remove_letter@1.0.0"}
    paged, cursor = [], ""
    while True:
        answer = await page(hall, f"query=letters&limit=1{cursor}")
        assert answer["total"] == len(everything)
        paged += [each["id"] for each in answer["tools"]]
        if "nextCursor" not in answer:
            break
        cursor = f"&cursor={quote(answer['nextCursor'])}"
    assert paged == everything
    assert (await manage(hall, "GET", "/api/tools?query=letters&cursor=Kit.x")).status == 404
    assert (await manage(hall, "GET", "/api/tools?query=a%00b")).status == 400
    assert (await manage(hall, "GET", f"/api/tools?query={'x' * 401}")).status == 400


async def test_facets_count_what_another_choice_would_show(hall: Toolhall) -> None:
    facets = (await page(hall, "toolkit=Mail&effect=reads"))["facets"]
    assert facets["effect"] == {"reads": 1, "destroys": 1}
    assert facets["toolkit"] == {"Mail": 1}
    assert facets["tag"] == {"letters": 1}
    assert facets["level"] == {"1": 1}
    for facet, counts in (await page(hall))["facets"].items():
        for value, count in counts.items():
            assert (await page(hall, f"{facet}={quote(value)}"))["total"] == count, (facet, value)


async def test_facets_name_a_choice_that_matches_nothing(hall: Toolhall) -> None:
    assert (await page(hall, "tag=danger&effect=reads"))["facets"]["tag"] == {"danger": 0, "letters": 1}


async def test_index_follows_changes(hall: Toolhall) -> None:
    before = await page(hall, "query=pick")
    assert before["facets"]["state"] == {"quarantined": 2}
    await activated(hall, "Kit.pick@1.0.0")
    await registered(hall, definition(version="1.2.0"))
    after = await page(hall, "query=pick")
    assert after["facets"]["state"] == {"quarantined": 2, "active": 1}
    assert {each["id"]: (each["newest"], each["served"]) for each in after["tools"]} == {
        "Kit.pick@1.0.0": (False, True),
        "Kit.pick@1.1.0": (False, False),
        "Kit.pick@1.2.0": (True, False),
    }
    await manage(hall, "DELETE", place("Kit.pick@1.2.0"))
    assert {each["id"]: each["newest"] for each in (await page(hall, "query=pick"))["tools"]} == {
        "Kit.pick@1.0.0": False,
        "Kit.pick@1.1.0": True,
    }


async def test_page_summary_equals_that_of_the_tool(hall: Toolhall) -> None:
    await activated(hall, "Kit.pick@1.1.0")
    for summary in (await page(hall))["tools"]:
        whole = (await manage(hall, "GET", place(summary["id"]))).body
        assert {key: whole[key] for key in summary} == summary


async def test_tool_shows_requirements_schemas_and_versions(hall: Toolhall) -> None:
    removing = (await manage(hall, "GET", place("Mail.remove_letter"))).body
    assert removing["requirements"] == [{"kind": "secret", "name": "MAIL_PASSWORD"}]
    assert (removing["level"], removing["effectiveLevel"], removing["effect"]) == (7, 7, "destroys")
    assert removing["inputSchema"]["required"] == ["number"]
    examples = [{"a": 1}, "no arguments"]
    await registered(hall, definition("shown", inputSchema={"type": "object", "examples": examples}))
    assert (await manage(hall, "GET", place("Kit.shown"))).body["examples"] == [{"a": 1}]
    versions = (await manage(hall, "GET", place("Kit.pick"))).body["versions"]
    assert [(each["id"], each["sunset"]) for each in versions] == [("Kit.pick@1.1.0", None), ("Kit.pick@1.0.0", None)]
