"""`ConsoleWindow`: the console in a browser window, in which everything that goes wrong is noticed.

Violations of the policy, errors of the page and of its console, and requests to other hosts are in `wrong`; a test that
ends with any has failed. Waits are as patient as those of the other tests.
"""

import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Route, expect

from tests.harness.patience import patience

ROOT = Path(__file__).parents[2]
AXE = ROOT / "tools/node/node_modules/axe-core/axe.min.js"
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]
FOREIGN = re.compile(r"^(?!https?://(localhost|127\.0\.0\.1)[:/])(?!blob:|data:|about:)")
# What the browser's console says of an answer of 4xx or 503, which a test may have asked for.
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of (4\d\d|503)")
_POLL_MS = 20
_SEQUENCES = 5
_IS_SCREEN = "screen => location.hash.split(/[/?]/)[1] === screen"
_GO = """address => new Promise((then) => {
  if (location.hash === address) return then();
  addEventListener('hashchange', () => setTimeout(then), { once: true });
  location.hash = address;
})"""
_NOTICE_VIOLATIONS = """
addEventListener('securitypolicyviolation', (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`))
"""
_RUN_AXE = """tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']}).then(({violations}) =>
  violations.map(({id, nodes}) => [id, ...nodes.slice(0, 3).map((each) => `${each.html} ${each.failureSummary}`)]))"""
_WIDER_THAN_THE_WINDOW = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.querySelectorAll('body *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .filter((each) => !each.closest('.scroll, .json, pre, .tabs'))
    .map((each) => `${each.tagName}.${each.className}`)
    .slice(0, 5)"""
_LOAD_FONTS = """async () => {
  await Promise.all(['16px Inter', '16px "JetBrains Mono"'].map((each) => document.fonts.load(each)));
  await new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(then)));
}"""
_IS_FOCUS_VISIBLE = """() => {
  const marked = (each) => each && getComputedStyle(each).outlineStyle !== 'none';
  const focused = document.activeElement;
  return marked(focused) || marked(focused?.closest(':focus-within'))
    || focused?.matches('h1, main, dialog') || focused?.closest('.find, .filters') !== null;
}"""
# A message of the pseudo-language stands in brackets; names and texts of programs are in elements that say so.
_ENGLISH = r"""() => {
  const foreign = 'bdi, code, pre, kbd, .json, .brand, .whoami, time, .num, .mono, .type, [data-foreign], noscript';
  const block = 'p, li, dt, dd, h1, h2, h3, a, button, label, td, th, span, div';
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (!/\p{L}{2,}/u.test(data) || parentElement.closest(foreign)) continue;
    if (!parentElement.closest(block)?.textContent.includes('\u27e6')) found.push(data.trim());
  }
  return found;
}"""


class Look(NamedTuple):
    """A colour scheme and a width."""

    scheme: str
    width: int

    @property
    def options(self) -> dict[str, Any]:
        """Options of a browser context."""
        height = 1000 if self.width > 832 else 844
        return {
            "color_scheme": self.scheme,
            "viewport": {"width": self.width, "height": height},
            "reduced_motion": "reduce",
        }


LOOKS = [Look(scheme, width) for scheme in ("light", "dark") for width in (1440, 390)]


class ConsoleWindow:
    """A window of its own, with the console of one hall."""

    def __init__(self, context: BrowserContext, hall: str) -> None:
        self.hall = hall.rstrip("/")
        self.wrong: list[str] = []
        self.requests: list[tuple[str, str]] = []  # method and URL of everything that was asked
        self.may_be_refused = False
        context.set_default_timeout(1_000 * patience())
        context.add_init_script(_NOTICE_VIOLATIONS)
        context.route(FOREIGN, self._stop_foreign)
        self.page: Page = context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(f"page: {error}"))
        self.page.on("console", self._hear)
        self.page.on("request", lambda request: self.requests.append((request.method, request.url)))

    def open(self, address: str = "#/", language: str | None = None) -> "ConsoleWindow":
        """Open an address of the console such as `#/calls?outcome=failed`, and wait until it has settled."""
        query = f"?lang={language}" if language else ""
        self.page.goto(f"{self.hall}/console/{query}{address}")
        return self.settled()

    def go(self, address: str) -> "ConsoleWindow":
        """Go to another address as a link does, without loading the page again."""
        self.page.evaluate(_GO, address)  # until the console has followed: the screen before it has settled long ago
        return self.settled()

    def go_by_keys(self, keys: str, screen: str) -> "ConsoleWindow":
        """Go by a sequence of keys such as `gc` to the screen of this name."""
        for _ in range(_SEQUENCES):  # between two keys a busy machine may take longer than a sequence may last
            self.press(*keys)
            if self.page.evaluate(_IS_SCREEN, screen):
                break
        self.wait(_IS_SCREEN, screen)
        return self.settled()

    def settled(self) -> "ConsoleWindow":
        """Wait until the screen has its head, and nothing on it still loads."""
        self.page.locator("main h1").first.wait_for()
        self.wait("!document.querySelector('.waiting')")
        return self

    def wait(self, condition: str, argument: Any = None) -> None:
        """Wait until a condition in JavaScript holds; asked from here, as the policy lets the page evaluate nothing."""
        deadline = time.monotonic() + patience()
        while not self.page.evaluate(condition, argument):
            assert time.monotonic() < deadline, f"never came: {condition} {argument or ''}"
            self.page.wait_for_timeout(_POLL_MS)

    @property
    def heading(self) -> Locator:
        """The head of the screen."""
        return self.page.locator("main h1")

    def find(self, role: Any, name: str | re.Pattern[str] | None = None, *, exact: bool = False) -> Locator:
        """What has a role and a name, as a screen reader finds it."""
        return self.page.get_by_role(role) if name is None else self.page.get_by_role(role, name=name, exact=exact)

    def shows(self, text: str | re.Pattern[str]) -> None:
        """Wait until the screen shows a text."""
        expect(self.page.locator("main")).to_contain_text(text, timeout=1_000 * patience())

    def press(self, *keys: str) -> "ConsoleWindow":
        """Press keys one after the other: `press("g", "c")`, `press("Control+k")`."""
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def write(self, text: str) -> "ConsoleWindow":
        """Type a text where the focus is."""
        self.page.keyboard.type(text)
        return self

    @property
    def focused(self) -> Locator:
        """What has the focus."""
        return self.page.locator(":focus")

    def is_focus_visible(self) -> bool:
        """Whether what has the focus is marked by an outline, or holds a field that is."""
        return bool(self.page.evaluate(_IS_FOCUS_VISIBLE))

    def check(self) -> None:
        """Nothing is hard to use for anybody (axe), and nothing is wider than the window."""
        self.fonts()
        self.page.evaluate(_axe())
        found = self.page.evaluate(_RUN_AXE, AXE_TAGS)
        assert found == [], found
        wide = self.too_wide()
        assert wide == [], wide

    def too_wide(self) -> list[str]:
        """Elements that make the page wider than the window."""
        return list(self.page.evaluate(_WIDER_THAN_THE_WINDOW))

    def undescribed(self, paths: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """What was asked of the API that these paths of `/openapi.json` do not have."""
        asked = {(method, urlsplit(url).path) for method, url in self.requests if url.startswith(self.hall)}
        return sorted(
            f"{method} {path}"
            for method, path in asked
            if path.startswith("/api/") and described_operation(method, path, paths) is None
        )

    def fonts(self) -> None:
        """Wait until both fonts are loaded by name, and two frames have passed."""
        self.page.evaluate(_LOAD_FONTS)

    def english(self) -> list[str]:
        """Words in plain English that are visible in the pseudo-language, outside of what programs wrote."""
        return list(self.page.evaluate(_ENGLISH))

    def picture(self, path: Path) -> None:
        """Make a picture of the whole page."""
        self.fonts()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path, full_page=True, animations="disabled", caret="hide")

    def _stop_foreign(self, route: Route) -> None:
        self.wrong.append(f"foreign: {route.request.url}")
        route.abort()

    def _hear(self, said: ConsoleMessage) -> None:
        refused = REFUSED.search(said.text)
        if said.type == "error" and not (refused and self.may_be_refused):
            self.wrong.append(f"console: {said.text} {said.location['url']}")


def described_operation(method: str, path: str, paths: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the described path of a request; None if there is none, or not with this method."""
    if path in paths:
        return path if method.lower() in paths[path] else None
    for described, item in paths.items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(described))
        if re.fullmatch(pattern, path) and method.lower() in item:
            return described
    return None


@cache
def _axe() -> str:
    assert AXE.exists(), "axe-core is missing; install it with 'make setup'"
    return AXE.read_text()
