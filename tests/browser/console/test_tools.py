"""Tools: find one, fill in its form, run it, copy the call, and see what it promises (C8, C12, C13, C21, C22)."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HallClient
from tests.browser.console.conftest import OpenConsole
from tests.browser.console.office import Office
from tests.harness.console_window import LOOKS, ConsoleWindow, Look
from tests.harness.lateness import measured_lateness
from tests.harness.patience import patience
from tests.harness.server_process import serving
from tests.servers.acceptance_authority import PYTHON as CLIENTS_PYTHON

pytestmark = pytest.mark.timeout(600)
TOOLS = Path(__file__).with_name("form_tools.py")
SEARCH = 0.1  # seconds from the last letter to what it finds
CROWD = """
from toolhall import tool

WORDS = ("tide", "ship", "harbour", "lock", "quay", "crane", "buoy")


def make(number):
    def look(text: str = "") -> str:
        return text

    look.__name__ = f"{WORDS[number % 7]}_{number}"
    look.__doc__ = f"Looks after {WORDS[number % 5]} {number}."
    return tool(effect="reads")(look)


globals().update({f"tool_{number}": make(number) for number in range(10_000)})
"""
HOSTILE = "p\u0430ypal \u202e<script>alert(1)</script>" + "x" * 2_000
TREE = {"type": "object", "properties": {"in": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
# Schemas that break forms: each must draw, and what cannot be drawn is a JSON field.
HOSTILE_SCHEMAS: dict[str, Any] = {
    "endless": {"$ref": "#/$defs/tree", "$defs": {"tree": TREE}},
    "required_endless": {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "choice": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {"type": "integer"}}},
    "tuple": {"properties": {"at": {"type": "array", "prefixItems": [{"type": "number"}, {"enum": ["n", "s"]}]}}},
    "map": {"additionalProperties": {"type": ["integer", "null"]}},
    "huge_enum": {"properties": {"word": {"enum": [f"word {number}" for number in range(2_000)]}}},
    "names": {"properties": {"__proto__": {"type": "string"}, "": {"type": "string"}, "a/b~c d": {"type": "string"}}},
    "texts": {
        "properties": {HOSTILE[:60]: {"type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE}}
    },
    "merged": {"allOf": [{"properties": {"a": {"minimum": 1}}}, {"properties": {"a": {"type": "integer"}}}]},
    "never": {"properties": {"a": {"allOf": [{"type": "string"}, {"type": "integer"}]}}},
    "conditional": {"properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {"required": ["b"]}},
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallClient]:
    """A hall of this module, with tools whose arguments are of every shape."""
    with serving(tmp_path_factory.mktemp("workshop"), TOOLS) as served:
        hall = HallClient(served.port)
        for name, schema in HOSTILE_SCHEMAS.items():
            status, said = hall.ask(
                "POST", "/api/tools", definition("Hostile", name, inputSchema={"type": "object", **schema})
            )
            assert status == 201, said
        yield hall


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallClient]:
    """A hall with ten thousand tools."""
    folder = tmp_path_factory.mktemp("crowd")
    target = folder / "crowd.py"
    target.write_text(CROWD)
    with serving(folder, target) as served:
        yield HallClient(served.port)


def definition(toolkit: str, name: str, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """A definition of MCP that names its toolkit and version."""
    stated = {"_meta": {"dev.toolhall/id": f"{toolkit}.{name}@{version}"}}
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **stated, **more}


def open_tool(console: OpenConsole, hall: HallClient, tool: str, tab: str = "try", **more: Any) -> ConsoleWindow:
    """The page of a tool, by `Toolkit.tool`."""
    window = console(hall, **more)
    window.may_be_refused = True
    _, listed = hall.ask("GET", f"/api/tools?toolkit={tool.partition('.')[0]}&limit=100")
    (found,) = [each["id"] for each in listed["tools"] if each["id"].startswith(f"{tool}@")]
    return window.open(f"#/tools/{found}/{tab}")


def run(window: ConsoleWindow, outcome: str) -> None:
    """Run the tool by keyboard, once it can be run, and wait for how it ended."""
    window.page.locator("section[aria-labelledby=result-title]").wait_for()
    window.press("Control+Enter")
    expect(window.page.locator("section[aria-labelledby=result-title] header .chip")).to_have_text(
        outcome, timeout=1_000 * patience()
    )


def test_a_tool_is_found_and_run_with_the_keyboard_alone(console: OpenConsole, office: Office) -> None:
    window = console(office).open("#/tools")
    window.press("e").write("get_tide")
    window.wait("() => location.hash.includes('query=get_tide')")
    expect(window.page.locator(".tool-cards li").first).to_contain_text("Harbour.get_tide", timeout=1_000 * patience())
    for _ in range(30):
        window.press("Tab")
        if window.focused.evaluate("each => each.matches('.tool-cards a')"):
            break
        assert window.is_focus_visible()
    window.press("Enter")
    window.page.locator(".schema-form").wait_for()
    window.page.get_by_label("harbour").focus()
    window.write("Leith")
    run(window, "ok")
    window.shows('"metres": 2.4')
    assert window.is_focus_visible()


@pytest.mark.parametrize("via", ["mcp", "rest"])
def test_each_problem_stands_at_its_field(console: OpenConsole, workshop: HallClient, via: str) -> None:
    window = open_tool(console, workshop, "form_tools.book", f"try?via={via}")
    page = window.page
    page.get_by_label("city", exact=False).first.fill("x")
    page.get_by_role("button", name="Add an item to guests").click()
    page.get_by_role("textbox", name="guests 1").fill("nobody")
    page.get_by_role("button", name="Add reminder").click()
    page.get_by_label("minutes").fill("0")
    run(window, "refused")
    for path in ("/title", "/place/city", "/guests/0"):
        expect(page.locator(f'[data-problem-at="{path}"]')).to_be_visible()
    assert page.locator('[data-problem-at^="/reminder"]').count() >= 1
    expect(window.focused).to_have_attribute("aria-invalid", "true")


def test_the_form_sends_what_it_shows(console: OpenConsole, workshop: HallClient) -> None:
    """Absent, null and empty are three things; a choice, a map and a list in a list are sent as drawn."""
    window = open_tool(console, workshop, "form_tools.book")
    page = window.page
    page.get_by_label("title").fill("two\nlines")
    page.get_by_label("city").fill("Bergen")
    page.get_by_role("button", name="Send null as note").click()
    page.get_by_role("button", name="Add labels").click()
    page.get_by_label("Name of another member").last.fill("a/b")
    page.get_by_label("Name of another member").last.press("Enter")
    page.get_by_role("textbox", name="a/b").fill("7")
    page.get_by_role("button", name="JSON", exact=True).click()
    written = json.loads(page.get_by_label("The arguments, as a JSON object").input_value())
    assert written == {
        "title": "two\nlines",
        "place": {"city": "Bergen"},
        "guests": [],
        "note": None,
        "labels": {"a/b": 7},
    }
    page.get_by_role("button", name="Form", exact=True).click()
    run(window, "ok")
    window.shows("None")
    page.get_by_role("button", name="Send null as note").click()
    page.get_by_role("button", name="Send empty text as note").click()
    run(window, "ok")
    window.shows('"note": "\'\'"')


@pytest.mark.parametrize("name", HOSTILE_SCHEMAS)
def test_a_hostile_schema_draws(console: OpenConsole, workshop: HallClient, name: str) -> None:
    window = open_tool(console, workshop, f"Hostile.{name}")
    expect(window.page.locator(".schema-form")).to_be_visible(timeout=1_000 * patience())
    for button in window.page.get_by_role("button", name="Add ", disabled=False).all()[:3]:
        button.click()
    expect(window.heading).to_contain_text(name)
    assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.go(f"#/tools/Hostile.{name}@1.0.0/definition")
    expect(window.page.locator(".document")).to_be_visible(timeout=1_000 * patience())


@pytest.mark.parametrize("form", ["curl", "python", "typescript"])
def test_a_copied_call_gives_the_result_shown(
    console: OpenConsole, workshop: HallClient, form: str, tmp_path: Path
) -> None:
    text = 'it\'s "quoted" $HOME `id` \\ %s \u202e\u200b \U0001f600 \n</script>'
    window = open_tool(console, workshop, "form_tools.repeat", f"try?as={form}")
    page = window.page
    page.get_by_role("button", name="JSON", exact=True).click()
    arguments = {"text": text, "number": 1.5, "flags": [True, False]}
    page.get_by_label("The arguments, as a JSON object").fill(json.dumps(arguments, ensure_ascii=False))
    run(window, "ok")
    copied = page.locator("[role=tabpanel] pre").inner_text()
    command = {
        "curl": ["sh", "-c", copied],
        "python": [sys.executable, "-c", copied],
        "typescript": [shutil.which("node") or "node", "--input-type=module", "-e", copied],
    }[form]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(), check=False)
    assert said.returncode == 0, said.stderr
    expected = workshop.ask("POST", "/tools/form_tools/repeat", arguments)[1]
    if form == "curl":
        assert json.loads(said.stdout) == expected
    elif form == "python":
        assert said.stdout == f"{expected!r}\n"
    else:
        assert "1.5" in said.stdout
        assert "[True, False]" in said.stdout


USE_CONFIGURATION = """
import asyncio, json, sys
from fastmcp import Client

async def names():
    async with Client(json.loads(sys.argv[1])) as client:
        return [each.name for each in await client.list_tools()]

print(json.dumps(asyncio.run(names())))
"""


def test_the_configuration_of_a_client_is_taken_by_a_real_one(console: OpenConsole, workshop: HallClient) -> None:
    window = open_tool(console, workshop, "form_tools.repeat", "try?as=client")
    shown = window.page.locator("[role=tabpanel] pre").inner_text()
    command = [str(CLIENTS_PYTHON), "-c", USE_CONFIGURATION, shown]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(), check=False)
    assert done.returncode == 0, done.stderr
    assert "repeat" in json.loads(done.stdout)


def test_a_tool_asks_and_is_answered_in_the_page(console: OpenConsole, workshop: HallClient) -> None:
    window = open_tool(console, workshop, "form_tools.order")
    page = window.page
    page.get_by_label("kind").fill("pizza")
    window.press("Control+Enter")
    window.shows("How do you want your pizza?")
    page.get_by_role("radio", name="large").check()
    page.get_by_label("quantity").fill("2")
    page.get_by_role("button", name="Answer", exact=True).click()
    window.shows("2 large pizza")
    page.locator(".messages > summary").click()
    expect(page.locator(".messages > ol")).to_contain_text("question")
    expect(page.locator(".messages > ol")).to_contain_text("progress")
    window.check()


def test_a_running_call_is_cancelled(console: OpenConsole, workshop: HallClient) -> None:
    window = open_tool(console, workshop, "form_tools.wait")
    window.page.locator("section[aria-labelledby=result-title]").wait_for()
    window.press("Control+Enter")
    window.page.get_by_role("button", name="Cancel").click()
    expect(window.page.locator("section[aria-labelledby=result-title] header .chip")).to_have_text(
        "cancelled", timeout=1_000 * patience()
    )
    assert window.page.evaluate("document.activeElement !== document.body")


def test_a_check_runs_nothing_and_says_where_it_would_stop(console: OpenConsole, workshop: HallClient) -> None:
    window = open_tool(console, workshop, "form_tools.book")
    window.page.get_by_role("button", name="Check only").click()
    window.shows("It would be refused")
    expect(window.page.locator('[data-problem-at="/title"]')).to_be_visible()


def test_results_are_text_and_links_lead_to_the_web_only(console: OpenConsole, workshop: HallClient) -> None:
    window = open_tool(console, workshop, "form_tools.links")
    run(window, "ok")
    window.shows("<img src=x onerror=alert(1)>")
    assert window.page.locator(".link-block a").all_inner_texts() == ["good"]
    window = open_tool(console, workshop, "form_tools.rows")
    run(window, "ok")
    expect(window.page.locator(".result-table td").nth(1)).to_have_text("<b>bold</b><script>alert(1)</script>")


def test_hidden_characters_of_a_definition_are_marked(console: OpenConsole, office: Office) -> None:
    window = open_tool(console, office, "Strange.echo")
    window.shows("<U+202E>")
    window.shows("p<U+0430>ypal")
    run(window, "ok")
    window.shows("<img src=x onerror=alert(1)>")


def test_versions_are_compared_and_changed(console: OpenConsole, workshop: HallClient) -> None:
    wide = {"type": "object", "properties": {"a": {"type": "string"}}}
    for version, schema in (("1.0.0", wide), ("2.0.0", {**wide, "required": ["a"]})):
        status, said = workshop.ask("POST", "/api/tools", definition("Kept", "promise", version, inputSchema=schema))
        assert status == 201, said
        seen = {"seen": said["tools"][0]["digests"]["document"]}
        assert workshop.ask("POST", f"/api/tools/Kept.promise@{version}/activate", seen)[0] == 200
    window = console(workshop).open("#/tools/Kept.promise@2.0.0/versions")
    window.shows("breaking")
    row = window.page.get_by_role("group", name="Actions on Kept.promise@1.0.0")
    row.get_by_role("button", name="Deprecate").press("Enter")
    window.page.get_by_label("First day without it").fill("2099-01-31")
    window.page.get_by_label("Successor").fill("Kept.promise@2.0.0")
    window.find("dialog").get_by_role("button", name="Deprecate").press("Enter")
    expect(window.find("dialog")).to_have_count(0, timeout=1_000 * patience())
    window.shows("Successor Kept.promise@2.0.0")
    row.get_by_role("button", name="Deactivate").press("Enter")
    window.find("dialog").get_by_role("button", name="Deactivate").press("Enter")
    row.get_by_role("button", name="Remove").press("Enter")
    window.find("dialog").get_by_role("button", name="Remove").press("Enter")
    expect(row).to_have_count(0, timeout=1_000 * patience())
    assert workshop.ask("GET", "/api/tools/Kept.promise@1.0.0")[0] == 404


def test_a_definition_is_checked_and_then_registered(console: OpenConsole, workshop: HallClient) -> None:
    window = console(workshop).open("#/tools")
    window.may_be_refused = True
    window.find("button", "Add a definition").click()
    window.page.get_by_label("The definition, as JSON").fill('{"name": ')
    window.find("dialog").get_by_text("the text ends too early").wait_for()
    window.page.get_by_label("The definition, as JSON").fill(json.dumps(definition("Added", "later")))
    window.find("button", "Check it").click()
    window.find("dialog").get_by_text("Registers 1 tool").wait_for()
    assert workshop.ask("GET", "/api/tools/Added.later@1.0.0")[0] == 404
    window.find("button", "Register").click()
    window.find("dialog").get_by_text("waits for review").wait_for()
    assert workshop.ask("GET", "/api/tools/Added.later@1.0.0")[1]["state"] == "quarantined"


def test_ten_thousand_tools_are_searched_while_one_types(console: OpenConsole, crowd: HallClient) -> None:
    """From the last letter to the answer; the best of several counts, less what the machine itself was late."""
    window = console(crowd).open("#/tools")
    window.shows(re.compile(r"10.?000 tools"))
    assert window.page.locator(".tool-cards li").count() <= 100
    with measured_lateness() as machine:
        times = [_search_time(window, f"tide_{700 * step}") for step in range(1, 9)]
    overdue = [taken - 1_000 * machine.late(SEARCH, began, ended) for taken, began, ended in times]
    assert min(overdue) <= 1_000 * SEARCH, (overdue, times)
    for view in ("grid", "table"):
        window.go(f"#/tools?view={view}")
        for _ in range(8):
            window.page.mouse.wheel(0, 4_000)
            window.page.wait_for_timeout(50)
            assert window.page.locator(".tool-cards li, tbody tr:not(.gap)").count() <= 100


def _search_time(window: ConsoleWindow, words: str) -> tuple[float, float, float]:
    """Milliseconds from the input to the answer in the document; when it began and ended."""
    began = time.monotonic()
    taken = float(
        window.page.evaluate(
            """words => new Promise((resolve) => {
              const field = document.querySelector('input[type=search]');
              const begun = performance.now();
              const look = () => document.querySelector('.tool-cards li')?.textContent.includes(words)
                ? resolve(performance.now() - begun) : setTimeout(look, 1);
              field.value = words;
              field.dispatchEvent(new InputEvent('input', {bubbles: true}));
              look();
            })""",
            words,
        )
    )
    return taken, began, time.monotonic()


SCREENS = {
    "list": "#/tools",
    "table": "#/tools?view=table",
    "nothing found": "#/tools?query=nosuchthing",
    "form": "#/tools/form_tools.book@0.1.0/try",
    "json": "#/tools/form_tools.book@0.1.0/try?via=rest",
    "definition": "#/tools/form_tools.book@0.1.0/definition",
    "dialects": "#/tools/form_tools.book@0.1.0/dialects",
    "versions": "#/tools/form_tools.book@0.1.0/versions",
    "callers": "#/tools/form_tools.book@0.1.0/callers",
    "history": "#/tools/form_tools.book@0.1.0/history",
    "hostile": "#/tools/Hostile.texts@1.0.0/try",
    "unknown": "#/tools/No.such@1.0.0/try",
    "add": "#/tools?add=paste",
}
PICTURES = os.environ.get("TOOLHALL_PICTURES")


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_screen_of_tools_is_usable_by_everybody(console: OpenConsole, workshop: HallClient, look: Look) -> None:
    window = console(workshop, look)
    window.may_be_refused = True
    for name, address in SCREENS.items():
        window.open(address)
        window.check()
        if PICTURES:
            window.picture(Path(PICTURES) / f"tools-{name}-{look.scheme}-{look.width}.png")


def test_history_says_what_each_event_says_of_itself(console: OpenConsole, workshop: HallClient) -> None:
    """Such as the last day of a deprecated tool, and which document was activated."""
    tool = f"/api/tools/{quote('Kept.story@1.0.0')}"
    made = workshop.ask("POST", "/api/tools", definition("Kept", "story"))
    assert made[0] == 201, made
    _, shown = workshop.ask("GET", tool)
    assert workshop.ask("POST", f"{tool}/activate", {"seen": shown["digests"]["document"]})[0] == 200
    assert workshop.ask("POST", f"{tool}/deprecate", {"sunset": "2099-12-01"})[0] == 200
    window = console(workshop).open("#/tools/Kept.story@1.0.0/history")
    rows = window.page.locator("tbody tr")
    expect(rows).to_contain_text(
        ["deprecated last day 2099-12-01", f"document {shown['digests']['document'][:20]}", ""]
    )
    window.open("#/tools/Kept.story@1.0.0/history", language="pseudo")
    expect(rows.first.locator("strong")).to_have_text(re.compile("^\u27e6"))


@pytest.mark.parametrize("language", ["pseudo", "pseudo-rtl"])
def test_no_english_is_left(console: OpenConsole, workshop: HallClient, language: str) -> None:
    window = console(workshop)
    window.may_be_refused = True
    for address in SCREENS.values():
        window.open(address, language)
        assert window.english() == [], address
