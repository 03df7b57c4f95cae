"""Who connects an account in a real browser: the person who asked reads what it is about, and nobody else does."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import HallClient
from tests.harness.cli import CliRunner
from toolhall.config import Config
from toolhall.examples._fakes.services import GOOGLE_PROVIDER, run_fake_services
from toolhall.examples.gmail import GMAIL_ADDRESS

Window = Callable[..., Page]
READ_MAIL = "https://www.googleapis.com/auth/gmail.readonly"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallClient]:
    """The example tools, set up for the stand-in as an operator sets up a provider."""
    with run_fake_services(Config()) as config:
        cli = CliRunner(Path(tmp_path_factory.mktemp("people")))
        google = config.providers[GOOGLE_PROVIDER]
        provider = {"issuer": google.issuer, "client_id": google.client_id}
        cli.environment["TOOLHALL_PROVIDERS"] = json.dumps({GOOGLE_PROVIDER: provider})
        cli.environment[GMAIL_ADDRESS] = str(google.issuer)
        cli.environment["TOOLHALL_EGRESS_ALLOW"] = ",".join(config.egress_allow)
        with cli.serve() as server:
            yield HallClient(int(server.url.rpartition(":")[2]))


def create_key(hall: HallClient, name: str) -> str:
    """Create an API key that may call everything; its secret."""
    _, made = hall.ask("POST", "/api/keys", {"name": name, "owner": name})
    assert hall.ask("POST", "/api/grants", {"callers": name, "tools": "*"})[0] == 201
    return str(made["secret"])


def call(hall: HallClient, key: str) -> tuple[int, Any]:
    """The status of a call, and what it says: the emails, or what is missing."""
    status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Gmail.GetEmails"}}, key)
    assert status == 200 or "authorization" in said["missing_requirements"], said
    return status, said["result"] if status == 200 else said["missing_requirements"]["authorization"][0]


def status(hall: HallClient, missing: Any) -> str:
    """What a program that waits is told."""
    return str(hall.ask("GET", missing["check_url"].removeprefix(hall.url))[1]["status"])


def sign_in(page: Page, url: str, key: str) -> None:
    page.goto(url)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_account_link_page_shows_what_is_linked_and_the_call_then_runs(hall: HallClient, window: Window) -> None:
    """Provider, scope, tool and the host that it leads back to; then the provider's page, back, and the same call."""
    key, page = create_key(hall, "alice"), window()
    code, missing = call(hall, key)
    assert (code, status(hall, missing)) == (400, "pending")
    sign_in(page, missing["url"], key)
    expect(page.get_by_role("heading", level=1)).to_have_text("Link your account at Google?")
    facts = page.locator("dl.who")
    for fact in ("Google", READ_MAIL, "Gmail.GetEmails 1.2.0", "alice", hall.url.removeprefix("http://")):
        expect(facts).to_contain_text(fact)
    expect(page.locator(".note")).to_contain_text("a program on the computer that you sit at")
    page.get_by_role("button", name="Go on to Google").click()
    expect(page.get_by_role("heading", name="Stand-in for Google")).to_be_visible()
    assert status(hall, missing) == "pending", "the provider has not answered yet"
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The account is linked")
    assert status(hall, missing) == "completed"
    code, result = call(hall, key)
    assert (code, result["success"]) == (200, True), result
    assert result["value"]["emails"]


def test_account_link_page_denied_at_the_provider_says_so_and_the_link_fails(hall: HallClient, window: Window) -> None:
    """The page says so, the link has failed, and a new call gets another link."""
    key, page = create_key(hall, "carol"), window()
    _, missing = call(hall, key)
    sign_in(page, missing["url"], key)
    page.get_by_role("button", name="Go on to Google").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("alert")).to_contain_text("Access was denied")
    assert status(hall, missing) == "failed"
    code, anew = call(hall, key)
    assert (code, anew["id"] == missing["id"]) == (400, False)


def test_account_link_page_shows_nothing_to_another_person(hall: HallClient, window: Window) -> None:
    """Neither the person at this machine nor somebody with another key sees what it is about, or can go on."""
    asker, other = create_key(hall, "dora"), create_key(hall, "bob")
    _, missing = call(hall, asker)
    page = window()
    page.goto(missing["url"])
    for key in (None, other):
        if key is not None:
            sign_in(page, missing["url"], key)
        expect(page.get_by_role("heading", level=1)).to_have_text("Not for you")
        said = page.locator("body").inner_text()
        assert not [word for word in ("google", "Google", "Gmail", "dora") if word in said]
        assert page.get_by_role("button", name="Go on").count() == 0
    assert status(hall, missing) == "pending"


def test_account_link_callback_in_another_browser_is_refused(hall: HallClient, window: Window) -> None:
    """Somebody who is sent the address that the provider leads back to connects nothing with it."""
    key, page = create_key(hall, "erin"), window()
    _, missing = call(hall, key)
    sign_in(page, missing["url"], key)
    page.get_by_role("button", name="Go on to Google").click()
    page.route("**/authorize", lambda route: route.fulfill(response=route.fetch(max_redirects=0), status=200))
    with page.expect_response("**/authorize") as answered:  # a redirect that this browser does not follow
        page.get_by_role("button", name="Allow").click()
    back = answered.value.header_value("location")
    assert back is not None
    victim = window()
    reply = victim.goto(back)
    assert reply is not None
    assert reply.status == 400
    expect(victim.get_by_role("alert")).to_contain_text("This browser did not begin here")
    assert status(hall, missing) == "pending"
    assert call(hall, key)[0] == 400
