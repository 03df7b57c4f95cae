"""Callers without `observe` read the records of their own calls, and nothing that their answers did not tell them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.http.api.management_client import manage
from toolhall import Config, Toolhall, tool
from toolhall.model.caller import OBSERVE
from toolhall.registration.access import NewGrant, NewKey

HIDDEN, UNKNOWN = "test_own_calls.hidden@1.0.0", "test_own_calls.absent@1.0.0"


@tool(version="1.0.0", level=2)
def shown() -> str:
    """Show it."""
    return "shown"


@tool(version="1.0.0", level=5)
def hidden() -> str:
    """Hide it."""
    return "hidden"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(shown, hidden, config=Config(profile="server", allowed_hosts=("localhost",))) as hall:
        await hall.open()
        yield hall


async def key(hall: Toolhall, name: str, owner: str | None = None, **more: Any) -> dict[str, str]:
    """The headers of a new key."""
    _, secret = await hall.access.keys.create(NewKey(name, owner=owner, **more), "tests")
    return {"authorization": f"Bearer {secret}"}


async def call(hall: Toolhall, headers: dict[str, str], name: str = "shown") -> int:
    return (await manage(hall, "POST", f"/tools/test_own_calls/{name}", {}, headers)).status


async def records(hall: Toolhall, headers: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    reply = await manage(hall, "GET", f"/api/audit{query}", None, headers)
    assert reply.status == 200, reply
    found: list[dict[str, Any]] = reply.body["records"]
    return found


@pytest.mark.threat("B28")
async def test_caller_reads_its_own_calls_and_no_others(hall: Toolhall) -> None:
    """Also not those of a key with the same name that another person is responsible for."""
    ada, bob, ben = await key(hall, "ci", "ada"), await key(hall, "ci", "bob"), await key(hall, "ben")
    for each in (ada, bob, ben):
        assert await call(hall, each) == 200
    for each, caller, person in ((ada, "ci", "ada"), (bob, "ci", "bob"), (ben, "ben", None)):
        (own,) = await records(hall, each)
        assert (own["caller"], own.get("person"), own["outcome"]) == (caller, person, "ok")
        one = await manage(hall, "GET", f"/api/calls/{own['call']}", None, each)
        assert (one.status, one.body["kind"], one.body["tool"]["by"]) == (200, "ok", "")
    (own,) = await records(hall, ada)
    assert (await manage(hall, "GET", f"/api/calls/{own['call']}", None, bob)).status == 404
    assert await records(hall, bob, f"?call={own['call']}") == []
    assert await records(hall, bob, "?caller=ben") == []


@pytest.mark.threat("B28")
async def test_caller_learns_nothing_of_tools_that_are_hidden_from_it(hall: Toolhall) -> None:
    """A call of one is shown like that of a name that nobody knows, whatever is filtered."""
    ci, observer = await key(hall, "ci"), await key(hall, "olga", scopes=(OBSERVE,))
    assert [await call(hall, ci, name) for name in ("hidden", "absent")] == [404, 404]
    told = await records(hall, observer)
    assert {each["tool"] for each in told if each["caller"] == "ci"} >= {HIDDEN}, "observers see which it was"
    own = await records(hall, ci)
    varying = {"at", "number", "call", "durationUs", "bytesOut", "bytesIn"}
    absent, secret = [{name: each[name] for name in each.keys() - varying} for each in own]
    assert absent == secret
    shapes = [await one_call(hall, ci, each["call"]) for each in own]
    assert shapes[0] == shapes[1]
    for query in ("tool=*hidden*", "tool=*absent*", "grant=*", "verdict=deny", "level=1", "stage=authorize"):
        assert await records(hall, ci, f"?{query}") == [], query
    for query in ("stage=find", "outcome=NotFound", "outcome=refused"):
        assert len(await records(hall, ci, f"?{query}")) == 2, query


async def one_call(hall: Toolhall, headers: dict[str, str], call_id: str) -> dict[str, Any]:
    """A call without what differs between any two."""
    shown = (await manage(hall, "GET", f"/api/calls/{call_id}", None, headers)).body
    rows = [{**each, "us": None} for each in shown["stages"]]
    return {**shown, "call": None, "end": None, "stages": rows}


@pytest.mark.threat("B28")
async def test_rule_that_decided_is_not_told(hall: Toolhall) -> None:
    ci = await key(hall, "ci")
    await hall.access.grants.add(NewGrant("ci", "test_own_calls.hidden"), "tests")
    assert await call(hall, ci, "hidden") == 200
    (end, *_) = await records(hall, ci)
    assert "grant" not in end
    assert (await manage(hall, "GET", f"/api/calls/{end['call']}", None, ci)).body["grant"] is None
    assert await records(hall, ci, "?grant=g_*") == []


@pytest.mark.threat("B28")
async def test_changes_and_callers_that_nobody_can_tell_apart_are_left_out(hall: Toolhall) -> None:
    ci, shared = await key(hall, "ci"), await key(hall, "crowd", shared=True)
    assert (await manage(hall, "POST", "/api/keys", {"name": "x"}, ci)).status == 403
    assert await records(hall, ci) == []
    assert (await manage(hall, "GET", "/api/audit", None, shared)).status == 403
    assert (await manage(hall, "GET", "/api/audit")).status == 401
