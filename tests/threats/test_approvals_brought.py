# ruff: noqa: N802 - tests carry the names of their rows
"""A yes is also about whose credentials a call uses: those that its caller brings are shown, and bound."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.web.browser_client import ApprovalHall, Browser
from toolhall import Config, tool
from toolhall.model.caller import LOCAL
from toolhall.model.errors import Malformed, NeedsVerification
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import Secret
from toolhall.stores.approvals import Decision

YES = Decision("approved", "local", "totp")
VALUE = "sk-brought-by-a-caller"
ACCOUNT = CallerCredentials(tokens={"acme": Secret(VALUE)})
BOTH = CallerCredentials(secrets={"KEY": Secret(VALUE)}, tokens={"acme": Secret(VALUE)})


@pytest.fixture
def house() -> Iterator[ApprovalHall]:
    house = ApprovalHall(Config(accept_credentials=("*.wire",)))

    @tool(name="wire", level=9, effect="destroys", account="acme:send", secrets=["KEY"])
    def wire(room: str = "attic") -> str:
        house.ran.append(("wire", room))
        return "sent"

    with house.hall:
        house.hall.add(wire)
        yield house


async def call(house: ApprovalHall, name: str, brought: CallerCredentials | None) -> Any:
    answer = await house.hall.dispatcher.answer(CallTool(name, {}, "test", caller_credentials=brought), LOCAL)
    return "ran" if isinstance(answer, CompletedCall) else answer


@pytest.mark.threat("C3")
async def test_C3_approval_with_one_set_of_caller_credentials_is_not_valid_for_another(house: ApprovalHall) -> None:
    """With the hall's own secret, or with the caller's: these are two calls, and each needs its yes."""
    await house.hall.open()
    await house.hall.credentials.vault.set("KEY", Secret("sk-of-the-hall"), None, "test")
    asked = await call(house, "wire", ACCOUNT)
    assert isinstance(asked, NeedsVerification)
    other = await call(house, "wire", BOTH)
    assert isinstance(other, NeedsVerification)
    assert other.id != asked.id
    assert await house.hall.approval_components.approvals.store.decide(str(asked.id), YES)
    assert isinstance(await call(house, "wire", BOTH), NeedsVerification)
    assert house.ran == []
    assert await call(house, "wire", ACCOUNT) == "ran"


@pytest.mark.threat("C4")
async def test_C4_approval_page_names_caller_credentials_without_their_values(house: ApprovalHall) -> None:
    """The page names them and not their values."""
    asked = await call(house, "wire", BOTH)
    page = await Browser(house.hall).get(f"/approve/{asked.id}")
    assert '"account acme",\n      "secret KEY"' in page.text
    assert VALUE not in page.body


@pytest.mark.threat("C6")
@pytest.mark.parametrize("name", ["burn", "wire"])
async def test_C6_call_with_unaccepted_credentials_is_refused_before_approval_is_asked(
    house: ApprovalHall, name: str
) -> None:
    """What would be refused after the yes is refused before the question."""
    assert isinstance(await call(house, name, CallerCredentials(secrets={"OTHER": Secret(VALUE)})), Malformed)
    _, told = await Browser(house.hall).api("GET", "/api/approvals")
    assert told["approvals"] == []
