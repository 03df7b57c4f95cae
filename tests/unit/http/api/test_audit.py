"""`GET /api/audit`: records for callers who may manage the hall, and for nobody else."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.http.api.management_client import manage
from toolhall import Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool


@tool(version="1.0.0", level=4)
def push(repo: str = "main") -> str:
    """Push to a repository."""
    return f"pushed {repo}"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(push) as hall:
        await hall.open()
        for name in ("push", "pull"):
            await hall.dispatcher.answer(CallTool(name, {}, "test", 7), LOCAL)
        yield hall


async def test_search_returns_newest_first(hall: Toolhall) -> None:
    reply = await manage(hall, "GET", "/api/audit")
    assert reply.status == 200
    missed, pushed, intent = reply.body["records"]
    assert (missed["tool"], missed["outcome"]) == ("pull", "NotFound")
    assert (pushed["outcome"], intent["outcome"], intent["phase"]) == ("ok", "intent", "intent")
    assert pushed["call"] == intent["call"]
    assert (pushed["level"], pushed["verdict"], pushed["grant"]) == (4, "allow", "profile:local")
    assert pushed["argumentsSha256"] == intent["argumentsSha256"]


@pytest.mark.parametrize(
    ("query", "outcomes"),
    [
        ("tool=test_audit.push", ["ok", "intent"]),
        ("outcome=ok", ["ok"]),
        ("level=4&limit=1", ["ok"]),
        ("level=5", []),
        ("caller=ada", []),
        ("until=2020-01-31", []),
        ("since=2020-01-31T00:00:00Z&outcome=NotFound", ["NotFound"]),
    ],
)
async def test_search_filters_records(hall: Toolhall, query: str, outcomes: list[str]) -> None:
    reply = await manage(hall, "GET", f"/api/audit?{query}")
    assert [record["outcome"] for record in reply.body["records"]] == outcomes


@pytest.mark.parametrize("query", ["level=11", "since=soon", "limit=0", "limit=1001", "colour=red"])
async def test_search_bad_filter_is_refused(hall: Toolhall, query: str) -> None:
    assert (await manage(hall, "GET", f"/api/audit?{query}")).status == 400


async def test_search_by_non_admin_finds_no_calls_of_others(hall: Toolhall) -> None:
    made = (await manage(hall, "POST", "/api/keys", {"name": "ci"})).body
    reply = await manage(hall, "GET", "/api/audit", headers={"authorization": f"Bearer {made['secret']}"})
    assert (reply.status, reply.body) == (200, {"records": []})
