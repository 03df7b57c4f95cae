"""A person links an account in a real browser, which goes to a provider of another site and comes back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import House
from tests.harness.server_process import serving
from tests.servers.authority import Authority, Client, authority

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
def post_office(tmp_path: Path, acme: Authority) -> Iterator[House]:
    """A hall that is registered there once its address is known."""
    host = urlsplit(acme.issuer).netloc
    (tmp_path / "toolhall.toml").write_text(SETTINGS.format(host=host, issuer=acme.issuer, secret=SECRET))
    with serving(tmp_path, POST) as served:
        house = House(served.port)
        acme.clients["hall"] = Client("hall", SECRET, f"{house.url}/oauth/callback", "client_secret_basic")
        yield house


def read(house: House) -> tuple[int, Any]:
    status, said = house.ask("POST", "/tools/post/read", {})
    return status, said["error"]["details"] if status == 403 else said


def test_an_account_is_linked(post_office: House, window: Window) -> None:
    """Browsers hold a form to its policy through every redirect, and send a strict cookie from no other site."""
    page = window()
    status, missing = read(post_office)
    assert status == 403
    page.goto(missing["url"])
    expect(page.get_by_role("heading", level=1)).to_have_text("Link your account at acme?")
    page.get_by_role("button", name="Go on to acme").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The account is linked")
    assert not [each for each in page.context.cookies() if "link" in each.get("name", "")]
    assert read(post_office) == (200, "acme")


def test_who_denies_reads_so(post_office: House, acme: Authority, window: Window) -> None:
    acme.agrees = False
    page = window()
    _, missing = read(post_office)
    page.goto(missing["url"])
    page.get_by_role("button", name="Go on to acme").click()
    expect(page.get_by_role("alert")).to_have_text("Access was denied: nothing was connected.")
    assert read(post_office)[0] == 403
