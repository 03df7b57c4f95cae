"""What a person approves: only what was shown whole, with what hides in it named, and only while it stands (C14)."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office, opened
from tests.browser.console.staging import Stage
from tests.harness.console_window import ConsoleWindow

pytestmark = pytest.mark.timeout(300)
FIVE_MINUTES_MS = 301_000
# Whether one element comes after another, in the document and on the screen.
_AFTER = """([one, other]) => {
  const [above, below] = [one, other].map((each) => document.querySelector(each));
  return !!(above.compareDocumentPosition(below) & Node.DOCUMENT_POSITION_FOLLOWING)
    && below.getBoundingClientRect().top >= above.getBoundingClientRect().bottom;
}"""
_WHOLE = "() => { const each = document.querySelector('pre.exact'); return each.scrollHeight <= each.clientHeight + 1 }"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A hall whose person has an authenticator, so that approving is a matter of the page alone."""
    with opened(tmp_path_factory.mktemp("gate"), filled=False) as hall:
        yield hall


def open_question(console: OpenConsole, office: Office, tool: str, **arguments: Any) -> tuple[ConsoleWindow, str]:
    """Ask the person, and open the question in a window whose clock can be moved."""
    status, said = office.rest(f"Harbour/{tool}", arguments)
    assert status == 403, said
    waiting = office.expect(200, "GET", "/api/approvals")["approvals"]
    (asked,) = [each["id"] for each in waiting if f".{tool}@" in each["tool"]]
    window = console(office)
    window.page.clock.install()
    return window.open(f"#/approvals/{asked}"), asked


def test_arguments_come_whole_before_the_decision_and_hidden_characters_are_named(
    console: OpenConsole, new_hall: Office
) -> None:
    """Of the longest question, with characters that cannot be seen and one that poses as another."""
    text = '{\n  "ship": "B\u0430rge\u200b \u202egnp",\n  "why": "' + "long " * 2_000 + 'END"\n}'
    window = console(new_hall)
    Stage(window, change=lambda path, value: _with_question(path, value, shown=text))
    window.open("#/approvals/a_81c00001")
    shown = window.page.locator("pre.exact")
    for mark in ("<U+0430>", "<U+200B>", "<U+202E>", "END"):
        expect(shown).to_contain_text(mark)
    assert window.page.evaluate(_WHOLE), "nothing of it is cut or scrolls in itself"
    expect(window.find("note")).to_contain_text(re.compile("U[+]0430.*U[+]200B.*U[+]202E"))
    for decision in ("#approve-code", "button.danger"):
        assert window.page.evaluate(_AFTER, ["pre.exact", f".question {decision}"])


def test_nothing_can_be_approved_before_the_arguments_are_there(console: OpenConsole, new_hall: Office) -> None:
    """The question is still on its way: no field, no button."""
    window = console(new_hall)
    Stage(window)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    window.page.context.route("**/api/approvals*", hold)
    window.page.goto(f"{window.hall}/console/#/approvals/a_81c00001")
    window.heading.wait_for()
    window.page.wait_for_selector(".waiting", state="attached")
    expect(window.find("button", re.compile("Approve|Deny"))).to_have_count(0)
    expect(window.page.locator("#approve-code")).to_have_count(0)
    window.page.context.unroute("**/api/approvals*")
    for each in held:
        each.fallback()
    expect(window.find("button", "Approve by code")).to_have_count(1)


def test_question_that_expires_while_it_is_open_cannot_be_approved(console: OpenConsole, gate: Office) -> None:
    window, _ = open_question(console, gate, "close_harbour", harbour="Leith")
    expect(window.find("button", "Deny")).to_be_visible()
    window.page.clock.fast_forward(FIVE_MINUTES_MS)
    expect(window.find("button", re.compile("Approve|Deny"))).to_have_count(0)
    expect(window.find("status").filter(has_text=re.compile("time|end", re.IGNORECASE)).first).to_be_visible()


def test_question_that_changes_while_it_is_open_cannot_be_approved(console: OpenConsole, new_hall: Office) -> None:
    """No hall changes a question; if it did, the screen would not decide about what it does not show."""
    window = console(new_hall)
    changed: list[bool] = []

    def change(path: str, value: Any) -> Any:
        return _with_question(path, value, shownSha256="2" * 64 if changed else "1" * 64)

    Stage(window, change=change, ticking=True)
    window.open("#/approvals/a_81c00001")
    expect(window.find("button", "Approve by code")).to_have_count(1)
    changed.append(True)
    window.page.clock.fast_forward(31_000)
    expect(window.find("button", re.compile("Approve|Deny"))).to_have_count(0)
    expect(window.page.locator(".question")).to_contain_text(re.compile("changed", re.IGNORECASE))


def test_question_that_was_decided_elsewhere_cannot_be_approved(console: OpenConsole, gate: Office) -> None:
    window, asked = open_question(console, gate, "scrap", ship="Argo")
    expect(window.find("button", "Deny")).to_be_visible()
    gate.expect(200, "POST", f"/api/approvals/{asked}/deny", {})
    expect(window.find("button", re.compile("Approve|Deny"))).to_have_count(0)
    expect(window.page.locator(".question").get_by_role("status")).to_be_visible()


def _with_question(path: str, value: Any, **more: Any) -> Any:
    if path != "/api/approvals":
        return value
    first, *rest = value["approvals"]
    return {"approvals": [first | more, *rest]}
