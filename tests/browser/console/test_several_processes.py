"""A hall of two processes: the console shows the calls of both, and says where it knows of one only (C17)."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office, opened
from tests.browser.console.test_frame import made_key, signed_in
from tests.harness.patience import patience

CALL = "/tools/Calculator/Add"
AT_ONCE = 8  # each on a connection of its own: which process accepts it is the system's choice


def call_both(hall: Office, key: str) -> int:
    """Call until both processes had some; how many calls it took."""
    rounds, deadline = 0, time.monotonic() + patience()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while len(logs_of_calls(hall, key)) < 2:
            assert time.monotonic() < deadline
            calls = [pool.submit(hall.ask, "POST", CALL, {"a": 40, "b": 2}, key) for _ in range(AT_ONCE)]
            assert {each.result()[0] for each in calls} == {200}
            rounds += 1
    return rounds * AT_ONCE


def logs_of_calls(hall: Office, key: str) -> set[str]:
    """The logs that have calls; each process has one of its own."""
    return {each["log"] for each in hall.expect(200, "GET", "/api/audit?tool=*Add*", key=key)["records"]}


def test_console_of_two_processes_shows_all_calls_and_says_what_only_one_of_them_knows(
    console: OpenConsole, tmp_path: Path
) -> None:
    """Signed in at one of them; every request of the window may be answered by the other."""
    boss = made_key(tmp_path, "boss", "--scopes", "admin,tools:*")
    with opened(tmp_path, filled=False, profile="server", workers=2) as hall:
        window = signed_in(console(hall=hall), boss)
        window.go("#/calls?tool=Calculator.Add")
        window.shows("No call matches this filter")
        calls = call_both(hall, boss)
        table = window.page.locator("table.calls")
        expect(table).to_have_attribute("aria-rowcount", str(calls + 1))  # they came over the stream of events
        for screen in ("", "health", "limits"):
            window.go(f"#/{screen}")
            window.shows("1 of 2 processes")
            window.check()
