"""Resources and prompts: find one, fill in its variables with completion, read or get it, and see what it holds."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HallClient
from tests.browser.console.conftest import OpenConsole
from tests.harness.console_window import LOOKS, ConsoleWindow, Look
from tests.harness.patience import patience
from tests.harness.server_process import serving

pytestmark = pytest.mark.timeout(600)
READINGS = Path(__file__).with_name("readings.py")
RESULT = "section[aria-labelledby=result-title]"
SCREENS = {"resource": "resources", "prompt": "prompts"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallClient]:
    """A hall with resources and prompts of all kinds, and no tool."""
    with serving(tmp_path_factory.mktemp("shop"), READINGS) as served:
        yield HallClient(served.port)


def id_of(hall: HallClient, name: str) -> tuple[str, str]:
    """The kind and id of what has this name."""
    _, listed = hall.ask("GET", "/api/tools?limit=100")
    (found,) = [each for each in listed["tools"] if each["tool"] == name]
    return str(found["kind"]), str(found["id"])


def open_page(console: OpenConsole, hall: HallClient, name: str, tab: str = "try", **more: object) -> ConsoleWindow:
    window = console(hall, **more)
    window.may_be_refused = True
    kind, id_ = id_of(hall, name)
    return window.open(f"#/{SCREENS[kind]}/{id_}/{tab}")


def visit(window: ConsoleWindow, hall: HallClient, name: str, tab: str = "try") -> None:
    """Go to the page of another resource or prompt, and wait until it is there."""
    kind, id_ = id_of(hall, name)
    window.go(f"#/{SCREENS[kind]}/{id_}/{tab}")
    expect(window.heading).to_have_text(re.compile(rf"\.{name}$"))
    if tab.startswith("try"):
        window.page.locator(RESULT).wait_for()


def run(window: ConsoleWindow, outcome: str) -> None:
    """Read or get by keyboard, and wait for how it ended."""
    window.page.locator(RESULT).wait_for()
    window.press("Control+Enter")
    expect(window.page.locator(f"{RESULT} header .chip")).to_have_text(outcome, timeout=1_000 * patience())


def test_a_resource_is_found_and_read_with_the_keyboard_alone(console: OpenConsole, shop: HallClient) -> None:
    """Its variable is completed while one types, and what is taken is what is read."""
    window = console(shop).open("#/resources")
    window.press("e").write("order")
    window.wait("() => location.hash.includes('query=order')")
    expect(window.page.locator(".tool-cards li")).to_have_count(1)
    expect(window.page.locator(".tool-cards li")).to_contain_text("shop://orders/{number}{?part}")
    for _ in range(30):
        window.press("Tab")
        if window.focused.evaluate("each => each.matches('.tool-cards a')"):
            break
        assert window.is_focus_visible()
    window.press("Enter")
    field = window.find("combobox", re.compile("number"))
    field.focus()
    window.write("2")
    expect(window.page.locator(".suggest .option").first).to_have_text("20")
    window.press("ArrowDown", "ArrowDown")
    expect(window.find("option", "21")).to_have_attribute("aria-selected", "true")
    window.press("Enter")
    expect(field).to_have_value("21")
    expect(window.page.locator("form")).to_contain_text("Reads shop://orders/21")
    run(window, "ok")
    expect(window.page.locator(RESULT)).to_contain_text('"ware": "tea"')
    expect(window.page.locator(RESULT)).to_contain_text("application/json")
    assert window.is_focus_visible()
    window.check()


@pytest.mark.parametrize("via", ["mcp", "rest"])
def test_content_is_shown_by_its_type_and_never_runs(console: OpenConsole, shop: HallClient, via: str) -> None:
    window = open_page(console, shop, "page", f"try?via={via}")
    window.page.on("dialog", lambda dialog: window.wrong.append(f"dialog: {dialog.message}"))
    run(window, "ok")
    shown = window.page.locator(RESULT)
    expect(shown.locator("pre").first).to_contain_text("<script>alert(1)</script>")
    assert shown.locator("iframe, script, img").count() == 0
    for name, type_ in (("drawing", "image/svg"), ("shelf", "image/png")):
        visit(window, shop, name, f"try?via={via}")
        if name == "shelf":
            window.page.get_by_label("name").fill("a/b")
        run(window, "ok")
        expect(shown).to_contain_text(type_)
    expect(shown.locator("img")).to_have_attribute("src", re.compile("^blob:"))
    expect(shown).to_contain_text("beside a/b")
    visit(window, shop, "drawing", f"try?via={via}")
    run(window, "ok")
    expect(shown.get_by_role("button", name="Download it")).to_be_visible()
    assert shown.locator("img").count() == 0
    visit(window, shop, "logo", f"try?via={via}")
    run(window, "ok")
    expect(shown.locator("img")).to_be_visible()
    window.check()


@pytest.mark.parametrize("via", ["mcp", "rest"])
def test_refusals_say_what_to_do(console: OpenConsole, shop: HallClient, via: str) -> None:
    window = open_page(console, shop, "order", f"try?via={via}")
    page = window.page
    window.press("Control+Enter")
    expect(page.locator('[data-problem-at="/number"]')).to_have_text("the URI needs a value here")
    expect(window.focused).to_have_attribute("aria-invalid", "true")
    window.write("3")
    run(window, "failed" if via == "mcp" else "the tool failed")
    expect(page.locator(RESULT)).to_contain_text("there is no order 3")
    visit(window, shop, "ledger", f"try?via={via}")
    if via == "mcp":  # which asks the client to open the page, and waits for it
        page.locator(RESULT).wait_for()
        window.press("Control+Enter")
        expect(page.get_by_role("link", name="Open the page")).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
    else:
        run(window, "refused")
        expect(page.get_by_role("link", name="Open the page where a person decides")).to_be_visible()
    visit(window, shop, "write_letter", f"try?via={via}")
    run(window, "refused")
    expect(page.locator('[data-problem-at="/customer"], [data-problem-at=""]').first).to_be_visible()


@pytest.mark.parametrize("via", ["mcp", "rest"])
def test_a_prompt_shows_its_messages_by_role(console: OpenConsole, shop: HallClient, via: str) -> None:
    window = open_page(console, shop, "write_letter", f"try?via={via}")
    page = window.page
    window.find("combobox", re.compile("customer")).focus()
    window.write("Ad")
    expect(window.page.locator(".suggest .option")).to_have_text(["Ada", "Adele"])
    window.press("ArrowDown", "Enter")
    page.get_by_label("order_number").fill("21")
    page.get_by_role("radio", name="strict").check()
    run(window, "ok")
    messages = page.locator(f"{RESULT} .message")
    expect(messages).to_have_count(3)
    expect(messages.nth(0)).to_contain_text("Write a strict letter to Ada about order 21. <b>Now.</b>")
    expect(messages.nth(1).locator("strong")).to_have_text("assistant")
    expect(messages.nth(2).locator("img")).to_be_visible()
    window.check()


def test_a_prompt_asks_and_is_answered_in_the_page(console: OpenConsole, shop: HallClient) -> None:
    window = open_page(console, shop, "greet")
    window.press("Control+Enter")
    window.shows("Which tone?")
    window.page.get_by_label("tone").fill("warm")
    window.page.get_by_role("button", name="Answer", exact=True).click()
    expect(window.page.locator(f"{RESULT} .message")).to_contain_text("Greet in a warm tone.")


@pytest.mark.parametrize("form", ["curl", "python", "typescript"])
@pytest.mark.parametrize("name", ["order", "write_letter"])
def test_a_copied_read_gives_what_is_shown(
    console: OpenConsole, shop: HallClient, name: str, form: str, tmp_path: Path
) -> None:
    window = open_page(console, shop, name, f"try?as={form}")
    window.page.get_by_role("button", name="JSON", exact=True).click()
    arguments = {"number": 18, "part": "a&b"} if name == "order" else {"customer": "O'Neil", "order_number": 18}
    window.page.get_by_label("The arguments, as a JSON object").fill(json.dumps(arguments))
    run(window, "ok")
    copied = window.page.locator("[role=tabpanel] pre").inner_text()
    command = {
        "curl": ["sh", "-c", copied],
        "python": [sys.executable, "-c", copied],
        "typescript": [shutil.which("node") or "node", "--input-type=module", "-e", copied],
    }[form]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(), check=False)
    assert said.returncode == 0, said.stderr
    assert ("tea" if name == "order" else "order 18") in said.stdout
    assert window.find("tab", "OpenAI").count() == 0


def test_check_only_reads_nothing(console: OpenConsole, shop: HallClient) -> None:
    window = open_page(console, shop, "order")
    window.find("combobox", re.compile("number")).fill("18")
    window.page.get_by_role("button", name="Check only").click()
    window.shows("It would reach the tool")


def test_what_names_only_an_id_leads_to_the_screen_of_its_kind(console: OpenConsole, shop: HallClient) -> None:
    _, id_ = id_of(shop, "terms")
    window = console(shop).open(f"#/tools/{id_}/definition?dialect=original")
    window.wait("id => location.hash.startsWith(`#/resources/${id}/definition?`)", id_)
    expect(window.page.locator("nav").first.get_by_role("link", name="Resources")).to_have_attribute(
        "aria-current", "page"
    )
    window.press("Control+k")
    window.write("greet")
    expect(window.find("option", re.compile("greet")).first).to_be_visible()
    window.press("Enter")
    window.wait("location.hash.startsWith('#/prompts/')")


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_lists_and_pages_are_usable_by_everybody(console: OpenConsole, shop: HallClient, look: Look) -> None:
    window = console(shop, look).open("#/tools")
    window.may_be_refused = True
    window.check()  # the hall has no tools
    for address in ("#/resources", "#/resources?view=table", "#/prompts", "#/prompts?query=nothing"):
        window.go(address)
        window.check()
    for tab in ("try", "definition", "dialects", "versions", "callers", "history"):
        for name in ("order", "write_letter"):
            kind, id_ = id_of(shop, name)
            window.go(f"#/{SCREENS[kind]}/{id_}/{tab}")
            window.check()


@pytest.mark.parametrize("language", ["pseudo", "pseudo-rtl"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_english_word_is_left(console: OpenConsole, shop: HallClient, language: str, width: int) -> None:
    window = console(shop, Look("light", width)).open("#/resources", language)
    for address in (
        "#/prompts",
        "#/tools",
        *(f"#/{SCREENS[kind]}/{id_}/try" for kind, id_ in (id_of(shop, "order"), id_of(shop, "plain"))),
    ):
        assert (window.english(), window.too_wide()) == ([], [])
        window.go(address)
    expect(window.heading).to_have_text(re.compile(r"\.plain$"))
    window.page.locator(RESULT).wait_for()
    window.press("Control+Enter")
    window.page.locator(f"{RESULT} .message").wait_for()
    assert (window.english(), window.too_wide()) == ([], [])


def test_reads_are_recorded_as_the_persons_calls(console: OpenConsole, shop: HallClient) -> None:
    window = open_page(console, shop, "terms")
    run(window, "ok")
    window.shows("Where the time went")
    window.page.get_by_role("link", name="See the call").click()
    expect(window.page.locator("main aside")).to_contain_text("readings.terms")


def test_rest_serves_the_page_that_the_console_never_shows(shop: HallClient) -> None:
    with urlopen(f"{shop.url}/resources/read?uri=shop://page", timeout=patience()) as reply:
        assert reply.headers["content-security-policy"].startswith("sandbox")
