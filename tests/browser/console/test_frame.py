"""The frame of the console: its policy, its looks, its keys, Find, preferences, and what a person may not see."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office, opened
from tests.browser.console.scene_calls import DENIED
from tests.browser.console.staging import Stage
from tests.harness.console_window import LOOKS, ConsoleWindow, Look
from tests.harness.server_process import toolhall

pytestmark = pytest.mark.timeout(300)
# A screen without data of its own: the frame alone.
BARE = "#/no-such-screen"
RESULT = "section[aria-labelledby=result-title]"
PRESS_AT_ONCE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(%s)) return;
  observer.disconnect();
  document.body.dispatchEvent(new KeyboardEvent('keydown', %s));
}).observe(document, { childList: true, subtree: true })
"""


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_frame_is_usable_by_everybody(console: OpenConsole, look: Look) -> None:
    window = console(look=look).open(BARE)
    window.check()


def test_the_policy_is_strict_and_scripts_cannot_make_markup(console: OpenConsole) -> None:
    window = console().open(BARE)
    answer = window.page.request.get(f"{window.hall}/console/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "nonce" not in policy
    assert "trusted-types 'none'" in policy
    refused = window.page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return false } catch { return true } }"
    )
    assert refused
    assert window.wrong, "the harness notices a violation"
    window.wrong.clear()


@pytest.mark.parametrize(
    ("keys", "screen"),
    [("gt", "tools"), ("gc", "calls"), ("ga", "approvals"), ("go", "")],
    ids=lambda each: each,
)
def test_g_and_a_letter_go_to_a_screen(console: OpenConsole, keys: str, screen: str) -> None:
    window = console().open(BARE)
    window.go_by_keys(keys, screen)
    expect(window.heading).to_be_focused()


@pytest.mark.parametrize(
    ("address", "shown", "key", "outcome"),
    [
        (BARE, "main h1", {"key": "?"}, "dialog[open]"),
        ("#/tools", "input[type=search]", {"key": "e"}, "input[type=search]:focus"),
        ("#/calls", ".filters input", {"key": "e"}, ".filters input:focus"),
        ("#/tools/Strange.echo@0.1.0/try", RESULT, {"key": "Enter", "ctrlKey": True}, f"{RESULT} header .chip"),
    ],
    ids=lambda each: each if str(each).startswith("#") else "",
)
def test_a_key_that_comes_with_its_screen_is_not_lost(
    console: OpenConsole, address: str, shown: str, key: dict[str, Any], outcome: str
) -> None:
    """Pressed by a script as soon as the document holds the screen, before the browser paints it."""
    window = console()
    window.may_be_refused = True
    window.page.add_init_script(PRESS_AT_ONCE % (json.dumps(shown), json.dumps({**key, "bubbles": True})))
    window.open(address)
    expect(window.page.locator(outcome)).to_be_visible()


def test_letters_can_be_turned_off_and_never_fire_in_fields(console: OpenConsole) -> None:
    window = console().open(BARE)
    window.press("/").find("combobox").wait_for()
    window.write("gc?")
    expect(window.find("combobox")).to_have_value("gc?")
    window.press("Escape")
    expect(window.find("dialog")).to_have_count(0)
    window.find("button", re.compile("preferences")).click()
    window.find("checkbox").uncheck()
    window.press("Escape", "g", "c", "?")
    assert window.page.evaluate("location.hash") == BARE
    expect(window.find("dialog")).to_have_count(0)
    window.press("Control+k")
    expect(window.find("dialog", "Find")).to_be_visible()


def test_question_mark_lists_the_keys_and_focus_comes_back(console: OpenConsole) -> None:
    window = console().open(BARE)
    link = window.find("link", "Go to the Overview")
    link.focus()
    window.press("?")
    dialog = window.find("dialog", "Keys of the keyboard")
    expect(dialog).to_contain_text("go to Calls")
    window.press("Escape")
    expect(link).to_be_focused()


def test_find_finds_screens_tools_callers_and_calls(console: OpenConsole, office: Office) -> None:
    window = console().open(BARE)
    window.press("Control+k")
    window.write("get_tide")
    expect(window.find("option", re.compile("Harbour.get_tide"))).to_be_visible()
    window.press("Enter")
    window.wait("location.hash.startsWith('#/tools/Harbour.get_tide@')")
    (record,) = office.expect(200, "GET", "/api/audit?tool=Harbour.sink@*&limit=1")["records"]
    window.press("Escape", "Control+k")
    window.write(record["call"])
    expect(window.find("option", re.compile(record["call"]))).to_be_visible()
    window.press("Enter")
    window.wait("call => location.hash === '#/calls/' + call", record["call"])


def test_an_address_that_leads_nowhere_says_so(console: OpenConsole) -> None:
    window = console().open("#/nothing/here")
    window.shows("There is no such page")
    window.find("link", "Go to the Overview").click()
    window.wait("location.hash === '#/'")


def test_the_theme_is_kept(console: OpenConsole) -> None:
    window = console().open(BARE)
    window.find("button", re.compile("preferences")).click()
    window.find("radio", "Dark").check()
    assert window.page.evaluate("document.documentElement.dataset.theme") == "dark"
    window.page.reload()
    window.settled()
    assert window.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


@pytest.mark.parametrize("language", ["pseudo", "pseudo-rtl"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_word_of_the_frame_is_left_in_english(console: OpenConsole, language: str, width: int) -> None:
    window = console(look=Look("light", width)).open(BARE, language=language)
    assert window.english() == []
    assert window.page.evaluate("document.documentElement.dir") == ("rtl" if language == "pseudo-rtl" else "ltr")
    window.check()


def test_the_bottom_bar_has_the_other_screens(console: OpenConsole) -> None:
    window = console(look=Look("light", 390)).open(BARE)
    window.find("button", "More").click()
    window.find("navigation", "Console, short").get_by_role("link", name="Health").click()
    window.wait("location.hash === '#/health'")
    expect(window.find("button", "More")).to_have_attribute("aria-expanded", "false")


def test_who_signs_in_by_key_sees_their_part_and_signs_out(console: OpenConsole, tmp_path: Path) -> None:
    """The form of the console ends the session, and what is left is the way to sign in."""
    key = made_key(tmp_path, "ivan")
    with opened(tmp_path, filled=False, profile="server") as hall:
        window = signed_in(console(hall=hall), key)
        window.shows("See your calls")
        expect(window.find("link", "Grants", exact=True)).to_have_count(0)
        window.page.locator(".whoami button").click()
        window.find("button", "Sign out").click()
        window.page.wait_for_url("**/sign-in**")
        window.page.goto(f"{hall.url}/console/")
        expect(window.find("heading", "Sign in to this hall")).to_be_visible()


def test_session_that_ends_is_renewed_over_what_was_typed(console: OpenConsole, tmp_path: Path) -> None:
    """Its key is revoked: a dialog says so, and after signing in again in another tab one goes on."""
    first, second = made_key(tmp_path, "first"), made_key(tmp_path, "boss", "--scopes", "admin,tools:*")
    with opened(tmp_path, filled=False, profile="server") as hall:
        window = signed_in(console(hall=hall), first)
        window.go("#/tools/Calculator.Add@1.0.0/try")
        typed = window.page.get_by_label(re.compile("^a")).first
        typed.fill("40")
        (key,) = [each for each in hall.expect(200, "GET", "/api/keys", key=second)["keys"] if each["name"] == "first"]
        hall.expect(200, "DELETE", f"/api/keys/{key['id']}", key=second)
        window.press("Control+Enter")
        dialog = window.find("dialog", "Your session has ended")
        expect(dialog).to_be_visible()
        window.press("Escape")
        expect(dialog).to_be_visible()
        window.check()
        with window.page.context.expect_page() as opening:
            dialog.get_by_role("link", name="Sign in").click()
        other = opening.value
        other.locator("input[type=password]").fill(second)
        other.keyboard.press("Enter")
        other.wait_for_url("**/console/**")
        dialog.get_by_role("button").click()
        expect(dialog).to_have_count(0)
        expect(typed).to_have_value("40")


def test_missing_news_are_told_and_what_was_read_stays(console: OpenConsole, tmp_path: Path) -> None:
    with opened(tmp_path, filled=False) as hall:
        window = console(hall=hall).open("#/health")
        window.shows("Calculator")
    line = window.page.get_by_role("status").filter(has_text="No news from the hall since")
    expect(line).to_be_visible()
    window.shows("Calculator")
    window.check()
    window.wrong.clear()  # the browser says that nothing answers any more


@pytest.mark.parametrize("address", [f"#/calls/{DENIED['call']}", "#/approvals/a_81c00001"])
def test_what_is_chosen_is_printed_alone_on_one_page(console: OpenConsole, new_hall: Office, address: str) -> None:
    """Without the list that it was chosen from, the frame, and what only a screen can do."""
    window = console(new_hall)
    Stage(window)
    window.open(address)
    window.page.emulate_media(media="print")
    expect(window.page.locator("aside.card h2").first).to_be_visible()
    for hidden in ("table", "nav", "input", "button"):
        expect(window.page.locator(hidden).filter(visible=True)).to_have_count(0)
    assert len(re.findall(rb"/Type\s*/Page\b", window.page.pdf(format="A4"))) == 1


def test_every_screen_says_which_scope_it_needs_and_who_gives_it(console: OpenConsole, tmp_path: Path) -> None:
    """For a caller of tools and for one who may look; all other screens open."""
    keys = {
        who: made_key(tmp_path, who, "--scopes", scope) for who, scope in (("ivan", "tools:*"), ("olga", "observe"))
    }
    with opened(tmp_path, filled=False, profile="server") as hall:
        for who, of_observers in (("ivan", OBSERVERS_SCREENS), ("olga", ())):
            window = signed_in(console(hall=hall), keys[who])
            told = {name: missing_scope(window, name) for name in SCREENS}
            needed = dict.fromkeys(ADMINS_SCREENS, "admin") | dict.fromkeys(of_observers, "observe")
            assert told == dict.fromkeys(SCREENS) | needed


def test_who_may_only_call_tools_finds_and_runs_them(console: OpenConsole, tmp_path: Path) -> None:
    key = made_key(tmp_path, "ivan", "--scopes", "tools:*")
    command = toolhall("grant", "add", "ivan", "Calculator.*", "--data", str(tmp_path / "data"))
    subprocess.run(command, capture_output=True, check=True)
    with opened(tmp_path, filled=False, profile="server") as hall:
        window = signed_in(console(hall=hall), key)
        window.go("#/tools")
        window.find("link", re.compile("Calculator.Add")).first.click()
        window.settled()
        expect(window.page.locator("main nav.tabs a")).to_have_text(["Try it", "Definition"])
        window.page.get_by_label(re.compile("^a")).first.fill("40")
        window.page.get_by_label(re.compile("^b")).first.fill("2")
        run = window.find("button", re.compile("^Run"))
        run.click()
        result = window.find("region", "Result")
        expect(result).to_contain_text("42")
        window.find("button", "REST").click()
        window.page.get_by_label(re.compile("^b")).first.fill("3")
        run.click()
        expect(result).to_contain_text("43")
        window.go("#/tools/Calculator.Add@1.0.0/definition")
        window.shows("The second number.")
        window.check()


def test_who_may_only_call_tools_sees_its_own_calls(console: OpenConsole, tmp_path: Path) -> None:
    """From the Overview to one call, without a link to a screen that is closed to this caller."""
    ivan, olga = [made_key(tmp_path, who, "--scopes", "tools:*") for who in ("ivan", "olga")]
    with opened(tmp_path, filled=False, profile="server") as hall:
        hall.keys = {"ivan": ivan, "olga": olga}
        assert hall.rest("Nowhere/nothing", {}, "ivan")[0] == 404
        assert hall.rest("Nowhere/nothing", {}, "olga")[0] == 404
        window = signed_in(console(hall=hall), ivan)
        window.find("link", "See your calls").click()
        window.shows("Your own calls")
        expect(window.page.locator("table.calls tbody tr")).to_have_count(1)
        expect(window.page.locator("main")).not_to_contain_text("olga")
        window.find("link", "a tool that is unknown to you").click()
        window.shows("ivan asked for a tool that is unknown to you")
        window.check()
        for link in window.page.locator("main a").all():
            screen = str(link.get_attribute("href")).removeprefix("#/").partition("?")[0].partition("/")[0]
            assert screen not in {*ADMINS_SCREENS, *OBSERVERS_SCREENS}, screen
        assert hall.rest("Nowhere/nothing", {}, "ivan")[0] == 404
        window.find("button", "Read again").click()
        expect(window.page.locator("table.calls tbody tr")).to_have_count(2)


SCREENS = (
    *("", "tools", "resources", "prompts", "calls", "tasks", "approvals", "callers", "grants", "secrets", "accounts"),
    *("servers", "upstreams", "contracts", "review", "limits", "health", "settings"),
)
ADMINS_SCREENS = ("secrets", "review")
OBSERVERS_SCREENS = (
    *("tasks", "callers", "grants", "servers", "upstreams", "contracts", "limits", "health", "settings"),
)


def made_key(folder: Path, name: str, *options: str) -> str:
    """Make a key before the hall is served; its secret."""
    command = toolhall("key", "create", name, *options, "--data", str(folder / "data"), "--json")
    made = subprocess.run(command, capture_output=True, check=True).stdout
    return str(json.loads(made)["secret"])


def signed_in(window: ConsoleWindow, key: str) -> ConsoleWindow:
    """Sign in with a key."""
    window.may_be_refused = True
    window.page.goto(f"{window.hall}/sign-in")
    window.page.locator("input[type=password]").fill(key)
    window.press("Enter")
    window.page.wait_for_url("**/console/**")
    return window.settled()


def missing_scope(window: ConsoleWindow, screen: str) -> str | None:
    """The scope that a screen says is missing; it also says who gives it."""
    window.go(f"#/{screen}")
    words = window.page.locator("main").inner_text()
    found = re.search(r"needs the scope (\w+)\. Somebody who manages this hall can give it to you", words)
    return found[1] if found else None
