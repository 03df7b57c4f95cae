"""A person connects an account in a real browser: from the hall's page to the provider's, and back."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.cli import CliRunner
from tests.harness.http_client import request_url
from tests.harness.server_process import ServerProcess

Window = Callable[..., Page]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The example toolkit with its stand-ins."""
    with CliRunner(Path(tmp_path_factory.mktemp("connecting"))).serve() as server:
        yield server


def read_mail(served: ServerProcess) -> tuple[int, str]:
    """The status of a call, and the page to which its user is sent, if there is one."""
    message = {"$schema": "urn:oxp:1.0", "request": {"tool_id": "Gmail.GetEmails"}}
    reply = request_url(f"{served.url}/oxp/tools/call", message)
    if reply.status == 200:
        return reply.status, ""
    return reply.status, reply.json["missing_requirements"]["authorization"][0]["url"]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "plain"])
def test_account_link_page_deny_links_nothing_and_allow_links_the_account(
    served: ServerProcess, window: Window, scripts: bool
) -> None:
    page = window(java_script_enabled=scripts)
    for answer, heading in (("Deny", "The account was not linked"), ("Allow", "The account is linked")):
        status, url = read_mail(served)
        assert status == 400
        page.goto(url)
        page.get_by_role("button", name="Go on to Google").click()
        expect(page.get_by_role("heading", name="Stand-in for Google")).to_be_visible()
        page.get_by_role("button", name=answer).click()
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert read_mail(served) == (200, "")
    disconnect(served)


def disconnect(served: ServerProcess) -> None:
    (account,) = request_url(f"{served.url}/api/accounts").json["accounts"]
    assert request_url(f"{served.url}/api/accounts/{account['id']}", method="DELETE").status < 300
