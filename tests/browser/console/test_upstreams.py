"""Upstreams: one is added by its URL and appears live, is checked, reviewed as one set, switched off and removed."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HallClient
from tests.browser.console.conftest import OpenConsole
from tests.harness.console_window import ConsoleWindow
from tests.harness.patience import patience
from tests.harness.server_process import eventually, serving
from tests.servers.http_mcp import serving as serving_mcp
from tests.unit.app.test_upstreams import Docs

pytestmark = pytest.mark.timeout(300)
TOOL = '''
from toolhall import tool


@tool
def own() -> str:
    """Say that it is here."""
    return "here"
'''


@pytest.fixture
def docs() -> Iterator[Docs]:
    """An upstream in a thread of its own."""
    server, started, loop = Docs(), threading.Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with serving_mcp(server):
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(patience())
    yield server
    loop.call_soon_threadsafe(ended.set)
    thread.join(patience())
    loop.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[HallClient]:
    """A hall of the person at this machine, with one tool of its own."""
    target = tmp_path / "kit.py"
    target.write_text(TOOL)
    with serving(tmp_path, target) as served:
        yield HallClient(served.port)


def card(window: ConsoleWindow, name: str) -> ConsoleWindow:
    expect(window.page.get_by_role("heading", level=2, name=name)).to_be_visible()
    return window


def tools(hall: HallClient) -> set[str]:
    return {each["name"] for each in hall.ask("GET", "/tools")[1]["tools"]}


def test_upstream_is_added_checked_reviewed_switched_off_and_removed(
    console: OpenConsole, gateway: HallClient, docs: Docs
) -> None:
    window = console(gateway).open("#/upstreams")
    main = window.page.locator("main")
    expect(main).to_contain_text("There is no upstream")
    window.find("button", "Add an upstream").click()
    window.page.get_by_role("textbox", name="Name").fill("Docs")
    window.page.get_by_role("textbox", name="URL").fill(docs.url)
    window.press("Enter")
    card(window, "Docs")
    expect(main.locator("table")).to_contain_text("ready")  # it came over the stream of events
    assert eventually(lambda: "Docs_search" in tools(gateway))

    window.find("button", "Check").click()
    expect(main.locator("ol li")).to_have_count(7)
    expect(main).to_contain_text("every definition can be read")
    window.check()

    docs.tools = [{**docs.tools[0], "description": "Search <b>all</b> documents."}]
    window.find("button", "Fetch lists").click()
    expect(main).to_contain_text("Docs.search@1.0.1")
    expect(main).to_contain_text("Search <b>all</b> documents.")
    window.check()
    window.find("button", "I have read it: serve").click()
    expect(window.find("heading", "What waits for your look")).to_have_count(0)
    assert eventually(lambda: "<b>all</b>" in str(gateway.ask("GET", "/tools")[1]))

    window.find("button", "Switch off").click()
    expect(window.find("button", "Switch on")).to_be_visible()
    assert "Docs_search" not in tools(gateway)
    window.find("button", "Remove").click()
    window.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(main).to_contain_text("There is no upstream")


def test_what_the_hall_says_against_an_upstream_is_shown_where_it_was_typed(
    console: OpenConsole, gateway: HallClient
) -> None:
    window = console(gateway).open("#/upstreams")
    window.may_be_refused = True
    window.find("button", "Add an upstream").click()
    window.page.get_by_role("textbox", name="Name").fill("Inside")
    window.page.get_by_role("textbox", name="URL").fill("http://10.1.2.3/mcp")
    window.press("Enter")
    dialog = window.page.get_by_role("dialog")
    expect(dialog.get_by_role("alert")).to_contain_text("egress_allow")
    window.check()
