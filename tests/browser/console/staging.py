"""`Stage`: answers what a window of the console asks with the scene, or with answers made from it."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from playwright.sync_api import Request, Route

from tests.browser.console.scene import BELOW, SCENE, TOKEN, check
from tests.browser.console.scene_tools import NOW
from tests.harness.console_window import ConsoleWindow

Change = Callable[[str, Any], Any]
NOTHING = (404, {"error": {"code": "not_found", "message": "the scene has nothing here"}})
BROKEN = (503, {"error": {"code": "unavailable", "message": "the store cannot be read"}})
# Asked of the hall itself: the page, and the stream of events, in which nothing happens.
_REAL = ("/console/", "/api/events")
_STAGED = ("/api/", "/health", "/tools")


def answer(method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
    """Return what the scene answers, with its status."""
    if (method, path) == ("POST", "/api/check"):
        return 200, check(body)
    if (method, path) == ("POST", "/api/me/token"):
        return 200, TOKEN
    if method != "GET":
        return NOTHING
    if path in SCENE:
        found = SCENE[path]
        return 200, found(query) if callable(found) else found
    start, _, rest = path.removeprefix("/api/").partition("/")
    named, _, below = rest.partition("/")
    found = BELOW.get(f"/api/{start}/{{}}" + (f"/{below}" if below else ""))
    try:
        return (200, found(unquote(named))) if found else NOTHING
    except (KeyError, StopIteration):
        return NOTHING


class Stage:
    """Where the scene plays for one window: the real page, answers that never differ, and a clock that stands."""

    def __init__(
        self, window: ConsoleWindow, *, change: Change | None = None, broken: bool = False, ticking: bool = False
    ) -> None:
        self._change = change
        self._broken = broken
        window.may_be_refused = True
        window.page.context.route(lambda url: urlsplit(url).path.startswith(_STAGED), self._answer)
        if ticking:
            window.page.clock.install(time=NOW)
        else:
            window.page.clock.set_fixed_time(NOW)

    def _answer(self, route: Route, request: Request) -> None:
        address = urlsplit(request.url)
        if address.path.startswith(_REAL):
            route.continue_()
            return
        query = dict(parse_qsl(address.query))
        said = json.loads(request.post_data) if request.post_data else None
        status, value = answer(request.method, address.path, query, said)
        if self._broken and address.path != "/api/me":
            status, value = BROKEN
        if self._change is not None and status == 200:
            value = self._change(address.path, value)
        route.fulfill(status=status, json=value)


def texts_changed(value: Any, change: Callable[[str], str], keys: frozenset[str]) -> Any:
    """Return the value with the texts below these keys changed."""
    if isinstance(value, list):
        return [texts_changed(each, change, keys) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _changed(each, change) if key in keys else texts_changed(each, change, keys) for key, each in value.items()
    }


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    return [_changed(each, change) for each in value] if isinstance(value, list) else value
