"""C6: what the first screen asks for and receives, and how large all files of the console are."""

from typing import Any

import pytest
from playwright.sync_api import CDPSession

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office
from tests.harness.console_window import ROOT, ConsoleWindow

pytestmark = pytest.mark.timeout(300)
MAX_BYTES = 130_000  # transferred for the first screen, with the heads of the answers
MAX_REQUESTS = 12
MAX_PACKED_BYTES = 200_000
MAX_WHEEL_BYTES = 250_000


class Traffic:
    """What a window asks for, and the bytes that it receives, as Chromium counts them; each address counts once."""

    def __init__(self, window: ConsoleWindow) -> None:
        session: CDPSession = window.page.context.new_cdp_session(window.page)
        self.bytes: dict[str, float] = {}  # by URL
        self._urls: dict[str, str] = {}
        session.on("Network.requestWillBeSent", self._asked)
        session.on("Network.responseReceived", self._began)
        session.on("Network.loadingFinished", self._finished)
        session.send("Network.enable")

    def _asked(self, event: dict[str, Any]) -> None:
        self._urls[event["requestId"]] = event["request"]["url"]
        self.bytes.setdefault(event["request"]["url"], 0)

    def _began(self, event: dict[str, Any]) -> None:
        self._add(event["requestId"], event["response"]["encodedDataLength"])

    def _finished(self, event: dict[str, Any]) -> None:
        self._add(event["requestId"], event["encodedDataLength"])

    def _add(self, request: str, received: float) -> None:
        if url := self._urls.get(request):
            self.bytes[url] = max(self.bytes[url], received)


def first_screen(window: ConsoleWindow, shows: str) -> Traffic:
    """Open the first screen; its traffic until nothing on it loads."""
    traffic = Traffic(window)
    window.open("#/")
    window.shows(shows)
    window.page.wait_for_load_state("networkidle")  # the browser tells of its traffic later than of the page
    return traffic


def test_the_first_run_is_there_after_few_requests_and_bytes(console: OpenConsole, new_hall: Office) -> None:
    traffic = first_screen(console(hall=new_hall), "Your tools")
    assert 100_000 < sum(traffic.bytes.values()) <= MAX_BYTES, traffic.bytes
    assert len(traffic.bytes) <= MAX_REQUESTS, list(traffic.bytes)


def test_the_overview_is_there_after_few_requests_and_bytes(console: OpenConsole) -> None:
    traffic = first_screen(console(), "How far")
    assert 90_000 < sum(traffic.bytes.values()) <= MAX_BYTES, traffic.bytes
    assert len(traffic.bytes) <= MAX_REQUESTS, list(traffic.bytes)


def test_all_files_keep_to_their_budget() -> None:
    folder = ROOT / "src/toolhall/console"
    sizes = {each.relative_to(folder): each.stat().st_size for each in folder.rglob("*") if each.is_file()}
    assert 0 < sum(size for path, size in sizes.items() if path.suffix != ".br") <= MAX_PACKED_BYTES
    heads = sum(100 + 2 * len(str(path)) for path in sizes)  # of the entries in the wheel, which packs nothing further
    assert sum(sizes.values()) + heads <= MAX_WHEEL_BYTES


def test_what_every_visit_loads_comes_as_brotli(console: OpenConsole) -> None:
    window = console()
    came: dict[str, str | None] = {}
    window.page.on("response", lambda reply: came.update({reply.url: reply.header_value("content-encoding")}))
    window.open("#/")
    texts = {url: encoding for url, encoding in came.items() if url.endswith(("/console/", "first.js", "style.css"))}
    assert list(texts.values()) == ["br"] * 3, came
