"""`/api/callers`, `/api/limits` and the calls of grants: counted from the audit, as a hall really wrote it."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.http.api.management_client import manage
from tests.unit.http.api.test_described import check, described
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.http.api.limits import replay
from toolhall.model.call_records import AuditRecord
from toolhall.pipeline.limit import RateLimits
from toolhall.pipeline.rate_buckets import Rate
from toolhall.registration.access import NewGrant, NewKey


class Gate(Toolkit, name="Gate", version="1.0.0"):
    """A gate to open."""

    @tool(level=4)
    def open(self, width: int = 1) -> str:
        """Open the gate."""
        return f"open {width}"

    @tool(level=1)
    def look(self) -> str:
        """Look at the gate."""
        return "closed"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(Gate, config=Config(pair_limit=Rate(per_second=0.001, burst=3))) as hall:
        await hall.open()
        yield hall


async def key(hall: Toolhall, name: str, **wanted: Any) -> dict[str, str]:
    _, secret = await hall.access.keys.create(NewKey(name, **wanted), "test")
    return {"authorization": f"Bearer {secret}"}


async def call(hall: Toolhall, headers: dict[str, str], name: str = "open", times: int = 1) -> list[int]:
    return [(await manage(hall, "POST", f"/tools/Gate/{name}", {}, headers)).status for _ in range(times)]


async def read(hall: Toolhall, path: str) -> Any:
    reply = await manage(hall, "GET", path)
    assert reply.status == 200, reply
    check(await described(hall), path, "get", reply)
    return reply.body


async def test_callers_are_those_of_keys_and_those_seen(hall: Toolhall) -> None:
    ada = await key(hall, "ada", owner="corp:ada")
    await key(hall, "idle", shared=True, scopes=("observe",))
    assert await call(hall, ada, times=2) == [404, 404]
    await hall.access.grants.add(NewGrant("ada", "Gate.open"), "test")
    assert await call(hall, ada) == [200]
    rows = (await read(hall, "/api/callers"))["callers"]
    assert [(row["name"], row["proof"], row["calls"], row["refused"]) for row in rows] == [
        ("ada", "key", 3, 2),
        ("idle", "shared", 0, 0),
    ]
    assert (rows[0]["owner"], rows[0]["scopes"], len(rows[0]["keys"])) == ("corp:ada", ["tools:*"], 1)
    assert (rows[0]["lastAt"] is not None, rows[1]["lastAt"]) == (True, None)
    assert "secret" not in repr(rows)


async def test_calls_made_later_are_counted_too(hall: Toolhall) -> None:
    """Each once, whether they were recorded before or after the first question."""
    ada = await key(hall, "ada")
    for expected in (1, 2, 3):
        await call(hall, ada, "look")
        (row,) = (await read(hall, "/api/callers"))["callers"]
        assert row["calls"] == expected


async def test_grants_say_how_many_calls_they_decided(hall: Toolhall) -> None:
    ada = await key(hall, "ada")
    used = await hall.access.grants.add(NewGrant("ada", "Gate.open"), "test")
    unused = await hall.access.grants.add(NewGrant("eve", "*"), "test")
    await call(hall, ada, times=2)
    await call(hall, ada, "look")
    grants = (await read(hall, "/api/grants"))["grants"]
    assert {grant["id"]: grant["calls"] for grant in grants} == {used.id: 2, unused.id: 0}


async def test_limits_say_who_is_held_back(hall: Toolhall) -> None:
    ada = await key(hall, "ada")
    assert await call(hall, ada, "look", 5) == [200, 200, 200, 429, 429]
    limits = await read(hall, "/api/limits")
    assert limits["perPair"] == {"rate": 0.001, "burst": 3.0}
    assert limits["perTool"] is None
    assert [(each["caller"], each["calls"]) for each in limits["refused"]] == [("ada", 2)]
    pairs = [each for each in limits["fullest"] if each["kind"] == "pair"]
    assert [(each["key"], each["fill"] > 0.9) for each in pairs] == [("ada Gate.look@1.0.0", True)]


async def test_preview_of_the_limits_in_force_refuses_what_was_refused(hall: Toolhall) -> None:
    ada, eve = await key(hall, "ada"), await key(hall, "eve")
    await call(hall, ada, "look", 5)
    await call(hall, eve, "look", 2)
    for body, expected in (
        ({}, {"ada": 2}),
        ({"perPair": None}, {}),
        ({"perPair": {"rate": 0.001, "burst": 1}}, {"ada": 4, "eve": 1}),
        ({"perPair": None, "perTool": {"rate": 0.001, "burst": 6}}, {"eve": 1}),
    ):
        reply = await manage(hall, "POST", "/api/limits/preview", body)
        check(await described(hall), "/api/limits/preview", "post", reply)
        assert reply.body["calls"] == 7, body
        assert {each["caller"]: each["refused"] for each in reply.body["callers"]} == expected, body
        assert reply.body["refused"] == sum(expected.values())
    assert await call(hall, eve, "look") == [200], "a preview takes nothing"


@pytest.mark.parametrize(
    "body", [[], {"perCaller": {}}, {"perCaller": {"rate": 0}}, {"perPair": {"rate": 1, "burst": 0}}, {"other": 1}]
)
async def test_preview_of_wrong_limits_names_the_fix(hall: Toolhall, body: Any) -> None:
    reply = await manage(hall, "POST", "/api/limits/preview", body)
    assert (reply.status, "perCaller" in reply.body["error"]["message"]) == (400, True)


def test_replay_is_in_the_order_in_which_calls_began() -> None:
    """A long call is recorded after those that began later; refused attempts take from the caller alone."""
    rates = RateLimits(caller=Rate(0.1, 2), tool=Rate(0.1, 1), costs={"Kit.dear": 2})

    def record(at: float, tool: str, stage: Any = "audit", us: int = 0) -> AuditRecord:
        return AuditRecord(at, "c", "ada", "rest", tool, "ok", duration_us=us, stage=stage)

    records = [record(1_000.0, "Kit.a"), record(1_001.0, "Kit.b", us=2_000_000), record(1_002.0, "Kit.a")]
    assert replay(rates, records) == (3, Counter(ada=1))
    guesses = [record(1_000.0 + number, f"no.{number}", "find") for number in range(5)]
    assert replay(rates, guesses) == (5, Counter(ada=3))
