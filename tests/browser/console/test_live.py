"""The live list of calls loses none, stands still while it is read, and leaves the page usable (C11)."""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office
from tests.harness.console_window import ConsoleWindow
from tests.harness.patience import patience
from tests.harness.seeds import count, runs_everything

pytestmark = pytest.mark.timeout(600)
A_SECOND = 200
SECONDS = count(default=3, full=30)
MOST_ROWS = 100
ANSWER_MS = 100
# How long it takes from a key until what it wrote is drawn, ten times.
_ANSWERS = """async () => {
  const field = document.querySelector('.filters input');
  const taken = [];
  for (let turn = 0; turn < 10; turn++) {
    const began = performance.now();
    field.value = 'x'.repeat(turn);
    field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    await new Promise((then) => requestAnimationFrame(() => setTimeout(then)));
    taken.push(performance.now() - began);
  }
  return taken.sort((one, other) => one - other)[5];
}"""


def test_live_list_has_every_call_and_stands_still_while_it_is_read(console: OpenConsole, new_hall: Office) -> None:
    new_hall.make_key("crowd")
    window = console(new_hall).open("#/calls?caller=crowd")
    with calls(new_hall, A_SECOND * SECONDS, seconds=SECONDS):
        wait_for_rows(window, 10)
        answered = window.page.evaluate(_ANSWERS)
        assert window.find("row").count() <= MOST_ROWS
        window.page.locator("main h1").focus()
        window.press("p")
        expect(window.find("button", "Go on")).to_be_visible()
        before = shown(window)
        expect(window.find("button", "new")).to_be_visible()
        assert shown(window) == before, "a list that is paused does not move"
        window.press("p")
    wait_for_rows(window, A_SECOND * SECONDS)
    recorded = len(records(new_hall))
    assert recorded == A_SECOND * SECONDS
    wait_for_rows(window, recorded)
    if runs_everything():
        assert answered < ANSWER_MS, f"an input was answered in {answered:.0f} ms (median of ten)"


@contextmanager
def calls(office: Office, number: int, seconds: float) -> Generator[None]:
    """Call a tool so often over so many seconds, or as fast as it goes; all have ended at the end of the block."""
    wrong: list[object] = []

    def run() -> None:
        connection = HTTPConnection(urlsplit(office.url).netloc.replace("localhost", "127.0.0.1"), timeout=patience())
        headers = {"Authorization": f"Bearer {office.keys['crowd']}", "Content-Type": "application/json"}
        began = time.monotonic()
        try:
            for place in range(number):
                time.sleep(max(0.0, began + place * seconds / number - time.monotonic()))
                connection.request("POST", "/tools/Calculator/Add", b'{"a": 1, "b": 2}', headers)
                reply = connection.getresponse()
                reply.read()
                if reply.status != 200:
                    wrong.append(reply.status)
        except OSError as error:
            wrong.append(error)
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert wrong == []


def records(office: Office) -> list[str]:
    """The calls of the crowd as the audit has them."""
    found: list[str] = []
    cursor = ""
    while True:
        page = office.expect(200, "GET", f"/api/audit?caller=crowd&limit=1000{cursor}")
        found += [each["call"] for each in page["records"]]
        if "nextCursor" not in page:
            return sorted(set(found))
        cursor = f"&cursor={page['nextCursor']}"


def wait_for_rows(window: ConsoleWindow, number: int) -> None:
    """Wait until the list has so many rows, those that are not in the document included."""
    window.wait("number => Number(document.querySelector('table.calls')?.ariaRowCount ?? 1) - 1 >= number", number)


def shown(window: ConsoleWindow) -> tuple[str | None, str]:
    """How many rows the list has, and the first of them."""
    table = window.page.locator("table.calls")
    return table.get_attribute("aria-rowcount"), table.locator("tbody tr:not(.gap)").first.inner_text()
