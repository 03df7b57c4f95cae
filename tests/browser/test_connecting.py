"""A person connects an account in a real browser: from the hall's page to the provider's, and back."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from tests.cli.shell import PATIENCE, Serving, Shell

Window = Callable[..., Page]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The example toolkit with its stand-ins."""
    with Shell(Path(tmp_path_factory.mktemp("connecting"))).serving() as server:
        yield server


def read_mail(served: Serving) -> tuple[int, str]:
    """The status of a call, and the page to which its user is sent, if there is one."""
    request = Request(f"{served.url}/oxp/tools/call", method="POST", headers={"Content-Type": "application/json"})
    request.data = json.dumps({"$schema": "urn:oxp:1.0", "request": {"tool_id": "Gmail.GetEmails"}}).encode()
    try:
        with urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, ""
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)["missing_requirements"]["authorization"][0]["url"]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])
def test_a_no_connects_nothing_and_a_yes_does(served: Serving, window: Window, scripts: bool) -> None:
    page = window(java_script_enabled=scripts)
    for answer, heading in (("Deny", "The account was not linked"), ("Allow", "The account is linked")):
        status, url = read_mail(served)
        assert status == 400
        page.goto(url)
        page.get_by_role("button", name="Go on to google").click()
        expect(page.get_by_role("heading", name="Stand-in for Google")).to_be_visible()
        page.get_by_role("button", name=answer).click()
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert read_mail(served) == (200, "")
    disconnect(served)


def disconnect(served: Serving) -> None:
    with urlopen(f"{served.url}/api/accounts", timeout=PATIENCE) as reply:
        (account,) = json.load(reply)["accounts"]
    with urlopen(Request(f"{served.url}/api/accounts/{account['id']}", method="DELETE"), timeout=PATIENCE):
        pass
