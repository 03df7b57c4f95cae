"""Lists in pages: whatever changes meanwhile, each other tool comes exactly once."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from tests.unit.http.api.management_client import activated, definition, manage, place, registered
from toolhall import Config, Toolhall
from toolhall.http.api import tool_index

NAMES = [f"t{number}" for number in range(5)]
IDS = [f"Kit.{name}@1.0.0" for name in NAMES]


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    """Five tools, two on a page."""
    with Toolhall(config=Config(page_size=2)) as hall:
        await hall.open()
        await registered(hall, *map(definition, reversed(NAMES)))
        yield hall


async def listed(hall: Toolhall, query: str = "") -> list[list[str]]:
    found: list[list[str]] = []
    cursor = ""
    while True:
        page = (await manage(hall, "GET", f"/api/tools?{query}{cursor}")).body
        found.append([tool["id"] for tool in page["tools"]])
        if "nextCursor" not in page:
            return found
        cursor = f"&cursor={quote(page['nextCursor'], safe='')}"


async def test_tool_pages_are_ordered_by_id(hall: Toolhall) -> None:
    assert await listed(hall) == [IDS[:2], IDS[2:4], IDS[4:]]


async def test_full_last_page_has_no_cursor(hall: Toolhall) -> None:
    await manage(hall, "DELETE", place(IDS[0]))
    assert await listed(hall) == [IDS[1:3], IDS[3:5]]


async def test_tool_pages_filter_by_state_and_toolkit(hall: Toolhall) -> None:
    for tool_id in (IDS[0], IDS[3], IDS[4]):
        await activated(hall, tool_id)
    assert await listed(hall, "state=active") == [[IDS[0], IDS[3]], [IDS[4]]]
    assert await listed(hall, "state=quarantined&toolkit=Kit") == [IDS[1:3]]
    assert await listed(hall, "toolkit=kit") == [[]]


async def test_tool_pages_skip_nothing_during_changes(hall: Toolhall) -> None:
    first = (await manage(hall, "GET", "/api/tools")).body
    await manage(hall, "DELETE", place(IDS[1]))  # the last one seen
    await activated(hall, IDS[0])
    second = (await manage(hall, "GET", f"/api/tools?cursor={quote(first['nextCursor'])}")).body
    assert [tool["id"] for tool in second["tools"]] == IDS[2:4]


async def test_tool_pages_accept_any_cursor(hall: Toolhall) -> None:
    page = (await manage(hall, "GET", "/api/tools?cursor=zzz")).body
    assert (page["tools"], page["total"], "nextCursor" in page) == ([], len(IDS), False)


async def test_tool_page_is_bounded_in_bytes_and_never_empty(hall: Toolhall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_index, "PAGE_BYTES", 500)
    assert await listed(hall) == [[tool_id] for tool_id in IDS]
