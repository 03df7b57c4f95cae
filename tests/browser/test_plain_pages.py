"""The pages of the hall work without JavaScript, below a path that a proxy strips, and load nothing from elsewhere."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import HallClient
from tests.browser.test_approving import LOOKS, UNLABELLED
from tests.harness.stripping_proxy import PREFIX

Window = Callable[..., Page]


def outside_of(hall: HallClient, urls: list[str]) -> list[str]:
    """The requests that left the hall."""
    return [url for url in urls if not url.startswith((f"{hall.url}/", "data:"))]


def test_plain_page_calls_a_tool_without_javascript(hall: HallClient, window: Window) -> None:
    page = window(java_script_enabled=False)
    urls: list[str] = []
    page.on("request", lambda each: urls.append(each.url))
    page.goto(f"{hall.url}/console/plain")
    page.get_by_label("Find a tool").fill("lock door")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".tools a")).to_have_count(1)
    page.get_by_role("link", name=re.compile("tools.unlock")).click()
    expect(page.get_by_label("Arguments, as JSON")).to_have_value(re.compile('"door"'))
    page.get_by_label("Arguments, as JSON").fill('{"door": 1}')
    page.get_by_role("button", name="Run it").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Arguments, as JSON").fill('{"door": "plain"}')
    page.get_by_role("button", name="Run it").click()
    page.get_by_role("link", name="Open the page where you can do something about it").click()
    expect(page.get_by_role("heading", name="Is it you?")).to_be_visible()
    assert outside_of(hall, urls) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("look", LOOKS)
def test_plain_page_fits_every_screen(hall: HallClient, window: Window, look: str, scheme: str) -> None:
    page = window(viewport=LOOKS[look], color_scheme=scheme)
    page.goto(f"{hall.url}/console/plain?tool=tools.burn")
    page.wait_for_load_state("load")
    assert page.evaluate(UNLABELLED) == []
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pages_work_below_a_path_that_a_proxy_strips(hall_below: HallClient, window: Window) -> None:
    """C17: sign in with a key, read the question, deny it, and go on to what else waits; every file is found."""
    hall, page = hall_below, window()
    lost: list[str] = []
    page.on("response", lambda reply: lost.append(reply.url) if reply.status == 404 else None)
    urls: list[str] = []
    page.on("request", lambda each: urls.append(each.url))
    _, key = hall.ask("POST", "/api/keys", {"name": "below", "owner": "bea"})
    hall.ask("POST", "/api/grants", {"callers": "below", "tools": "*"})
    question = hall.question("burn", key["secret"], room="attic")
    assert question.startswith(f"{hall.url}/approve/")
    page.goto(question)
    page.get_by_label("API key").fill(key["secret"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Run this call?")).to_be_visible()
    button = page.get_by_role("button", name="Deny")
    assert button.evaluate("each => getComputedStyle(each).borderRadius") == "8px", "the style sheet was found"
    button.click()
    expect(page.get_by_role("heading", name="Denied")).to_be_visible()
    onward = page.get_by_role("link", name="See everything that waits for a decision")
    assert urlsplit(onward.evaluate("each => each.href")).path == f"{PREFIX}/console/"
    page.goto(f"{hall.url}/console/plain")
    expect(page.locator(".tools a")).not_to_have_count(0)
    assert (lost, outside_of(hall, urls)) == ([], [])
