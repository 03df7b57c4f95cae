# ruff: noqa: N802 - tests carry the names of their rows
"""The pages that link accounts: nobody is sent away unasked, and everybody reads where it leads."""

import re
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.servers.authority import Authority, authority
from tests.threats.test_approval_pages import FOREIGN
from tests.unit.web.account_hall import AccountHall, account_hall, agree_at_provider, agree_on_page, open_callback
from tests.unit.web.browser_client import ALICE, ORIGIN, Browser
from toolhall.model.caller import LOCAL
from toolhall.model.errors import NeedsRequirement
from toolhall.stores.vault.key_sources import generate_key

CALLBACK = "/oauth/callback"
PUBLIC = "https://hall.example"


@pytest.fixture
def acme() -> Iterator[Authority]:
    with authority() as server:
        yield server


@pytest.fixture
async def office(acme: Authority) -> AsyncIterator[AccountHall]:
    async with account_hall(acme) as office:
        yield office


def answer_of(back: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(back).query))


def exchanged(office: AccountHall) -> int:
    """How many codes were taken to the provider."""
    return office.acme.count("/token")


@pytest.mark.threat("D1")
async def test_D1_authorize_url_of_another_browser_links_no_account(office: AccountHall) -> None:
    """The victim follows the attacker's own authorize URL and agrees there: at the callback that is nothing."""
    path = await office.ask()
    captured = await agree_on_page(Browser(office.hall), path)
    victim = Browser(office.hall)
    await victim.get(path)
    reply = await open_callback(victim, await agree_at_provider(captured))
    assert (reply.status, "did not begin here" in reply.text) == (400, True)
    assert (exchanged(office), (await office.link(path)).state) == (0, "pending")
    assert isinstance(await office.call(), NeedsRequirement)


@pytest.mark.threat("D1")
async def test_D1_account_link_page_sets_no_cookie_or_state_before_consent(office: AccountHall) -> None:
    """Looking at the page sets no cookie of the link, and leaves nothing that an answer could belong to."""
    path, browser = await office.ask(), Browser(office.hall)
    await browser.get(path)
    assert not [name for name in browser.cookies if "link" in name]
    link = await office.link(path)
    assert (link.sealed, link.browser) == (b"", "")
    assert office.acme.count("/authorize") == 0
    forged = urlencode({"state": f"{link.id}.x", "code": "stolen"})
    assert (await open_callback(browser, f"{CALLBACK}?{forged}")).status == 400


@pytest.mark.threat("D1")
@pytest.mark.parametrize("kind", FOREIGN)
async def test_D1_consent_form_posted_from_another_origin_is_refused(office: AccountHall, kind: str) -> None:
    """A form that a browser sends for another origin's page sends nobody away, even with the right word."""
    browser, path = Browser(office.hall), await office.ask()
    word = (await browser.get(path)).word("connect")
    reply = await browser.post(path, {"word": word, "action": "connect"}, **FOREIGN[kind])
    assert (reply.status, reply.header("location")) == (403, "")
    assert (await office.link(path)).browser == ""


@pytest.mark.threat("D1")
async def test_D1_consent_form_without_its_own_csrf_token_is_refused(office: AccountHall) -> None:
    """Without the word, or with that of another action, link or browser, nobody is sent away."""
    browser, path = Browser(office.hall), await office.ask()
    other = await office.hall.credentials.broker.start_link(LOCAL, "acme", ())
    words = ["", "x", (await browser.get(f"/connect/{other.id}")).word("connect")]
    words.append((await Browser(office.hall).get(path)).word("connect"))
    for word in words:
        assert (await browser.post(path, {"word": word, "action": "connect"})).status == 403
    assert (await office.link(path)).browser == ""


@pytest.mark.threat("D1")
@pytest.mark.parametrize("shared", [False, True])
async def test_D1_account_link_opened_by_another_person_is_forbidden_and_shows_nothing(
    acme: Authority, shared: bool
) -> None:
    """Whoever else is signed in reads that it is not for them, and can send nobody away; so does a shared key."""
    async with account_hall(acme, profile="server", public_url=ORIGIN, vault_key=generate_key()) as office:
        await office.key("ci", owner="alice")
        path, browser = await office.ask(ALICE), Browser(office.hall)
        key = await office.key("alice" if shared else "mallory", "admin", owner=None, shared=shared)
        page = await browser.act(path, "sign_in", key=key)
        assert (page.status, "for another person" in page.text) == (403, True)
        assert not re.search(r"acme|mail\.read|Post\.read", page.text)
        word = office.hall.approval_components.sessions.csrf_token
        session = office.hall.approval_components.sessions.read({b"cookie": _cookie(browser)})
        assert session is not None
        sent = await browser.post(path, {"word": word(session, f"connect {path}"), "action": "connect"})
        assert (sent.status, sent.header("location")) == (403, "")
        assert (await office.link(path)).browser == ""


def _cookie(browser: Browser) -> bytes:
    return "; ".join(f"{name}={value}" for name, value in browser.cookies.items()).encode()


@pytest.mark.threat("D12")
@pytest.mark.parametrize(("url", "host", "warned"), [(PUBLIC, "hall.example", False), (ORIGIN, "localhost:8000", True)])
async def test_D12_account_link_page_names_the_exact_redirect_host_and_warns_of_loopback(
    acme: Authority, url: str, host: str, warned: bool
) -> None:
    """Where the browser comes back is on the page; that any program of this machine could be there, too."""
    async with account_hall(acme, public_url=url) as office:
        link = await office.hall.credentials.broker.start_link(LOCAL, "acme", ("mail.read",))
        page = await Browser(office.hall).get(f"/connect/{link.id}", host=host)
    assert f"<dt>Leads back to</dt><dd><code>{host}</code></dd>" in page.body
    assert ("the computer that you sit at" in page.text) is warned


@pytest.mark.threat("D1")
async def test_D1_account_link_pages_forbid_inline_code_frames_and_foreign_urls_by_csp(office: AccountHall) -> None:
    """As for approvals; the page before a provider may send its form on to https, because browsers ask that of it."""
    browser, path = Browser(office.hall), await office.ask()
    pages = [await browser.get(path), await browser.get("/connect/nothing"), await open_callback(browser, CALLBACK)]
    for page in pages:
        policy = page.header("content-security-policy")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.header("x-frame-options") == "DENY"
        assert page.header("cache-control") == "no-store"
        assert not re.search(
            r"<script(?! src=\"/console/-/[0-9a-f]{16}/page.js\" defer></script>)|<style| style=| on\w+=", page.body
        )
        assert not re.search(r"https?://", page.body)
    assert [each.status for each in pages] == [200, 404, 400]
    assert [each.header("content-security-policy").count("https:") for each in pages] == [1, 0, 0]
