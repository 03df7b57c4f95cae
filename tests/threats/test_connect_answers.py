# ruff: noqa: N802 - tests carry the names of their rows
"""What comes back from a provider, or pretends to: only the one answer that was asked for, in its time, counts."""

import logging
import re
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from tests.servers.account_broker import authorize_in_browser
from tests.servers.authority import Authority, authority
from tests.unit.web.account_hall import AccountHall, account_hall, agree_at_provider, agree_on_page, open_callback
from tests.unit.web.browser_client import ALICE, ORIGIN, Browser
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import NeedsRequirement
from toolhall.oauth.broker import Broker
from toolhall.oauth.link import LINK_TTL_SECONDS
from toolhall.oauth.providers import is_safe_url
from toolhall.stores.vault.key_sources import generate_key

CALLBACK = "/oauth/callback"
PUBLIC = "https://hall.example"
HOSTILE_URLS = [
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "file:///etc/passwd",
    "http://x$(calc)/",
    "http://acme.example/authorize",
    "https://user:pass@acme.example/",
    "https://acme.example/\r\nset-cookie: a=b",
    "https://acme.example/a b",
    "https://acme.example/#x",
    "https://",
    "//acme.example/",
    "https:acme.example",
    "https://acme.example:99999/",
    "http://localhost.evil.example/",
    "vscode://install",
    "",
]


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


@pytest.mark.threat("D5")
@pytest.mark.parametrize(
    "path",
    [
        "/oauth/callback/",
        "/oauth/callback/../x",
        "/oauth/callback/acme",
        "/oauth/Callback",
        "//oauth/callback",
        "/oauth",
        "/connect/oauth/callback",
    ],
)
async def test_D5_oauth_answer_at_another_spelling_of_the_callback_path_is_refused(
    office: AccountHall, path: str
) -> None:
    """An answer that arrives anywhere else is not taken, and uses nothing up; below it, other providers answer."""
    browser, link = Browser(office.hall), await office.ask()
    back = await agree_at_provider(await agree_on_page(browser, link))
    arrived = await open_callback(browser, back.replace(CALLBACK, path))
    assert arrived.status == (400 if path.startswith(f"{CALLBACK}/") else 404)
    assert exchanged(office) == 0
    assert (await open_callback(browser, back)).status == 200


@pytest.mark.threat("D3")
async def test_D3_provider_without_iss_is_answered_only_at_its_own_callback_path(
    acme: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There alone its answer counts; nobody needs a key there, as the browser brings none."""
    silent = acme.metadata() | {"authorization_response_iss_parameter_supported": False}
    monkeypatch.setattr(acme, "metadata", lambda: silent)
    async with account_hall(acme, profile="server", public_url=ORIGIN, vault_key=generate_key()) as office:
        acme.clients["hall"].redirect_uri = f"{ORIGIN}{CALLBACK}/acme"
        await office.key("ci", owner="alice")
        path, browser = await office.ask(ALICE), Browser(office.hall)
        await browser.act(path, "sign_in", key=await office.key("mine", owner="alice"))
        back = (await authorize_in_browser(await agree_on_page(browser, path))).removeprefix(ORIGIN)
        assert back.startswith(f"{CALLBACK}/acme?")
        for other in (CALLBACK, f"{CALLBACK}/evil", f"{CALLBACK}/acme/", f"{CALLBACK}/ACME"):
            assert (await open_callback(browser, back.replace(f"{CALLBACK}/acme", other))).status == 400
        assert exchanged(office) == 0
        assert (await open_callback(browser, back)).status == 200


@pytest.mark.threat("D5")
async def test_D5_redirect_uri_ignores_forwarded_host_headers(acme: Authority) -> None:
    """The redirect address is the one from the settings, byte for byte, whatever the request says of itself."""
    forged = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https", "forwarded": "host=evil.example"}
    async with account_hall(acme, profile="server", public_url=ORIGIN, vault_key=generate_key()) as office:
        await office.key("ci", owner="alice")
        path, browser = await office.ask(ALICE), Browser(office.hall)
        page = await browser.act(path, "sign_in", key=await office.key("mine", owner="alice"))
        reply = await browser.post(path, {"word": page.word("connect"), "action": "connect"}, **forged)
    assert reply.status == 303
    assert answer_of(reply.header("location"))["redirect_uri"] == f"{ORIGIN}{CALLBACK}"


@pytest.mark.threat("D5")
async def test_D5_plain_http_public_url_makes_no_account_link(acme: Authority) -> None:
    """Where the browser would come back in the clear, there is no link at all."""
    async with account_hall(acme, public_url="http://hall.example") as office:
        answer = await office.call()
        assert isinstance(answer, NeedsRequirement)
        assert (answer.missing[0].url, "https" in answer.message) == (None, True)


@pytest.mark.threat("D6")
async def test_D6_oauth_answer_replayed_with_its_cookie_is_refused(office: AccountHall) -> None:
    """The same answer again, also with its cookie kept, is nothing."""
    browser, path = Browser(office.hall), await office.ask()
    back = await agree_at_provider(await agree_on_page(browser, path))
    kept = dict(browser.cookies)
    done = await open_callback(browser, back)
    (taken,) = [value.decode() for name, value in done.headers if name == b"set-cookie"]
    assert (done.status, "Max-Age=0" in taken.split("; ")) == (200, True)
    assert (await open_callback(browser, back)).status == 400
    browser.cookies = kept
    assert (await open_callback(browser, back)).status == 400
    assert exchanged(office) == 1


@pytest.mark.threat("D6")
async def test_D6_forged_oauth_state_is_refused_and_leaves_the_right_answer_valid(office: AccountHall) -> None:
    """A state that is missing, changed, doubled or of another link is refused; the right answer still counts."""
    browser, path = Browser(office.hall), await office.ask()
    right = answer_of(await agree_at_provider(await agree_on_page(browser, path)))
    other = await office.hall.credentials.broker.start_link(LOCAL, "acme", ())
    elsewhere = answer_of(await agree_at_provider(await agree_on_page(Browser(office.hall), f"/connect/{other.id}")))
    link_id, _, random = right["state"].partition(".")
    wrong = [
        urlencode(right | {"state": state})
        for state in ("", "x", link_id, f"{link_id}.", f"{link_id}.x", f"{link_id}.{random}x", f".{random}")
    ]
    wrong += [urlencode({name: value for name, value in right.items() if name != "state"}), "", "%ff", "a=b;state=x"]
    wrong += [f"{urlencode(right)}&{urlencode({name: right[name]})}" for name in ("state", "code", "iss")]
    wrong += [urlencode(elsewhere), urlencode(right | {"state": elsewhere["state"]})]
    for query in wrong:
        reply = await open_callback(browser, f"{CALLBACK}?{query}")
        assert (reply.status, reply.header("set-cookie")) == (400, ""), query
    assert exchanged(office) == 0
    assert (await open_callback(browser, f"{CALLBACK}?{urlencode(right)}")).status == 200


@pytest.mark.threat("D6")
async def test_D6_oauth_answer_without_the_exact_link_cookie_is_refused(office: AccountHall) -> None:
    """Without the cookie, with another value, or with two of them, the answer is nothing."""
    browser, path = Browser(office.hall), await office.ask()
    back = await agree_at_provider(await agree_on_page(browser, path))
    (name,) = [each for each in browser.cookies if "link" in each]
    good = browser.cookies[name]
    for cookie in (
        "a=b",
        f"{name}=",
        f"{name}=x",
        f"{name}={good}x",
        f"{name}={good}; {name}={good}",
        f"x{name}={good}",
    ):
        assert (await open_callback(Browser(office.hall), back, cookie=cookie)).status == 400, cookie
    assert exchanged(office) == 0
    assert (await open_callback(browser, back)).status == 200
    assert len(good) >= 43, "256 bits"


@pytest.mark.threat("D6")
async def test_D6_oauth_answer_after_ten_minutes_is_refused(
    office: AccountHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes after it was asked for, a link is gone, and so is what was on its way."""
    browser, path = Browser(office.hall), await office.ask()
    back = await agree_at_provider(await agree_on_page(browser, path))
    link = await office.link(path)
    assert link.expires - link.created == LINK_TTL_SECONDS == 600
    store = office.hall.credentials.broker.tokens.store
    monkeypatch.setattr(store, "_clock", lambda: link.expires + 1)
    assert (await open_callback(browser, back)).status == 400
    assert (await browser.get(path)).status == 404
    assert exchanged(office) == 0


@pytest.mark.threat("D6")
async def test_D6_callback_by_background_fetch_or_post_is_refused(office: AccountHall) -> None:
    """Nothing that another site's page loads in the background, or posts, gets there."""
    browser, path = Browser(office.hall), await office.ask()
    back = await agree_at_provider(await agree_on_page(browser, path))
    for mode in ("no-cors", "cors", "websocket"):
        assert (await open_callback(browser, back, **{"sec-fetch-mode": mode})).status == 403
    assert (await browser.post(back, {})).status == 405
    assert (await open_callback(browser, back)).status == 200


@pytest.mark.threat("D6")
@pytest.mark.parametrize("url", [PUBLIC, ORIGIN])
async def test_D6_link_cookie_is_http_only_same_site_lax_and_ends_with_the_link(acme: Authority, url: str) -> None:
    """No script reads it; where the hall is served by https nobody else can set it; it ends with the link."""
    async with account_hall(acme, public_url=url) as office:
        browser = Browser(office.hall)
        link = await office.hall.credentials.broker.start_link(LOCAL, "acme", ())
        host = {"host": urlsplit(url).netloc, "origin": url}
        page = await browser.get(f"/connect/{link.id}", host=host["host"])
        reply = await browser.post(f"/connect/{link.id}", {"word": page.word("connect"), "action": "connect"}, **host)
    name, _, said = reply.header("set-cookie").partition("=")
    secure = url == PUBLIC
    assert re.fullmatch(f"{'__Host-' if secure else ''}toolhall-link-{link.id}-[0-9a-f]{{8}}", name)
    expected = {"Path=/", "Max-Age=600", "HttpOnly", "SameSite=Lax"} | ({"Secure"} if secure else set())
    assert set(said.split("; ")[1:]) == expected


@pytest.mark.threat("D7")
@pytest.mark.parametrize("url", HOSTILE_URLS)
async def test_D7_unsafe_authorize_url_is_not_redirected_to_and_is_logged(
    office: AccountHall, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if everything before it let such an address through, the page does not; the operator reads why."""

    async def misled(_: Broker, link_id: str, visitor: Caller) -> tuple[str, str]:
        return url, "nonce"

    assert not is_safe_url(url)
    browser, path = Browser(office.hall), await office.ask()
    page = await browser.get(path)
    monkeypatch.setattr(Broker, "consent", misled)
    with caplog.at_level(logging.WARNING, "toolhall.pages"):
        reply = await browser.post(path, {"word": page.word("connect"), "action": "connect"})
    assert (reply.status, reply.header("location"), reply.header("set-cookie")) == (400, "", "")
    assert "nobody is sent to acme" in caplog.text
    assert not url or url not in reply.body + caplog.text
    assert [each.outcome for each in office.recorded()] == ["LinkFailed"]


@pytest.mark.threat("D7")
@pytest.mark.parametrize("name", ["x</code><script>alert(1)</script>", 'x" onload="alert(1)', "x\u202ecod.exe"])
async def test_D7_markup_in_a_tool_name_is_escaped_on_the_account_link_page(office: AccountHall, name: str) -> None:
    """Whatever a caller or a tool is called, it is text on the page."""
    link = await office.hall.credentials.broker.start_link(LOCAL, "acme", (), name)
    page = await Browser(office.hall).get(f"/connect/{link.id}")
    assert page.status == 200
    assert not re.search(
        r"<script(?! src=\"/console/-/[0-9a-f]{16}/page.js\" defer></script>)|\" onload=|\u202e", page.body
    )
