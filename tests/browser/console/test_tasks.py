"""Tasks: long calls of everybody, live; one that asks says what, one that runs is cancelled, arguments stay secret."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HallClient
from tests.browser.console.conftest import OpenConsole
from tests.harness.http_client import request_url
from tests.harness.patience import patience
from tests.harness.server_process import serving

pytestmark = pytest.mark.timeout(300)
MARK = "mark-8d2f6c"
TOOLS = '''
from toolhall import Context, tool

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


@tool(effect="reads", task=True)
async def asks(ctx: Context, what: str) -> str:
    """Ask for a name."""
    return str(await ctx.ask("Which <b>name</b>?", FORM, key="name"))


@tool(effect="reads", task=True)
async def answers(what: str) -> str:
    """Answer at once."""
    return what
'''


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallClient]:
    """A hall with tools that run as tasks."""
    folder: Path = tmp_path_factory.mktemp("tasks")
    target = folder / "long.py"
    target.write_text(TOOLS)
    with serving(folder, target) as served:
        yield HallClient(served.port)


def begin(hall: HallClient, tool: str) -> str:
    """Call a tool as a task; its id."""
    headers = {"Prefer": "respond-async"}
    begun = request_url(f"{hall.url}/tools/long/{tool}", {"what": MARK}, headers, method="POST")
    assert begun.status == 202
    _, listed = hall.ask("GET", f"/api/tasks?tool=long.{tool}&limit=1")
    return str(listed["tasks"][0]["id"])


def test_a_task_appears_by_itself_says_what_it_asks_and_is_cancelled_by_keyboard(
    console: OpenConsole, workshop: HallClient
) -> None:
    window = console(workshop).open("#/tasks")
    page = window.page
    expect(page.locator("main h1")).to_have_text("Tasks")
    task = begin(workshop, "asks")
    expect(page.get_by_role("row").filter(has_text="long.asks")).to_contain_text("asks", timeout=1_000 * patience())
    window.check()
    window.press("j")
    window.wait("id => location.hash.startsWith(`#/tasks/${id}`)", task)
    card = page.locator("main aside")
    expect(card).to_contain_text("Which <b>name</b>?")
    expect(card).to_contain_text("local")
    window.check()
    card.get_by_role("button", name="Cancel it").press("Enter")
    ask = window.find("dialog")
    expect(ask).to_contain_text("ends as cancelled")
    ask.get_by_role("button", name="Cancel it").press("Enter")
    expect(ask).to_have_count(0)
    expect(card.locator(".chip")).to_have_text("cancelled")
    assert workshop.ask("GET", f"/api/tasks/{task}")[1]["state"] == "cancelled"
    assert card.get_by_role("button", name="Cancel it").count() == 0
    assert MARK not in page.locator("body").inner_text()


def test_tasks_are_filtered_and_one_that_is_gone_says_so(console: OpenConsole, workshop: HallClient) -> None:
    begin(workshop, "answers")
    window = console(workshop).open("#/tasks?state=failed")
    window.may_be_refused = True
    window.shows("No task matches the filter.")
    window.go("#/tasks?tool=long.answers")
    expect(window.page.get_by_role("row").filter(has_text="long.answers")).to_contain_text(
        "completed", timeout=1_000 * patience()
    )
    window.go("#/tasks/nobody")
    window.shows("There is no task nobody.")
    window.check()


def test_callers_do_not_see_the_screen(console: OpenConsole, workshop: HallClient) -> None:
    window = console(workshop)
    window.page.context.route(
        "**/api/me",
        lambda route: route.fulfill(json=route.fetch().json() | {"may": {"manage": False, "observe": False}}),
    )
    window.open("#/tasks")
    window.shows("It needs the scope observe")
    assert window.find("link", "Tasks").count() == 0
