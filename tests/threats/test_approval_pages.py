# ruff: noqa: N802 - tests carry the names of their rows
"""The approval page takes decisions from its own forms only, and gives a browser nothing to misuse."""

import re
from collections.abc import Iterator

import pytest

from tests.unit.web.browser_client import ALICE, ORIGIN, ApprovalHall, Browser
from toolhall.config import Config
from toolhall.registration.access import NewKey

FOREIGN: dict[str, dict[str, str]] = {
    "cross-site": {"sec_fetch_site": "cross-site"},
    "same-site": {"sec_fetch_site": "same-site"},
    "other port": {"sec_fetch_site": "", "origin": "http://localhost:9999"},
    "https twin": {"origin": "https://localhost:8000"},
    "unknown": {"sec_fetch_site": "", "origin": ""},
    "contradiction": {"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1:8000"},
    "evil": {"sec_fetch_site": "", "origin": "http://evil.example"},
    "null": {"sec_fetch_site": "", "origin": "null"},
}


@pytest.fixture
def house() -> Iterator[ApprovalHall]:
    house = ApprovalHall()
    with house.hall:
        yield house


@pytest.mark.threat("B15")
@pytest.mark.parametrize("kind", FOREIGN)
async def test_B15_approval_form_posted_from_another_origin_is_refused(house: ApprovalHall, kind: str) -> None:
    """A form that a browser sends for another origin's page decides nothing, even with the right word and code."""
    browser, path = Browser(house.hall), await house.ask("burn")
    code = (await house.generator("local")).code()
    word = (await browser.get(path)).word("approve")
    reply = await browser.post(path, {"word": word, "action": "approve", "code": code}, **FOREIGN[kind])
    assert reply.status == 403
    assert (await house.approval(path)).state == "pending"


@pytest.mark.threat("B15")
async def test_B15_approval_form_without_its_own_csrf_token_is_refused(house: ApprovalHall) -> None:
    """Without the word, or with that of another action, page or browser, nothing is decided."""
    browser, path, other = Browser(house.hall), await house.ask("burn"), await house.ask("burn", room="other")
    stranger = Browser(house.hall)
    words = ["", "x", (await browser.get(other)).word("deny"), (await stranger.get(path)).word("deny")]
    words.append((await browser.get(path)).word("deny") + "=")
    for word in words:
        assert (await browser.post(path, {"word": word, "action": "deny"})).status == 403
    right = (await browser.get(path)).word("deny")
    assert (await browser.post(path, {"word": right, "action": "approve", "code": "000000"})).status == 403
    assert (await Browser(house.hall).post(path, {"word": right, "action": "deny"})).status == 403
    assert (await house.approval(path)).state == "pending"
    assert (await browser.post(path, {"word": right, "action": "deny"})).status == 303


@pytest.mark.threat("B15")
async def test_B15_decision_with_another_content_type_method_or_origin_is_refused(house: ApprovalHall) -> None:
    """Only a form decides on the page, and only JSON at the management interface; looking decides nothing."""
    browser, path = Browser(house.hall), await house.ask("burn")
    word = (await browser.get(path)).word("deny")
    for kind in ("text/plain", "application/json", "multipart/form-data"):
        assert (await browser.post(path, {"word": word, "action": "deny"}, content_type=kind)).status == 415
    assert (await browser.get(f"{path}?action=deny&word={word}")).status == 200
    body = b'{"code": "123456"}'
    for action in ("approve", "deny"):
        place = f"/api/approvals/{path.rpartition('/')[2]}/{action}"
        assert (await browser.send("POST", place, body, {"content-type": "text/plain"})).status == 415
        typed = {"content-type": "application/json", "origin": "http://localhost:9999"}
        assert (await browser.send("POST", place, body, typed)).status == 403
    assert (await house.approval(path)).state == "pending"


@pytest.mark.threat("B15")
@pytest.mark.parametrize(("url", "start"), [("https://hall.example", "__Host-"), (ORIGIN, "")])
async def test_B15_session_cookie_is_http_only_same_site_strict_and_secure_over_https(url: str, start: str) -> None:
    """No script reads it, no other site sends it, and where the hall is served by https nobody else can set it."""
    house = ApprovalHall(Config(public_url=url, allowed_hosts=("hall.example",)))
    with house.hall:
        reply = await Browser(house.hall).get("/approve/" + "x" * 22)
    cookie = reply.header("set-cookie")
    assert re.match(f"{start}toolhall-[0-9a-f]{{8}}=", cookie)
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=900"} <= set(cookie.split("; "))
    assert ("Secure" in cookie.split("; ")) is url.startswith("https")
    assert "Domain" not in cookie


@pytest.mark.threat("B15")
async def test_B15_approval_pages_forbid_inline_code_frames_and_foreign_urls_by_csp(house: ApprovalHall) -> None:
    """Every page forbids inline code, frames and foreign addresses, and has none of them."""
    browser, path = Browser(house.hall), await house.ask("burn")
    pages = [await browser.get(path), await browser.get("/approve/nothing"), await browser.get("/enroll/nothing")]
    for page in pages:
        policy = page.header("content-security-policy")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.header("x-content-type-options") == "nosniff"
        assert page.header("cache-control") == "no-store"
        assert not re.search(
            r"<script(?! src=\"/console/-/[0-9a-f]{16}/page.js\" defer></script>)|<style| style=| on\w+=", page.body
        )
        assert not re.search(r"https?://", page.body)
    assert [each.status for each in pages] == [200, 404, 410]


@pytest.mark.threat("B15")
async def test_B15_page_session_ends_when_its_api_key_is_revoked() -> None:
    """A key that was revoked is good for nothing on the page either, from that moment."""
    house = ApprovalHall(Config(profile="server", public_url=ORIGIN))
    with house.hall:
        await house.grant("*")
        path, browser = await house.ask("burn", ALICE), Browser(house.hall)
        key, secret = await house.hall.access.keys.create(NewKey(name="mine", owner="alice"), "local")
        assert "Run this call?" in (await browser.act(path, "sign_in", key=secret)).text
        word = (await browser.get(path)).word("deny")
        await house.hall.access.keys.revoke(key.id)
        assert "Sign in" in (await browser.get(path)).text
        assert (await browser.post(path, {"word": word, "action": "deny"})).status == 400
        assert (await house.approval(path)).state == "pending"


@pytest.mark.threat("B15")
async def test_B15_altered_or_duplicate_session_cookie_is_refused(house: ApprovalHall) -> None:
    """A cookie that was changed, or that is there twice, is none."""
    browser, path = Browser(house.hall), await house.ask("burn")
    word = (await browser.get(path)).word("deny")
    (name, good), *_ = browser.cookies.items()
    swapped = good[:-2] + ("A" if good[-2] != "A" else "B") + good[-1]
    for cookie in (f"{name}={swapped}", f"{name}={good}; {name}={good}", f"{name}=", "x"):
        stranger = Browser(house.hall)
        reply = await stranger.post(path, {"word": word, "action": "deny"}, cookie=cookie)
        assert reply.status == 403
    assert (await house.approval(path)).state == "pending"
