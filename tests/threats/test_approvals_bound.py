# ruff: noqa: N802 - tests carry the names of their rows
"""A yes belongs to one user's call and is used up, and the records say what it was about."""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest

from tests.threats.issuer import issuing
from tests.unit.web.browser_client import CLOCK, ORIGIN, ApprovalHall, Browser
from toolhall.config import Config, Issuer
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import ALL_TOOLS, LOCAL, Caller
from toolhall.model.errors import NeedsVerification
from toolhall.stores.approvals import Decision
from toolhall.stores.factors import Factor, MemoryFactorStore

FOR_ANN = msgspec.structs.replace(LOCAL, acting_for="ann")
FOR_BEN = msgspec.structs.replace(LOCAL, acting_for="ben")
ISSUED = Caller(
    "idp:alice",
    proof="token",
    person="idp:alice",
    scopes=frozenset({ALL_TOOLS}),
    expires_at=CLOCK * 2,
    authenticated_at=CLOCK,
    short_lived=True,
)
YES = Decision("approved", "local", "totp")


@pytest.fixture
def house() -> Iterator[ApprovalHall]:
    house = ApprovalHall()
    with house.hall:
        yield house


def records(house: ApprovalHall) -> list[AuditRecord]:
    return list(house.hall.journal.records)  # type: ignore[union-attr] # a hall without a folder keeps them in memory


async def approve(house: ApprovalHall, path: str) -> None:
    assert await house.hall.approval_components.approvals.store.decide(path.rpartition("/")[2], YES)


@pytest.mark.threat("C3")
@pytest.mark.parametrize("name", ["unlock", "burn", "sell"])
@pytest.mark.parametrize("other", [FOR_BEN, LOCAL])
async def test_C3_approval_for_one_acting_for_user_is_not_valid_for_another(
    house: ApprovalHall, name: str, other: Caller
) -> None:
    """What was approved for one user does not run for another one, nor for none; for that user it does."""
    await approve(house, await house.ask(name, FOR_ANN))
    assert isinstance(await house.call(name, other), NeedsVerification)
    assert house.ran == []
    await house.call(name, FOR_ANN)
    assert house.ran == [(name, "attic")]


@pytest.mark.threat("C4")
async def test_C4_approval_page_and_api_name_the_user_acted_for(house: ApprovalHall) -> None:
    """The page and the management interface name the user, and the page says that the last call was for another."""
    browser = Browser(house.hall)
    await approve(house, await house.ask("burn", FOR_ANN))
    page = await browser.get(await house.ask("burn", FOR_BEN))
    assert re.findall(r"<dt>User, whose accounts it uses</dt>\s*<dd>(.*?)</dd>", page.body) == ["ben"]
    assert "That was for the user ann." in page.text
    _, told = await browser.api("GET", "/api/approvals")
    assert [each["actingFor"] for each in told["approvals"]] == ["ben"]


@pytest.mark.threat("J7")
async def test_J7_consumed_approval_reset_in_the_database_runs_no_second_call(tmp_path: Path) -> None:
    """Whoever sets a used approval back to approved in the file gets no second call out of it."""
    house = ApprovalHall(Config(data=str(tmp_path)))
    with house.hall:
        await house.hall.open()
        await approve(house, await house.ask("burn"))
        assert await house.call("burn") == b'"burn attic"'
        await asyncio.to_thread(_change, tmp_path, "UPDATE approvals SET state = 'approved'")
        assert isinstance(await house.call("burn"), NeedsVerification)
        assert house.ran == [("burn", "attic")]


@pytest.mark.threat("C8")
@pytest.mark.threat("J7")
async def test_C8_J7_authenticator_whose_counter_was_reset_in_the_database_is_refused(tmp_path: Path) -> None:
    """Whoever sets the counter of an authenticator back in the file makes it worth nothing, instead of an old code."""
    house = ApprovalHall(Config(data=str(tmp_path)))
    with house.hall:
        await house.hall.open()
        code = (await house.generator("local")).code()
        first, second = await house.ask("burn", room="1"), await house.ask("burn", room="2")
        browser = Browser(house.hall)
        assert "Approved" in (await browser.act(first, "approve", code=code)).text
        await asyncio.to_thread(_change, tmp_path, "UPDATE factors SET counter = 0")
        place = f"/api/approvals/{second.rpartition('/')[2]}/approve"
        assert (await browser.api("POST", place, {"code": code}))[0] == 403
        assert (await house.approval(second)).state == "pending"


def _change(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "toolhall.db")) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.mark.threat("C5")
async def test_C5_approval_page_sign_in_with_a_jwt_of_an_issuer_lets_the_person_decide() -> None:
    """A token of a configured issuer signs its person in, who then decides."""
    with issuing() as issuer:
        stated = (Issuer(name="idp", issuer=issuer.url),)
        house = ApprovalHall(Config(profile="server", public_url=ORIGIN, issuers=stated))
        with house.hall:
            await house.grant("*")
            path, token, browser = await house.ask("burn", ISSUED), issuer.token(aud=ORIGIN), Browser(house.hall)
            assert "Run this call?" in (await browser.act(path, "sign_in", key=token)).text
            assert "Denied" in (await browser.act(path, "deny")).text


class ScanCountingFactorStore(MemoryFactorStore):
    """Notes when all factors are read."""

    scans = 0

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        self.scans += person is None
        return await super().all(person)


@pytest.mark.threat("I8")
async def test_I8_unknown_enrolment_link_does_not_read_every_factor(house: ApprovalHall) -> None:
    """A link that leads nowhere costs one look-up, however many factors there are."""
    store = ScanCountingFactorStore()
    house.hall.approval_components.factors.store = store
    assert (await Browser(house.hall).get("/enroll/nothing")).status == 410
    word, _ = await house.hall.approval_components.factors.invite("ann", "local")
    assert (await Browser(house.hall).get(f"/enroll/{word}")).status == 200
    assert store.scans == 0


@pytest.mark.threat("B15")
@pytest.mark.parametrize("name", ["x\r\nset-cookie: a=b", "x\ny", "\u00e9", "%0d%0a"])
async def test_B15_path_with_line_breaks_adds_no_header_to_the_redirect(house: ApprovalHall, name: str) -> None:
    """Where the page sends a browser is spelled in plain letters, whatever was asked for."""
    browser, path, sessions = Browser(house.hall), f"/approve/{name}", house.hall.approval_components.sessions
    await browser.get("/approve/nothing")
    ((cookie, value),) = browser.cookies.items()
    session = sessions.read({b"cookie": f"{cookie}={value}".encode()})
    assert session is not None
    word = sessions.csrf_token(session, f"sign_out {path}")
    reply = await browser.post(path, {"word": word, "action": "sign_out"})
    assert reply.status == 303
    location = reply.header("location")
    assert unquote(location) == path
    assert re.fullmatch(r"[A-Za-z0-9/%_.~-]+", location)


@pytest.mark.threat("C3")
async def test_C3_audit_records_of_request_decision_and_call_name_the_same_approval(house: ApprovalHall) -> None:
    """The record of the call that asked, of the decision, and of the call that ran name the same approval and tool."""
    path = await house.ask("burn")
    approval = path.rpartition("/")[2]
    generator = await house.generator("local")
    await Browser(house.hall).act(path, "approve", code=generator.code())
    await house.call("burn")
    asked, *decided, ran = [each for each in records(house) if each.phase is None]
    assert (asked.outcome, asked.approval, asked.tool) == ("NeedsVerification", approval, "browser_client.burn@0.1.0")
    assert [each.tool for each in decided] == [f"approve {approval} browser_client.burn@0.1.0"]
    assert (ran.outcome, ran.approval, ran.tool) == ("ok", approval, "browser_client.burn@0.1.0")
