"""The office whose console is tested, and windows with it: what goes wrong in one fails its test."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.console.office import Office, opened
from tests.harness.console_window import ConsoleWindow, Look
from tests.harness.patience import patience
from toolhall.web.static_files import packaged_files

# Every request of a window must be one of these (C20).
DESCRIBED = json.loads((Path(__file__).parents[2] / "golden/openapi.json").read_text())["paths"]
OpenConsole = Callable[..., ConsoleWindow]


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A hall that all tests share: they may add to it, and must not count what others add."""
    with opened(tmp_path_factory.mktemp("office")) as hall:
        yield hall


@pytest.fixture(scope="module")
def new_hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A hall that was never called, for one module."""
    with opened(tmp_path_factory.mktemp("new"), filled=False) as hall:
        yield hall


@pytest.fixture
def console(chromium: Browser, office: Office) -> Iterator[OpenConsole]:
    """Opens windows: `console()` of the office, `console(hall=new_hall, look=Look("dark", 390))`."""
    assert packaged_files().shell is not None, "the console is not built; build it with 'make console'"
    expect.set_options(timeout=1_000 * patience())
    windows: list[ConsoleWindow] = []
    contexts = []

    def open_console(hall: Office | None = None, look: Look | None = None, **options: Any) -> ConsoleWindow:
        context = chromium.new_context(**(look or Look("light", 1440)).options, **options)
        contexts.append(context)
        windows.append(ConsoleWindow(context, (hall or office).url))
        return windows[-1]

    yield open_console
    wrong = [each for window in windows for each in window.wrong]
    wrong += [each for window in windows for each in window.undescribed(DESCRIBED)]
    for context in contexts:
        context.close()
    assert wrong == []
