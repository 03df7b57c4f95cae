"""Overview and first run: what needs the person, figures of real calls, one key press to a result, a first call."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office, opened
from tests.harness.console_window import LOOKS, ConsoleWindow, Look
from tests.harness.lateness import measured_lateness
from tests.harness.patience import patience

pytestmark = pytest.mark.timeout(300)
RESULT_SECONDS = 2.0  # from opening the hall to the first result of a tool
CALL_SECONDS = 1.0  # from the call of a client until the first run shows it


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_overview_is_usable_by_everybody(console: OpenConsole, look: Look) -> None:
    console(look=look).open("#/").check()


def test_the_overview_says_what_needs_the_person_and_leads_there(console: OpenConsole, office: Office) -> None:
    """Of a question of this test: those that the office began with end after five minutes."""
    office.ask_person(ship="Overview", why="a test")
    window = console().open("#/")
    card = window.find("link", re.compile(r"calls? waits? for a person"))
    card.click()
    window.wait("location.hash === '#/approvals'")


def test_doors_count_the_calls_that_stopped_and_open_them(console: OpenConsole) -> None:
    window = console().open("#/")
    window.find("link", re.compile(r"validate: \d+ calls? stopped here")).click()
    window.wait("location.hash.startsWith('#/calls?stage=validate')")


def test_the_time_shown_is_in_the_address(console: OpenConsole) -> None:
    window = console().open("#/")
    window.find("button", "24 hours").click()
    window.wait("location.hash === '#/?window=24h'")
    window.page.reload()
    expect(window.settled().find("button", "24 hours")).to_have_attribute("aria-pressed", "true")


def test_no_word_of_the_overview_is_left_in_english(console: OpenConsole) -> None:
    window = console().open("#/", language="pseudo")
    assert window.english() == []


def test_connecting_a_client_gives_every_configuration(console: OpenConsole, office: Office) -> None:
    window = console().open("#/")
    window.find("button", "Connect a client").click()
    dialog = window.find("dialog", "Connect a client")
    for client in ("Claude Code", "Cursor", "VS Code", "Codex", "Python", "curl"):
        dialog.get_by_role("tab", name=client).click()
        expect(dialog.get_by_role("tabpanel", name=client)).to_contain_text(f":{office.url.rpartition(':')[2]}/")
    dialog.get_by_role("tab", name="curl").press("ArrowRight")
    expect(dialog.get_by_role("tab", name="Claude Code")).to_be_focused()


def test_curl_of_a_client_calls_a_tool_as_copied(console: OpenConsole, office: Office) -> None:
    """On a hall that is used, too: the tool and its arguments are those that a first run would try."""
    window = console().open("#/")
    window.find("button", "Connect a client").click()
    dialog = window.find("dialog", "Connect a client")
    dialog.get_by_role("tab", name="curl").click()
    shown = dialog.get_by_role("tabpanel", name="curl").locator("pre").first
    expect(shown).to_contain_text("-d '")
    copied = shown.inner_text().replace("localhost", "127.0.0.1")
    ended = subprocess.run(["sh", "-c", copied], capture_output=True, text=True, timeout=patience(), check=True)
    assert json.loads(ended.stdout) == 42


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_first_run_is_usable_by_everybody(console: OpenConsole, new_hall: Office, look: Look) -> None:
    window = console(hall=new_hall, look=look).open("#/")
    expect(window.heading).to_have_text("Your hall is open")
    window.check()


def test_one_key_press_leads_to_a_result_and_a_first_call_appears(console: OpenConsole, tmp_path: Path) -> None:
    """C1, C2 and C3, in a hall of its own: the first call of a client ends the first run."""
    with opened(tmp_path, filled=False) as hall, measured_lateness() as lateness:
        window = console(hall=hall)
        opened_at, result_at = run_first_tool(window)
        called_at, shown_at = wait_for_a_client(window, hall)
    result_after, shown_after = result_at - opened_at, shown_at - called_at
    assert result_after < RESULT_SECONDS + lateness.late(RESULT_SECONDS, opened_at, result_at)
    assert shown_after < CALL_SECONDS + lateness.late(CALL_SECONDS, called_at, shown_at)


def run_first_tool(window: ConsoleWindow) -> tuple[float, float]:
    """Open the hall as a person does, and press one key; when it was opened, and when the result was there."""
    opened_at = time.monotonic()
    window.page.goto(f"{window.hall}/")
    window.wait("document.activeElement?.matches('button[type=submit]')")
    window.press("Enter")
    window.wait("document.querySelector('main [role=status] .json')?.textContent.trim() === '42'")
    result_at = time.monotonic()
    assert window.page.url.startswith(f"{window.hall}/console/")
    expect(window.find("button", re.compile("^Run"))).to_be_visible()
    expect(window.page.locator(".stage-strip .stopped, .stage-strip .unreached")).to_have_count(0)
    expect(window.page.locator(".stage-strip li")).to_have_count(10)
    return opened_at, result_at


def wait_for_a_client(window: ConsoleWindow, hall: Office) -> tuple[float, float]:
    """Call as a client does; when it was called, and when the console showed it."""
    window.shows("Waiting for its first call")
    called_at = time.monotonic()
    hall.expect(200, "POST", "/oxp/tools/call", {"request": {"tool_id": "Calculator.Add", "input": {"a": 1, "b": 2}}})
    window.wait("document.querySelector('main').textContent.includes('The first call came')")
    shown_at = time.monotonic()
    window.go("#/health")
    window.go("#/")
    expect(window.heading).not_to_have_text("Your hall is open")
    window.page.context.close()
    return called_at, shown_at
