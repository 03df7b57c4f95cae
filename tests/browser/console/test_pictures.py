"""Pictures of every screen for the documentation: the scene at its time, in both schemes, wide and narrow (C24).

`make console-pictures` writes them into docs/pictures. Two browsers make the same bytes; by default, of a few.
"""

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.browser.conftest import FLAGS
from tests.browser.console.office import Office
from tests.browser.console.staging import Stage
from tests.browser.console.test_screens import SCREENS
from tests.harness.console_window import LOOKS, ConsoleWindow, Look
from tests.harness.patience import patience
from tests.harness.seeds import runs_everything

pytestmark = pytest.mark.timeout(900)
FOLDER = os.environ.get("TOOLHALL_PICTURES")
# Letters and colours that do not depend on the machine's settings.
SAME_PIXELS = ["--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"]
QUALITY = 70
HEIGHTS = {1440: (900, 1_500), 390: (844, 2_200)}
PAUSE_MS = 150
STILL = 3  # pictures that are the same one after the other
PAGES = SCREENS | {
    "first-run": "#/",
    "tools": "#/tools",
    "try": "#/tools/Harbour.open_lock@1.1.0/try",
    "definition": "#/tools/Mail.search@3.0.0/definition",
    "dialects": "#/tools/Mail.search@3.0.0/dialects",
    "versions": "#/tools/Mail.search@3.0.0/versions",
    "callers-of-tool": "#/tools/Mail.search@3.0.0/callers",
    "history": "#/tools/Mail.search@3.0.0/history",
}
TRIED = {"approvals": LOOKS[2], "matrix": LOOKS[1]}
NAMED = [(name, look) for name in PAGES for look in LOOKS]
SHOWN = NAMED if FOLDER or runs_everything() else list(TRIED.items())


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Gone before the next module's tests: while it is there, its event loop runs in this thread."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browsers(playwright: Playwright) -> Iterator[list[Browser]]:
    """Two of them, started one after the other."""
    path = shutil.which("chromium")
    both = [playwright.chromium.launch(executable_path=path, args=[*FLAGS, *SAME_PIXELS]) for _ in range(2)]
    yield both
    for each in both:
        each.close()


@pytest.mark.parametrize(("name", "look"), SHOWN, ids=str)
def test_picture_is_the_same_in_two_browsers(browsers: list[Browser], new_hall: Office, name: str, look: Look) -> None:
    first, second = [picture(browser, new_hall, name, look) for browser in browsers]
    assert first == second
    if FOLDER:
        target = Path(FOLDER) / f"{name}-{look.scheme}-{look.width}.webp"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(first)


def picture(browser: Browser, hall: Office, name: str, look: Look) -> bytes:
    """Return the screen as a WebP, as high as what it shows within bounds."""
    context = browser.new_context(**look.options, locale="en-US", timezone_id="UTC")
    window = ConsoleWindow(context, hall.url)
    Stage(window, change=_before_the_first_call if name == "first-run" else None)
    window.open(PAGES[name])
    window.page.locator("nav .count").first.wait_for(state="attached")
    window.page.wait_for_load_state("networkidle")  # badges of tabs come later than what they lead to
    least, most = HEIGHTS[look.width]
    high = int(window.page.evaluate("document.documentElement.scrollHeight"))
    window.page.set_viewport_size({"width": look.width, "height": min(max(high, least), most)})
    window.page.evaluate("document.activeElement?.blur()")  # or the caret blinks
    window.fonts()
    shot = stable(window)
    assert window.wrong == []
    context.close()
    return shot


def stable(window: ConsoleWindow) -> bytes:
    """Take the picture until nothing changes any more."""
    session = window.page.context.new_cdp_session(window.page)
    taken: list[str] = []
    for _ in range(int(patience() * 1_000 / PAUSE_MS)):
        taken.append(session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})["data"])
        if len(taken) >= STILL and len(set(taken[-STILL:])) == 1:
            return base64.b64decode(taken[-1])
        window.page.wait_for_timeout(PAUSE_MS)
    raise AssertionError("the screen never stands still")


def _before_the_first_call(path: str, value: Any) -> Any:
    return value | {"firstRun": True} if path == "/api/me" else value
