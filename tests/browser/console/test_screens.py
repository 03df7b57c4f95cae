"""Every screen in every look and state: usable by everybody, in words of the message file, safe from hostile texts."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office
from tests.browser.console.scene_calls import DENIED
from tests.browser.console.staging import Stage, texts_changed
from tests.harness.console_window import LOOKS, ConsoleWindow, Look
from tests.harness.patience import patience
from tests.harness.seeds import runs_everything

pytestmark = pytest.mark.timeout(300)
# The screens that are not tried by the tests of tools, with what is open on them.
SCREENS = {
    "overview": "#/",
    "resources": "#/resources",
    "prompts": "#/prompts",
    "try-resource": "#/resources/Harbour.ship@1.1.0/try",
    "try-prompt": "#/prompts/Harbour.plan_day@1.1.0/try",
    "calls": "#/calls",
    "call": f"#/calls/{DENIED['call']}",
    "tasks": "#/tasks",
    "task": "#/tasks/t_5c0de0002",
    "approvals": "#/approvals/a_81c00001",
    "decided": "#/approvals/a_81c00005?show=decided",
    "callers": "#/callers",
    "caller": "#/callers/ci",
    "make-key": "#/callers?new=key",
    "grants": "#/grants",
    "matrix": "#/grants/matrix",
    "why": "#/grants/why?caller=ci&tool=Harbour.open_lock@1.1.0",
    "new-grant": "#/grants/new",
    "secrets": "#/secrets",
    "accounts": "#/accounts",
    "servers": "#/servers/depot",
    "upstreams": "#/upstreams/Charts",
    "contracts": "#/contracts",
    "review": "#/review/Weather.forecast@0.9.0",
    "limits": "#/limits",
    "health": "#/health",
    "settings": "#/settings",
}
# Screens with lists, by the answers that can be empty or broken.
OPEN = {"call", "task", "decided", "caller", "make-key", "why", "new-grant"}
LISTS = [name for name in SCREENS if name not in OPEN]
HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(1)</script> \u202egnp.exe\u202c p\u0430ypal\u200b "
    "[link](javascript:alert(1)) &lt;b&gt; " + "w" * 10_000
)
# Members of answers that callers, people, tools, tool servers and definitions fill.
OF_PEOPLE = {"actingFor", "by", "caller", "callers", "message", "owner", "person", "reason", "user", "words", "fix"}
OF_TOOLS = {
    "after",
    "before",
    "description",
    "path",
    "scopes",
    "shown",
    "tags",
    "title",
    "tool",
    "tools",
    "usedBy",
    "questions",
}
OF_HALLS = {
    "address",
    "displayName",
    "target",
    "key",
    "originDetail",
    "providerName",
    "server",
    "toolkit",
    "toolkits",
    "version",
}
FOREIGN = frozenset(OF_PEOPLE | OF_TOOLS | OF_HALLS | {"what", "where", "mimeType", "uri", "questions"})


def shown_in(look: Look) -> list[str]:
    """Return the screens to look at: by default, each once in each scheme and once at each width."""
    half = LOOKS.index(look) in (0, 3)
    return [name for place, name in enumerate(SCREENS) if runs_everything() or half == (place % 2 == 0)]


_RAW = "() => /[\\u202a-\\u202e\\u2066-\\u2069\\u200b]/.test(document.querySelector('main').innerText)"


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_full_screens_are_usable_by_everybody(console: OpenConsole, new_hall: Office, look: Look) -> None:
    window = console(new_hall, look)
    Stage(window)
    window.open(SCREENS["calls"])
    for name in shown_in(look):
        window.go(SCREENS[name])
        check(window, name)


@pytest.mark.parametrize("look", LOOKS if runs_everything() else LOOKS[:1], ids=str)
def test_screens_without_data_say_why(console: OpenConsole, new_hall: Office, look: Look) -> None:
    """The hall is a real one that was never called; its tools are all it has."""
    window = console(new_hall, look).open("#/calls")
    window.may_be_refused = True  # what the address names is not there
    for name in LISTS:
        window.go(SCREENS[name])
        check(window, name)


@pytest.mark.parametrize("look", LOOKS if runs_everything() else LOOKS[3:], ids=str)
def test_screens_whose_answers_fail_say_so(console: OpenConsole, new_hall: Office, look: Look) -> None:
    window = console(new_hall, look)
    Stage(window, broken=True)
    window.open(SCREENS["calls"])
    for name in LISTS:
        window.go(SCREENS[name])
        expect(window.page.get_by_role("alert").first).to_contain_text(
            "the store cannot be read", timeout=1_000 * patience()
        )
        expect(window.find("button", "Try again").first).to_be_visible()
        check(window, name)


@pytest.mark.parametrize("width", [1440, 390])
def test_hostile_texts_stay_texts_on_every_screen(console: OpenConsole, new_hall: Office, width: int) -> None:
    """Tags, scripts, links, marks of direction, look-alikes and ten thousand letters, wherever a text is foreign."""
    window = console(new_hall, Look("light", width))
    Stage(window, change=_hostile)
    window.page.on("dialog", lambda dialog: window.wrong.append(f"dialog: {dialog.message}"))
    window.open(SCREENS["calls"])
    for name, address in SCREENS.items():
        window.go(address)
        assert window.page.locator("main :is(img, script, iframe), main a[href^='javascript']").count() == 0, name
        assert not window.page.evaluate(_RAW), name
        assert window.too_wide() == [], name
        expect(window.page.locator("main h1")).not_to_have_text(re.compile("broke"))
    window.go(SCREENS["approvals"])
    expect(window.page.locator("main")).to_contain_text("<U+202E>gnp.exe<U+202C>")
    expect(window.page.locator("main")).to_contain_text("<script>alert(1)</script>")


@pytest.mark.parametrize("language", ["pseudo", "pseudo-rtl"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_english_word_is_left_on_any_screen(
    console: OpenConsole, new_hall: Office, language: str, width: int
) -> None:
    window = console(new_hall, Look("light", width))
    Stage(window)
    window.open(SCREENS["calls"], language)
    found = {}
    for name, address in SCREENS.items():
        window.go(address)
        found[name] = (window.english(), window.too_wide())
    assert found == {name: ([], []) for name in SCREENS}


def check(window: ConsoleWindow, name: str) -> None:
    """The screen is usable by everybody; its name stands in what is said otherwise."""
    try:
        window.check()
    except AssertionError as found:
        raise AssertionError(name, *found.args) from None


def _hostile(path: str, value: Any) -> Any:
    if path == "/api/me":
        return value
    return texts_changed(value, lambda text: f"{text} {HOSTILE}", FOREIGN)
