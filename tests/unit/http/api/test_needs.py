"""`/api/needs`: what waits for the person who asks, and nothing of what that person may not see."""

import time
from typing import Any

import pytest

from tests.unit.http.api.management_client import PICK, activated, definition, manage, place, registered
from toolhall import Config, Toolhall, tool
from toolhall.http.api.contracts import SOON_SECONDS
from toolhall.model.caller import ADMIN, APPROVE, OBSERVE, Caller
from toolhall.model.messages import CallTool
from toolhall.registration.access import NewGrant, NewKey

NOTHING = {
    "review": {"count": 0},
    "deprecations": [],
    "audit": {"failing": False, "problem": None, "verifiedAt": None},
    "approvals": {"count": 0, "firstEndsAt": None},
    "accounts": {"count": 0, "first": None},
    "servers": {"count": 0, "unwell": []},
    "upstreams": [],
}


@tool(version="1.0.0", level=10)
def launch() -> str:
    """Launch it."""
    return "launched"


def day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(time.time() + seconds))


async def needs(hall: Toolhall, *scopes: str) -> Any:
    """What waits for a caller with these scopes."""
    name = scopes[0].replace(":*", "") if scopes else "plain"
    _, secret = await hall.access.keys.create(NewKey(name, scopes=scopes), "tests")
    reply = await manage(hall, "GET", "/api/needs", None, {"authorization": f"Bearer {secret}"})
    assert reply.status == 200, reply
    return reply.body


@pytest.fixture
def server() -> Config:
    return Config(profile="server", allowed_hosts=("localhost",))


async def test_nothing_waits_in_a_new_hall(server: Config) -> None:
    with Toolhall(launch, config=server) as hall:
        await hall.open()
        assert await needs(hall, ADMIN) == await needs(hall, "tools:*") == NOTHING


async def test_what_ends_soon_and_what_waits_for_review(server: Config) -> None:
    with Toolhall(launch, config=server) as hall:
        await hall.open()
        _, secret = await hall.access.keys.create(NewKey("founder", scopes=(ADMIN,)), "tests")
        founder = {"authorization": f"Bearer {secret}"}
        await registered(hall, definition(), definition("other"), definition("third"), headers=founder)
        await activated(hall, PICK, headers=founder)
        for place_of, sunset in ((PICK, day(5 * 86_400)), ("Kit.other@1.0.0", day(SOON_SECONDS + 3 * 86_400))):
            said = await manage(hall, "POST", place(place_of, "deprecate"), {"sunset": sunset}, founder)
            assert said.status == 200, said
        waiting = sum(each.state == "quarantined" for each in hall.registration.all_records)
        ending = [{"id": PICK, "sunset": day(5 * 86_400), "callers": []}]
        assert await needs(hall, ADMIN) == NOTHING | {"review": {"count": waiting}, "deprecations": ending}
        assert waiting > 0
        assert await needs(hall, OBSERVE) == NOTHING | {"deprecations": ending}
        assert await needs(hall, "tools:*") == NOTHING


async def test_only_questions_that_one_may_decide_wait(server: Config) -> None:
    with Toolhall(launch, config=server) as hall:
        await hall.open()
        await hall.access.grants.add(NewGrant("ada", "*"), "tests")
        ada = Caller("ada", proof="key", person="ada", scopes=frozenset({"tools:*"}), expires_at=9e9)
        (entry,) = hall.registry.snapshot.listed
        await hall.dispatcher.answer(CallTool(entry.id, {}, "test"), ada)
        (waiting,) = await hall.approval_components.approvals.store.pending()
        assert (await needs(hall, ADMIN))["approvals"] == NOTHING["approvals"]
        found = (await needs(hall, APPROVE))["approvals"]
        assert (found["count"], waiting.expires > time.time()) == (1, True)
        assert found["firstEndsAt"] is not None
