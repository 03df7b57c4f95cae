"""A person connects an account in a real browser: from the hall's page to the provider's, and back."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.harness.processes import ServerProcess

Window = Callable[..., Page]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The example toolkit with its stand-ins."""
    with CliRunner(Path(tmp_path_factory.mktemp("connecting"))).serve() as server:
        yield server


def read_mail(served: ServerProcess) -> tuple[int, str]:
    """The status of a call, and the page to which its user is sent, if there is one."""
    request = Request(f"{served.url}/oxp/tools/call", method="POST", headers={"Content-Type": "application/json"})
    request.data = json.dumps({"$schema": "urn:oxp:1.0", "request": {"tool_id": "Gmail.GetEmails"}}).encode()
    try:
        with urlopen(request, timeout=patience()) as reply:
            return reply.status, ""
    except HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)["missing_requirements"]["authorization"][0]["url"]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])
def test_account_link_page_deny_links_nothing_and_allow_links_the_account(
    served: ServerProcess, window: Window, scripts: bool
) -> None:
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


def disconnect(served: ServerProcess) -> None:
    with urlopen(f"{served.url}/api/accounts", timeout=patience()) as reply:
        (account,) = json.load(reply)["accounts"]
    with urlopen(Request(f"{served.url}/api/accounts/{account['id']}", method="DELETE"), timeout=patience()):
        pass
