"""A person links an account in a real browser, which goes to a provider of another site and comes back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import HallClient
from tests.servers.authority import Authority, Client, authority
from tests.threats.served import serving

Window = Callable[..., Page]
POST = Path(__file__).with_name("post.py")
SECRET = "client-secret-of-the-hall"
SETTINGS = """
egress_allow = ["{host}"]

[providers.acme]
issuer = "{issuer}"
client_id = "hall"
client_secret = "{secret}"
"""


@pytest.fixture
def acme() -> Iterator[Authority]:
    with authority() as server:
        yield server


@pytest.fixture
def mail_hall(tmp_path: Path, acme: Authority) -> Iterator[HallClient]:
    """A hall that is registered there once its address is known."""
    host = urlsplit(acme.issuer).netloc
    (tmp_path / "toolhall.toml").write_text(SETTINGS.format(host=host, issuer=acme.issuer, secret=SECRET))
    with serving(tmp_path, POST) as served:
        hall = HallClient(served.port)
        acme.clients["hall"] = Client("hall", SECRET, f"{hall.url}/oauth/callback", "client_secret_basic")
        yield hall


def read(hall: HallClient) -> tuple[int, Any]:
    status, said = hall.ask("POST", "/tools/post/read", {})
    return status, said["error"]["details"] if status == 403 else said


def test_account_link_page_links_an_account_at_a_provider_of_another_site(
    mail_hall: HallClient, window: Window
) -> None:
    """Browsers hold a form to its policy through every redirect, and send a strict cookie from no other site."""
    page = window()
    status, missing = read(mail_hall)
    assert status == 403
    page.goto(missing["url"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Link your account at acme?")
    page.get_by_role("button", name="Go on to acme").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The account is linked")
    assert not [each for each in page.context.cookies() if "link" in each.get("name", "")]
    assert read(mail_hall) == (200, "acme")


def test_account_link_page_denied_at_the_provider_links_nothing(
    mail_hall: HallClient, acme: Authority, window: Window
) -> None:
    acme.agrees = False
    page = window()
    _, missing = read(mail_hall)
    page.goto(missing["url"])
    page.get_by_role("button", name="Go on to acme").click()
    expect(page.get_by_role("alert")).to_have_text("Access was denied: nothing was connected.")
    assert read(mail_hall)[0] == 403
