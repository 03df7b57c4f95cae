"""Tasks done with the keyboard alone, found by roles and names as a screen reader reads them (C8).

Each is done at a hall, and at one below a path that a proxy strips (C17).
"""

import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyotp
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office, opened
from tests.harness.console_window import ConsoleWindow
from tests.harness.stripping_proxy import PREFIX, stripping_proxy
from tests.unit.http.api.management_client import definition
from tests.unit.http.api.management_client import place as path_of

pytestmark = pytest.mark.timeout(300)
MOST_STOPS = 80
PLACES = ["", PREFIX]


@contextmanager
def opened_at(place: str, folder: Path, *, filled: bool = True) -> Generator[Office]:
    """A hall whose people come directly, or through a proxy that serves it below a path."""
    if not place:
        with opened(folder, filled=filled) as hall:
            yield hall
        return
    port: list[int] = []
    with stripping_proxy(lambda: port[0]) as outside:
        public = f"http://localhost:{outside}{place}"
        with opened(folder, filled=filled, public_url=public) as hall:
            port.append(int(hall.url.rpartition(":")[2]))
            hall.url = public
            yield hall


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: place or "directly")
def harbour(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A hall of these walks alone, which change it."""
    with opened_at(request.param, tmp_path_factory.mktemp("walks")) as hall:
        yield hall


def tab_to(window: ConsoleWindow, target: Locator, key: str = "Tab") -> None:
    """Press Tab until the target has the focus, which must be visible wherever it is."""
    expect(target).to_have_count(1)
    for _ in range(MOST_STOPS):
        if target.evaluate("each => each === document.activeElement"):
            return
        window.press(key)
        assert window.is_focus_visible(), window.focused.evaluate("each => each?.outerHTML.slice(0, 200)")
    raise AssertionError(f"the keyboard does not reach {target}")


def go_by_find(window: ConsoleWindow, words: str, option: re.Pattern[str]) -> None:
    """Go where Find leads for these words."""
    window.press("Control+k")
    window.find("combobox").wait_for()
    window.write(words)
    expect(window.find("option", option).first).to_be_visible()
    window.press("Enter")
    window.settled()


def test_a_refused_call_and_its_reason_are_found(console: OpenConsole, harbour: Office) -> None:
    window = console(harbour).open("#/")
    window.go_by_keys("gc", "calls")
    window.press("e")
    window.write("outcome:Denied caller:ci")
    window.press("Enter")
    window.wait("location.hash.includes('outcome=Denied') && location.hash.includes('caller=ci')")
    expect(window.find("row")).to_have_count(2)  # the head, and the call
    window.press("Escape")
    window.page.evaluate("document.activeElement.blur()")  # as a click beside the field does
    window.press("j")
    card = window.find("complementary", re.compile("ci may not call Harbour.open_lock"))
    expect(card).to_contain_text("No grant or policy allows this caller to call this tool with these arguments.")
    tab_to(window, card.get_by_role("link", name="See why"))
    window.press("Enter")
    window.wait("location.hash.startsWith('#/grants/why?caller=ci')")
    expect(window.page.locator("main")).to_contain_text("it depends")


def test_an_approval_is_denied(console: OpenConsole, harbour: Office) -> None:
    asked = harbour.ask_person(ship="Denied", why="a test")
    window = console(harbour).open("#/")
    window.go_by_keys("ga", "approvals")
    window.wait("location.hash.startsWith('#/approvals/')")
    while not window.page.evaluate("id => location.hash.includes(id)", asked):
        before = window.page.evaluate("location.hash")
        window.press("j")
        window.wait("before => location.hash !== before", before)
    question = window.find("complementary", re.compile("May local call Harbour.scrap"))
    expect(question).to_contain_text('"ship": "Denied"')
    tab_to(window, question.get_by_role("button", name="Deny"))
    window.press("Enter")
    tab_to(window, question.get_by_role("textbox", name=re.compile("Reason|Why", re.IGNORECASE)))
    window.write("she still sails")
    window.press("Enter")
    expect(question.get_by_role("status")).to_contain_text("she still sails")
    decided = harbour.expect(200, "GET", "/api/approvals?state=decided")["approvals"]
    (told,) = [each for each in decided if each["id"] == asked]
    assert (told["state"], told["reason"]) == ("denied", "she still sails")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place or "directly")
def test_a_call_is_approved_with_a_code(
    console: OpenConsole, tmp_path_factory: pytest.TempPathFactory, place: str
) -> None:
    with opened_at(place, tmp_path_factory.mktemp("code"), filled=False) as hall:
        made = hall.expect(201, "POST", "/api/factors", {"kind": "totp", "person": "local"})
        codes = pyotp.TOTP(made["secret"])
        hall.expect(201, "POST", "/api/factors/confirm", {"enrolment": made["enrolment"], "code": codes.now()})
        asked = hall.ask_person(ship="Argo", why="it leaks")
        window = console(hall).open("#/approvals")
        window.wait("id => location.hash.includes(id)", asked)
        question = window.find("complementary", re.compile("May local call Harbour.scrap"))
        approve = question.get_by_role("button", name="Approve by code")
        expect(approve).to_be_disabled()
        tab_to(window, question.get_by_role("textbox", name="Code of your authenticator"))
        window.write(codes.at(int(time.time()) + 30))
        expect(approve).to_be_enabled()
        window.press("Enter")
        expect(question.get_by_role("status")).to_contain_text(re.compile("approved", re.IGNORECASE))
        assert hall.rest("Harbour/scrap", {"ship": "Argo", "why": "it leaks"}) == (200, "scrapped Argo")


def test_a_key_is_made_and_revoked(console: OpenConsole, harbour: Office) -> None:
    window = console(harbour).open("#/")
    go_by_find(window, "make a key", re.compile("Make a key"))
    dialog = window.find("dialog", "Make a key")
    expect(dialog.get_by_role("textbox", name="Name of the caller")).to_be_focused()
    window.write("walker")
    tab_to(window, dialog.get_by_role("button", name="Make the key"))
    window.press("Enter")
    shown = window.find("dialog", re.compile("walker"))
    secret = shown.locator("pre").first.inner_text()
    assert harbour.ask("POST", "/tools/Calculator/Add", {"a": 1, "b": 2}, secret) == (200, 3)
    tab_to(window, shown.get_by_role("button", name=re.compile("kept")))
    window.press("Enter")
    expect(shown).to_have_count(0)
    tab_to(window, window.find("link", "walker"))
    window.press("Enter")
    card = window.find("complementary", "walker")
    tab_to(window, card.get_by_role("button", name=re.compile("Revoke")))
    window.press("Enter")
    ask = window.find("dialog", re.compile("Revoke"))
    tab_to(window, ask.get_by_role("button", name="Revoke"))
    window.press("Enter")
    expect(ask).to_have_count(0)
    expect(card).to_contain_text("revoked")
    assert harbour.ask("POST", "/tools/Calculator/Add", {"a": 1, "b": 2}, secret)[0] == 401


def test_a_definition_is_read_and_served(console: OpenConsole, harbour: Office) -> None:
    harbour.expect(201, "POST", "/api/tools", definition("walked", description="Walks.\u200b"))
    window = console(harbour).open("#/")
    go_by_find(window, "review", re.compile("^Review"))
    read = window.find("complementary", "Kit.walked@1.0.0")
    expect(read).to_contain_text("<U+200B>")
    tab_to(window, read.get_by_role("button", name="I have read it: serve"))
    window.press("Enter")
    expect(window.page.locator("main")).to_contain_text("Nothing waits for review.")
    assert harbour.expect(200, "GET", path_of("Kit.walked@1.0.0"))["state"] == "active"


def test_a_tool_is_found_and_run(console: OpenConsole, harbour: Office) -> None:
    window = console(harbour).open("#/")
    go_by_find(window, "get_tide", re.compile("Harbour.get_tide"))
    tab_to(window, window.find("textbox", re.compile("harbour")))
    window.write("Leith")
    window.press("Control+Enter")
    expect(window.find("region", "Result")).to_contain_text('"metres": 2.4')
