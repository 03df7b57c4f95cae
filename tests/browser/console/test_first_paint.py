"""C6: how long the first screens take to their largest paint, beside an empty page of the same run."""

import statistics
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office
from tests.harness.lateness import measured_lateness
from tests.harness.seeds import count

pytestmark = pytest.mark.timeout(600)
ROUNDS = count(default=5, full=15)
MOST = 5  # times an empty page
COMPUTED = 0.1  # seconds of processor time, about, that the console takes until its largest paint
EMPTY = b'<!doctype html><html lang="en"><title>empty</title><p>empty</p></html>'
# The largest paint so far, as soon as there is one that nothing follows within two frames.
_LARGEST_PAINT = """() => new Promise((then) => new PerformanceObserver((list) => {
  const { startTime } = list.getEntries().at(-1);
  requestAnimationFrame(() => requestAnimationFrame(() => then(startTime)));
}).observe({ type: 'largest-contentful-paint', buffered: true }))"""


@pytest.fixture
def empty_page() -> Iterator[str]:
    """The address of a server that has nothing but an empty page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(EMPTY)))
            self.end_headers()
            self.wfile.write(EMPTY)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("screen", ["overview", "first run"])
def test_first_screen_is_painted_soon(
    console: OpenConsole, office: Office, new_hall: Office, empty_page: str, screen: str
) -> None:
    """Each in a window that knows nothing yet, in turns; without what a busy machine makes the console wait."""
    hall, shown = (office, "How far") if screen == "overview" else (new_hall, "Your tools")
    empty: list[float] = []
    rounds: list[tuple[float, float, float]] = []  # when it was opened and shown, and milliseconds to the paint
    with measured_lateness() as lateness:
        for _ in range(ROUNDS):
            window = console(hall)
            window.page.goto(empty_page)
            empty.append(window.page.evaluate(_LARGEST_PAINT))
            window.page.context.close()
            opened_at = time.monotonic()
            window = console(hall).open("#/")
            window.shows(shown)
            shown_at = time.monotonic()
            rounds.append((opened_at, shown_at, window.page.evaluate(_LARGEST_PAINT)))
            window.page.context.close()
    taken = [paint - 1_000 * lateness.late(COMPUTED, opened_at, shown_at) for opened_at, shown_at, paint in rounds]
    assert statistics.median(taken) <= MOST * statistics.median(empty), (rounds, taken, empty)
