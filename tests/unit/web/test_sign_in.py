"""Signing in for the console by a form, and out again."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.web.browser_client import ApprovalHall, Browser
from tests.unit.web.test_sessions import OWN_PAGE, SERVER
from toolhall import Toolhall
from toolhall.web.auth import MAX_WRONG_KEYS


@pytest.fixture
async def house() -> AsyncIterator[ApprovalHall]:
    house = ApprovalHall(SERVER)
    with house.hall:
        yield house


async def test_key_typed_once_opens_a_session(house: ApprovalHall) -> None:
    browser = Browser(house.hall, address="192.0.2.7")
    key = await house.key("alice")
    page = await browser.get("/sign-in")
    reply = await browser.post("/sign-in", {"word": page.word("sign_in"), "action": "sign_in", "key": f" {key} "})
    assert (reply.status, reply.header("location")) == (303, "/")
    status, me = await browser.api("GET", "/api/me", **OWN_PAGE)
    assert (status, me["caller"]) == (200, "alice")
    page = await browser.get("/sign-in")
    assert "alice" in page.text
    assert key not in page.body
    reply = await browser.post("/sign-in", {"word": page.word("sign_out"), "action": "sign_out"})
    assert reply.status == 303
    assert (await browser.api("GET", "/api/me", **OWN_PAGE))[0] == 401


async def test_console_signs_out_with_the_token_of_its_session(house: ApprovalHall) -> None:
    browser = Browser(house.hall, address="192.0.2.7")
    await browser.act("/sign-in", "sign_in", key=await house.key("alice"))
    _, me = await browser.api("GET", "/api/me", **OWN_PAGE)
    assert (await browser.post("/sign-out", {"word": "x"})).status == 403
    assert (await browser.post("/sign-out", {"word": me["token"]}, sec_fetch_site="cross-site")).status == 403
    assert (await browser.api("GET", "/api/me", **OWN_PAGE))[0] == 200
    reply = await browser.post("/sign-out", {"word": me["token"]})
    assert (reply.status, reply.header("location")) == (303, "/sign-in")
    assert "Max-Age=0" in reply.header("set-cookie")
    assert (await browser.api("GET", "/api/me", **OWN_PAGE))[0] == 401


async def test_wrong_keys_are_limited_and_a_right_one_is_not(house: ApprovalHall) -> None:
    """Also from this machine, which is where requests through a proxy come from."""
    browser = Browser(house.hall)
    key = await house.key("alice")
    word = (await browser.get("/sign-in")).word("sign_in")
    wrong = {"word": word, "action": "sign_in", "key": "tk_" + "x" * 40}
    statuses = [(await browser.post("/sign-in", wrong)).status for _ in range(MAX_WRONG_KEYS + 1)]
    assert statuses == [403] * MAX_WRONG_KEYS + [429]
    assert (await browser.post("/sign-in", {**wrong, "key": key})).status == 303


@pytest.mark.parametrize("credential", ["", "x", "tk_x", "ts_x", "a b", "\u00e9", "x" * 20_000])
async def test_what_is_no_key_signs_nobody_in(house: ApprovalHall, credential: str) -> None:
    browser = Browser(house.hall, address="192.0.2.7")
    page = await browser.get("/sign-in")
    reply = await browser.post("/sign-in", {"word": page.word("sign_in"), "action": "sign_in", "key": credential})
    assert (reply.status, "not valid here" in reply.text) == (403, True)
    assert (await browser.api("GET", "/api/me", **OWN_PAGE))[0] == 401


async def test_bearer_of_a_session_signs_nobody_in(house: ApprovalHall) -> None:
    sessions = house.hall.approval_components.sessions
    token, _ = sessions.bearer_token(sessions.new(key=await house.key("alice")))
    browser = Browser(house.hall, address="192.0.2.7")
    page = await browser.get("/sign-in")
    reply = await browser.post("/sign-in", {"word": page.word("sign_in"), "action": "sign_in", "key": token})
    assert reply.status == 403


async def test_local_caller_is_told_that_nobody_signs_in() -> None:
    with Toolhall() as hall:
        page = await Browser(hall).get("/sign-in")
        assert (page.status, "local" in page.text, "Sign out" in page.text) == (200, True, False)
