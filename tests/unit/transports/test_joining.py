"""Tool servers join: who may, with what, from where; and what the hall then says of itself."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from toolhall import Toolhall, tool
from toolhall.model.caller import ADMIN, LOCAL, SERVE_ALL, TRUSTED, Caller, serve_scope
from toolhall.transports.sender import NOWHERE, Posting, Sender

HERE = Posting({"client": ("127.0.0.1", 9)}, {})
REPLICA = "replica-0123456789"
TOKEN = "token-0123456789"


@tool
def pick() -> str:
    return "one"


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    with Toolhall(pick) as hall:
        yield hall


def caller(name: str, *scopes: str) -> Caller:
    return Caller(name, proof="key", scopes=frozenset(scopes))


def declared(name: str = "Calendar", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    return {"tool": {"name": name, "version": version, "capabilities": {"methods": [{"name": "create", **more}]}}}


async def say(hall: Toolhall, method: str, by: Caller = LOCAL, sender: Sender = HERE, **params: Any) -> Any:
    message = {"type": "request", "id": "1", "method": method, "params": params}
    wire = await hall.hub.answer(json.dumps(message).encode(), by, "", sender)
    reply = json.loads(wire.body)
    return reply["result"] if reply["error"] is None else reply["error"]


async def join(hall: Toolhall, by: Caller = LOCAL, sender: Sender = HERE, **changed: Any) -> Any:
    params: dict[str, Any] = {"server": "calendars", "replica": REPLICA, "url": "http://127.0.0.1:9", "token": TOKEN}
    return await say(hall, "join", by, sender, **params | {"tools": [declared()]} | changed)


def served(hall: Toolhall) -> list[str]:
    return [entry.id for entry in hall.registry.snapshot.entries if entry.tool.foreign]


async def test_the_person_at_this_machine_joins_and_is_served(hall: Toolhall) -> None:
    joined = await join(hall)
    assert len(joined.pop("lease")) == 32
    assert joined == {"heartbeat": 5, "expires": 15, "tools": {"Calendar.create@1.0.0": "active"}}
    assert served(hall) == ["Calendar.create@1.0.0"]


@pytest.mark.parametrize(
    ("scopes", "state"),
    [
        ((serve_scope("Calendar"),), "quarantined"),
        ((SERVE_ALL,), "quarantined"),
        ((serve_scope("Calendar"), TRUSTED), "active"),
        ((ADMIN,), "active"),
    ],
)
async def test_a_key_with_the_scope_joins(hall: Toolhall, scopes: tuple[str, ...], state: str) -> None:
    assert (await join(hall, caller("ci", *scopes)))["tools"] == {"Calendar.create@1.0.0": state}


@pytest.mark.parametrize("scopes", [(), ("tools:*",), (TRUSTED,), (serve_scope("Other"),), (serve_scope("calendar"),)])
async def test_nobody_else_joins(hall: Toolhall, scopes: tuple[str, ...]) -> None:
    refused = await join(hall, caller("ci", *scopes))
    assert refused["code"] == "FORBIDDEN"
    assert refused["details"]["scopes"] == ["serve:Calendar"]
    assert hall.registrar.ledger.all == ()
    assert len(hall.servers.pools) == 0


async def test_all_toolkits_of_one_join_are_judged_before_any_is_kept(hall: Toolhall) -> None:
    by = caller("ci", serve_scope("Calendar"))
    assert (await join(hall, by, tools=[declared(), declared("Mail")]))["code"] == "FORBIDDEN"
    assert hall.registrar.ledger.all == ()


async def test_who_may_run_everything_takes_over_nobody_elses_toolkit(hall: Toolhall) -> None:
    """Same words from another caller: it would get the secrets of whoever calls."""
    await join(hall, caller("ada", SERVE_ALL))
    assert "registered by another caller" in (await join(hall, caller("eve", SERVE_ALL)))["message"]
    assert (
        "registered by another"
        in (await join(hall, caller("eve", SERVE_ALL), tools=[declared(version="2.0.0")]))["message"]
    )
    assert "lease" in await join(hall, caller("bob", serve_scope("Calendar")), replica="replica-of-bob-123")
    assert "lease" in await join(hall, caller("ada", SERVE_ALL), replica="another-of-ada-123")


async def test_leases_are_their_owners(hall: Toolhall) -> None:
    ada, eve = caller("ada", SERVE_ALL), caller("eve", SERVE_ALL, ADMIN)
    lease = (await join(hall, ada))["lease"]
    for method in ("heartbeat", "leave"):
        assert (await say(hall, method, eve, lease=lease))["code"] == "LEASE_UNKNOWN"
    assert await say(hall, "heartbeat", ada, lease=lease) == {
        "status": "ok",
        "tools": {"Calendar.create@1.0.0": "quarantined"},
    }
    assert await say(hall, "leave", ada, lease=lease) == {"status": "left", "running": 0}
    assert (await say(hall, "heartbeat", ada, lease=lease))["code"] == "LEASE_UNKNOWN"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"server": ""}, "server is a name"),
        ({"server": "a\nb"}, "server is a name"),
        ({"replica": "short"}, "replica is a random text"),
        ({"token": None}, "token is a secret"),
        ({"token": "with blanks in between"}, "token is a secret"),
        ({"token": "line\r\nbreak: 0123456789"}, "token is a secret"),
        ({"url": None}, "or join over a WebSocket"),
        ({"url": "ftp://127.0.0.1"}, "the hall does not call there"),
        ({"url": "http://127.0.0.1:9/?a=b"}, "the hall does not call there"),
        ({"tools": []}, "tools is a list of 1 to 100"),
        ({"tools": "Calendar"}, "join cannot be read"),
        ({"tools": [{"tool": {"name": "x"}}]}, "version"),
    ],
)
async def test_what_cannot_be_is_said(hall: Toolhall, changed: dict[str, Any], words: str) -> None:
    refused = await join(hall, **changed)
    assert words in refused["message"]
    assert len(hall.servers.pools) == 0


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://10.0.0.1:80", "http://[fe80::1]"])
async def test_a_tool_server_lives_where_it_joins_from(hall: Toolhall, url: str) -> None:
    """Or at a public address, or where the operator opened the door: the hall is sent nowhere else."""
    refused = await join(hall, url=url)
    assert "the hall does not call there" in refused["message"]
    assert hall.registrar.ledger.all == ()


async def test_an_address_that_nobody_knows_opens_nothing(hall: Toolhall) -> None:
    assert "does not call there" in (await join(hall, sender=NOWHERE))["message"]


async def test_what_a_proxy_says_opens_nothing(hall: Toolhall) -> None:
    """Behind one, everybody seems to live on this machine."""
    proxied = Posting({"client": ("127.0.0.1", 9)}, {b"x-forwarded-for": b"198.51.100.7"})
    assert "does not call there" in (await join(hall, sender=proxied))["message"]


async def test_joining_and_leaving_are_recorded_without_the_token(hall: Toolhall) -> None:
    lease = (await join(hall))["lease"]
    await say(hall, "leave", lease=lease)
    records: Any = hall.journal.records  # type: ignore[union-attr]
    assert [each.tool for each in records if each.phase is None] == ["join calendars", "leave"]
    assert TOKEN not in str(records)


async def test_a_hall_of_several_processes_is_joined_by_nobody(hall: Toolhall) -> None:
    hall.registrar.turns.frozen = "several processes serve this hall"
    assert "several processes" in (await join(hall))["message"]


async def test_servers_come_and_go_and_the_list_stays(hall: Toolhall) -> None:
    """Only what changes the tools is a change of the list."""
    heard: list[int] = []
    lease = (await join(hall))["lease"]
    hall.registry.subscribe(lambda: heard.append(1))
    await join(hall, replica="another-0123456789")
    await say(hall, "leave", lease=lease)
    await join(hall)
    assert heard == []
    assert served(hall) == ["Calendar.create@1.0.0"]


async def test_health_rolls_up_tool_servers(hall: Toolhall) -> None:
    lease = (await join(hall))["lease"]
    whole = await say(hall, "health_check", components=["all"])
    assert whole["components"]["servers"] == {"calendars": "healthy"}
    assert whole["components"]["tools"]["Calendar"] == "healthy"
    await say(hall, "heartbeat", lease=lease, status="unhealthy")
    whole = await say(hall, "health_check", components=["servers"])
    assert whole == {"status": "unhealthy", "components": {"servers": {"calendars": "unhealthy"}}}
    other = await say(hall, "health_check", caller("ci"))
    assert "servers" not in other["components"]
    await say(hall, "heartbeat", lease=lease, status="degraded")
    assert (await say(hall, "health_check"))["status"] == "degraded"
    await say(hall, "leave", lease=lease)
    assert (await say(hall, "health_check"))["status"] == "healthy"
