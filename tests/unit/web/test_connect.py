"""A person links an account: on our page, at the provider, and back; and whatever else may happen on the way."""

import json
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.servers.authority import Authority, authority
from tests.unit.web.account_hall import (
    SCOPES,
    AccountHall,
    account_hall,
    agree_at_provider,
    agree_on_page,
    open_callback,
)
from tests.unit.web.browser_client import ALICE, ORIGIN, Browser
from toolhall.model.caller import LOCAL
from toolhall.stores.vault.key_sources import generate_key


@pytest.fixture
def acme() -> Iterator[Authority]:
    with authority() as server:
        yield server


@pytest.fixture
async def accounts(acme: Authority) -> AsyncIterator[AccountHall]:
    async with account_hall(acme) as accounts:
        yield accounts


async def status(browser: Browser, path: str) -> tuple[int, str]:
    reply = await browser.get(f"{path}/status")
    assert reply.header("cache-control") == "no-store"
    return reply.status, json.loads(reply.body)["status"]


async def test_connect_links_account(accounts: AccountHall) -> None:
    browser, path = Browser(accounts.hall), await accounts.ask()
    assert await status(browser, path) == (200, "pending")
    back = await agree_at_provider(await agree_on_page(browser, path))
    assert await status(browser, path) == (200, "pending")
    done = await open_callback(browser, back)
    assert (done.status, "The account is linked" in done.text) == (200, True)
    assert await status(browser, path) == (200, "completed")
    assert await accounts.call() == b'"acme"'
    assert "The account is linked" in (await browser.get(path)).text
    assert [(each.tool.rpartition(" ")[0], each.outcome, each.caller) for each in accounts.recorded()] == [
        ("agree to link acme", "ok", "local"),
        ("link acme", "ok", "local"),
    ]


async def test_connect_page_shows_requested_access(accounts: AccountHall) -> None:
    browser, path = Browser(accounts.hall), await accounts.ask()
    page = await browser.get(path)
    for said in ("acme", urlsplit(accounts.acme.issuer).netloc, *SCOPES, "Post.read 1.0.0", "local", "localhost:8000"):
        assert said in page.text
    sent = dict(parse_qsl(urlsplit(await agree_on_page(browser, path)).query))
    assert tuple(sent["scope"].split()) == SCOPES
    assert page.body.count("<li>") == len(SCOPES)


async def test_callback_page_shows_nothing_of_redirect(accounts: AccountHall) -> None:
    browser = Browser(accounts.hall)
    back = await agree_at_provider(await agree_on_page(browser, await accounts.ask()))
    done = await open_callback(browser, back)
    (issued,) = accounts.acme.issued
    answer = dict(parse_qsl(urlsplit(back).query))
    for hidden in (issued.access, issued.refresh or "", answer["code"], answer["state"]):
        assert hidden not in done.body
    assert done.header("referrer-policy") == "no-referrer"
    assert done.header("cache-control") == "no-store"


async def test_callback_denied_links_nothing(accounts: AccountHall) -> None:
    accounts.acme.agrees = False
    browser, path = Browser(accounts.hall), await accounts.ask()
    back = await agree_at_provider(await agree_on_page(browser, path))
    answer = dict(parse_qsl(urlsplit(back).query))
    said = urlencode(answer | {"error_description": "<script>call 0800-12345</script>"})
    done = await open_callback(browser, f"/oauth/callback?{said}")
    assert (done.status, "denied" in done.text, "0800" in done.body) == (400, True, False)
    assert await status(browser, path) == (200, "failed")
    assert "was not linked" in (await browser.get(path)).text
    assert await accounts.ask() != path, "a new call has a new link"


async def test_connect_two_links_in_one_browser(acme: Authority) -> None:
    async with account_hall(acme) as accounts:
        browser, path = Browser(accounts.hall), await accounts.ask()
        first = await agree_at_provider(await agree_on_page(browser, path))
        begun = await accounts.hall.credentials.broker.start_link(LOCAL, "acme", ("mail.read",))
        second = await agree_at_provider(await agree_on_page(browser, f"/connect/{begun.id}"))
        assert [(await open_callback(browser, each)).status for each in (first, second)] == [200, 200]


async def test_connect_again_invalidates_previous_redirect(accounts: AccountHall) -> None:
    browser, path = Browser(accounts.hall), await accounts.ask()
    first = await agree_at_provider(await agree_on_page(browser, path))
    second = await agree_at_provider(await agree_on_page(browser, path))
    assert (await open_callback(browser, first)).status == 400
    assert (await open_callback(browser, second)).status == 200


async def test_callback_provider_unavailable_shows_error(accounts: AccountHall) -> None:
    path = await accounts.ask()
    broker = accounts.hall.credentials.broker
    accounts.acme.metadata = dict  # type: ignore[method-assign]
    page = await Browser(accounts.hall).get(path)
    assert (page.status, "cannot be used now" in page.text) == (400, True)
    assert (await broker.find_link(path.rpartition("/")[2])) is not None


@pytest.mark.parametrize("path", ["/connect/nothing", "/connect/" + "x" * 22, "/connect/", "/connect/a/b"])
async def test_connect_unknown_link_is_not_found(accounts: AccountHall, path: str) -> None:
    browser = Browser(accounts.hall)
    page = await browser.get(path)
    assert (page.status, "leads nowhere" in page.text) == (404, True)
    assert await status(browser, path.rstrip("/")) == (404, "failed")


async def test_connect_terminal_link_has_no_button(accounts: AccountHall) -> None:
    link = await accounts.hall.credentials.broker.start_link(LOCAL, "acme", (), None, "paste")
    browser = Browser(accounts.hall)
    page = await browser.get(f"/connect/{link.id}")
    assert (page.status, "terminal" in page.text, 'value="connect"' in page.body) == (200, True, False)


@pytest.fixture
async def served(acme: Authority) -> AsyncIterator[AccountHall]:
    """In the server profile, people sign in with their keys."""
    async with account_hall(acme, profile="server", public_url=ORIGIN, vault_key=generate_key()) as accounts:
        await accounts.key("ci", owner="alice")
        yield accounts


async def test_connect_requires_sign_in(served: AccountHall) -> None:
    path, browser = await served.ask(ALICE), Browser(served.hall)
    there, nowhere = await browser.get(path), await Browser(served.hall).get("/connect/" + "x" * 22)
    assert (there.status, "Sign in" in there.text) == (200, True)
    assert there.text == nowhere.text, "nobody is told whether there is one"
    page = await browser.act(path, "sign_in", key=await served.key("mine", owner="alice"))
    assert "Link your account at acme?" in page.text
    done = await open_callback(browser, await agree_at_provider(await agree_on_page(browser, path)))
    assert done.status == 200
    assert await served.call(ALICE) == b'"acme"'


async def test_callback_needs_no_session(served: AccountHall) -> None:
    """The session's cookie is strict, so a browser that comes from the provider does not send it."""
    path, browser = await served.ask(ALICE), Browser(served.hall)
    await browser.act(path, "sign_in", key=await served.key("mine", owner="alice"))
    back = await agree_at_provider(await agree_on_page(browser, path))
    browser.cookies = {name: value for name, value in browser.cookies.items() if "link" in name}
    assert (await open_callback(browser, back)).status == 200


async def test_connect_sign_out_ends_session(served: AccountHall) -> None:
    path, browser = await served.ask(ALICE), Browser(served.hall)
    await browser.act(path, "sign_in", key=await served.key("mine", owner="alice"))
    assert "Sign in" in (await browser.act(path, "sign_out")).text


async def test_connect_sign_in_with_wrong_key_is_refused(served: AccountHall) -> None:
    path, browser = await served.ask(ALICE), Browser(served.hall)
    page = await browser.act(path, "sign_in", key="th_wrong")
    assert (page.status, "not valid here" in page.text) == (403, True)
