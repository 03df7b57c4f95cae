"""A person approves and denies calls in a real browser: with a passkey, with a code, with a keyboard, at night."""

import time
from collections.abc import Callable
from pathlib import Path

import pyotp
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Authenticator, HallClient

Window = Callable[..., Page]
LOOKS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}

UNLABELLED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, textarea, button")]
  .filter((each) => !(each.labels?.length || each.textContent.trim() || each.ariaLabel))
  .map((each) => each.outerHTML)"""
CONTRASTS = """() => {
  const luminance = (colour) => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const value = part / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("body *")]
    .filter((each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
    .filter((each) => each.checkVisibility())
    .map((each) => {
      const [dark, light] = [luminance(getComputedStyle(each).color), luminance(behind(each))].sort((a, b) => a - b);
      return [each.outerHTML.slice(0, 80), (light + 0.05) / (dark + 0.05)];
    });
}"""


def test_approval_page_passkey_is_added_and_approves_a_call(hall: HallClient, window: Window) -> None:
    """Level 9: the call runs once; the next one is asked for anew, and denied with the keyboard."""
    page = window()
    Authenticator(page)
    _, invited = hall.ask("POST", "/api/factors", {"kind": "passkey", "person": "local"})
    page.goto(invited["url"])
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="The passkey is added")).to_be_visible()
    reply = page.goto(invited["url"])
    assert reply is not None
    assert reply.status == 410
    page.goto(hall.question("burn", room="attic"))
    page.get_by_role("button", name="Approve with a passkey").click()
    expect(page.get_by_role("heading", name="Approved")).to_be_visible()
    assert hall.call("burn", room="attic") == (200, "burnt attic")
    page.goto(hall.question("burn", room="attic"))
    page.get_by_role("button", name="Deny").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Denied")).to_be_visible()
    assert hall.call("burn", room="attic")[0] == 429


def test_approval_page_locked_passkey_does_not_approve_a_call(hall: HallClient, window: Window) -> None:
    """The passkey is there, but nobody unlocked it."""
    page = window()
    passkeys = Authenticator(page)
    _, key = hall.ask("POST", "/api/keys", {"name": "careless", "owner": "carol"})
    hall.ask("POST", "/api/grants", {"callers": "careless", "tools": "*"})
    _, invited = hall.ask("POST", "/api/factors", {"kind": "passkey", "person": "carol"})
    page.goto(invited["url"])
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("heading", name="The passkey is added")).to_be_visible()
    url = hall.question("burn", key["secret"], room="cellar")
    page.goto(url)
    page.get_by_label("API key").fill(key["secret"])
    page.get_by_role("button", name="Sign in").click()
    passkeys.lock()
    page.get_by_role("button", name="Approve with a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("The passkey was not used")
    assert hall.call("burn", key["secret"], room="cellar")[0] == 403


def test_approval_page_totp_code_approves_a_call_without_javascript(hall: HallClient, window: Window) -> None:
    """Level 8: a wrong code is refused, the right one verifies for a while; nothing needs JavaScript."""
    _, key = hall.ask("POST", "/api/keys", {"name": "ci", "owner": "alice"})
    hall.ask("POST", "/api/grants", {"callers": "ci", "tools": "*"})
    _, made = hall.ask("POST", "/api/factors", {"kind": "totp", "person": "alice"})
    generator = pyotp.TOTP(made["secret"])
    hall.ask("POST", "/api/factors/confirm", {"enrolment": made["enrolment"], "code": generator.now()})
    page = window(java_script_enabled=False)
    reply = page.goto(hall.question("unlock", key["secret"], door="front"))
    assert reply is not None
    assert reply.status == 403, "the person at this machine is another one"
    page.get_by_label("API key").fill(key["secret"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Is it you?")).to_be_visible()
    page.get_by_label("Code of your authenticator").fill("000000")
    page.get_by_role("button", name="Approve with the code").click()
    expect(page.get_by_role("alert")).to_contain_text("That code is wrong")
    page.get_by_label("Code of your authenticator").fill(generator.at(int(time.time()) + 30))
    page.get_by_role("button", name="Approve with the code").click()
    expect(page.get_by_role("heading", name="You are verified")).to_be_visible()
    assert hall.call("unlock", key["secret"], door="front") == (200, "unlocked front")
    assert hall.call("unlock", key["secret"], door="back") == (200, "unlocked back")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("look", LOOKS)
def test_approval_page_is_accessible_on_every_screen_and_colour_scheme(
    hall: HallClient, window: Window, look: str, scheme: str, tmp_path: Path
) -> None:
    """Every field has a label, every text has contrast, nothing is wider than the screen, and nothing is hidden."""
    arguments = {
        "room": "at\u200btic \u202edne",
        "why": "p\u0430ypal " + "long" * 200,
        "with_": ["a match", "<b>petrol</b>"],
    }
    _, key = hall.ask("POST", "/api/keys", {"name": f"{look}-{scheme}", "owner": f"{look}-{scheme}"})
    hall.ask("POST", "/api/grants", {"callers": f"{look}-{scheme}", "tools": "*"})
    page = window(viewport=LOOKS[look], color_scheme=scheme)
    page.goto(hall.question("burn", key["secret"], **arguments))
    _is_accessible(page)
    page.get_by_label("API key").fill(key["secret"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#arguments")).to_contain_text("at<U+200B>tic <U+202E>dne")
    expect(page.locator("#arguments")).to_contain_text("p<U+0430>ypal")
    expect(page.locator("#arguments")).to_contain_text("<b>petrol</b>")
    _is_accessible(page)
    (tmp_path / f"{look}-{scheme}.png").write_bytes(page.screenshot(full_page=True))


def _is_accessible(page: Page) -> None:
    page.wait_for_load_state("load")  # its text is there before its style is
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.title()
    assert page.locator("h1").count() == 1
    assert page.evaluate(UNLABELLED) == []
    assert [each for each in page.evaluate(CONTRASTS) if each[1] < 4.5] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
