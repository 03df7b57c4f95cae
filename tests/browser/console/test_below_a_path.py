"""The console below a path that a proxy strips: every screen, a run and its record, live (C17)."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import HallClient
from tests.browser.console.conftest import OpenConsole
from tests.harness.console_window import ConsoleWindow

SCREENS = (
    *("approvals", "callers", "grants", "grants/matrix", "grants/why", "grants/new", "secrets", "accounts"),
    *("servers", "upstreams", "contracts", "review", "limits", "health", "settings", "tools"),
)


def test_console_works_below_a_path_that_a_proxy_strips(console: OpenConsole, hall_below: HallClient) -> None:
    window: ConsoleWindow = console(hall_below)
    lost: list[str] = []
    window.page.on("response", lambda reply: lost.append(reply.url) if reply.status == 404 else None)
    window.open("#/tools/tools.greet@0.1.0/try")
    window.find("button", re.compile("^Run")).click()
    expect(window.page.locator("main")).to_contain_text("hello")
    window.press("Escape")
    window.go("#/calls")
    row = window.find("row", re.compile("tools.greet"))
    expect(row).not_to_have_count(0)
    before = row.count()
    assert hall_below.call("greet")[0] == 200
    expect(row).to_have_count(before + 1)  # it came over the stream of events
    row.first.get_by_role("link").click()
    expect(window.find("heading", re.compile("called tools.greet"))).to_be_visible()
    for screen in SCREENS:
        window.go(f"#/{screen}")
        expect(window.find("alert")).to_have_count(0)
    outside = [url for _, url in window.requests if not url.startswith((f"{hall_below.url}/", "data:", "blob:"))]
    assert (lost, outside) == ([], [])
