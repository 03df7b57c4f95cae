"""The approval page: the order of its parts, hidden characters by name, and a passkey for who has no factor yet."""

from collections.abc import Iterator

import pytest

from tests.unit.web.browser_client import ALICE, ORIGIN, ApprovalHall, Browser
from toolhall.config import Config


@pytest.fixture
def house() -> Iterator[ApprovalHall]:
    house = ApprovalHall()
    with house.hall:
        yield house


async def test_approval_page_asks_first_then_shows_the_arguments_then_takes_the_decision(house: ApprovalHall) -> None:
    path = await house.ask("burn", room="attic")
    await house.generator("local")
    page = await Browser(house.hall).get(path)
    parts = [
        "<h1>Run this call?",
        ">Tool</dt>",
        'id="arguments"',
        "What differs from",
        "Approve with the code",
        ">Deny<",
        "How it was asked for",
        "SHA-256",
        'href="/console/#/approvals"',
    ]
    places = [page.body.index(part) for part in parts]
    assert places == sorted(places)
    assert "..." not in page.text


async def test_approval_page_names_hidden_characters(house: ApprovalHall) -> None:
    page = await Browser(house.hall).get(await house.ask("burn", room="p\u0430y\u200bpal p\u0430y"))
    assert "3 characters in these arguments cannot be seen, or look like others" in page.text
    assert "<U+0430> Cyrillic small letter a; <U+200B> Zero width space." in page.text


async def test_approval_page_of_a_person_without_factor_leads_to_a_passkey(house: ApprovalHall) -> None:
    browser, path = Browser(house.hall), await house.ask("burn")
    page = await browser.get(path)
    assert "Add a passkey for local" in page.text
    fields = {"word": page.word("invite"), "action": "invite"}
    sent = await browser.post(path, fields)
    assert (sent.status, sent.header("location")[:8]) == (303, "/enroll/")
    enrol = await browser.get(sent.header("location"))
    assert (enrol.status, "Add a passkey" in enrol.text) == (200, True)
    assert 'href="/console/#/approvals"' in enrol.body
    await house.generator("local")
    refused = await browser.post(path, fields)
    assert (refused.status, "has a factor already" in refused.text) == (403, True)


async def test_approval_page_makes_no_passkey_for_who_does_not_manage_the_hall() -> None:
    house = ApprovalHall(Config(profile="server", public_url=ORIGIN))
    with house.hall:
        await house.grant("*")
        path, browser = await house.ask("burn", ALICE), Browser(house.hall)
        page = await browser.act(path, "sign_in", key=await house.key("mine", owner="alice"))
        assert "Ask whoever manages this hall for a link that adds a passkey for alice" in page.text
        assert 'value="invite"' not in page.body


async def test_plain_page_leads_to_what_waits_for_this_person_alone(house: ApprovalHall) -> None:
    await house.grant("*")
    path, other = await house.ask("burn"), await house.ask("burn", ALICE)
    page = await Browser(house.hall).get("/console/plain")
    assert (f'href="{path}"' in page.body, other in page.body) == (True, False)
