"""Tool servers join: who may, with what, from where; and what the hall then says of itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.execution.remote.peer import Wire, peer, whole
from toolhall import Config, Toolhall, tool
from toolhall.http.tool_server_join import UNKNOWN_PEER, HttpPeer, HubPeer, parse_join
from toolhall.model.caller import ADMIN, LOCAL, SERVE_ALL, TRUSTED_SERVER, Caller, serve_scope
from toolhall.model.json import encode

HERE = HttpPeer({"client": ("127.0.0.1", 9)}, {})
REPLICA = "replica-0123456789"
TOKEN = "token-0123456789"


@tool
def pick() -> str:
    return "one"


class House(Toolhall):
    """A hall with a tool server beside it, which answers that it is well."""

    url = ""


async def well(body: bytes, wire: Wire) -> None:
    result = {"status": "healthy", "components": {"tools": {}}}
    wire.write(whole(encode({"type": "response", "id": json.loads(body)["id"], "result": result, "error": None})))


@pytest.fixture
async def hall() -> AsyncIterator[House]:
    async with peer(well) as server:
        hall = House(pick)
        hall.url = server.url
        with hall:
            yield hall


def caller(name: str, *scopes: str) -> Caller:
    return Caller(name, proof="key", scopes=frozenset(scopes))


def declared(name: str = "Calendar", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    return {"tool": {"name": name, "version": version, "capabilities": {"methods": [{"name": "create", **more}]}}}


async def say(hall: House, method: str, by: Caller = LOCAL, sender: HubPeer = HERE, **params: Any) -> Any:
    message = {"type": "request", "id": "1", "method": method, "params": params}
    wire = await hall.hub.answer(json.dumps(message).encode(), by, "", sender)
    reply = json.loads(wire.body)
    return reply["result"] if reply["error"] is None else reply["error"]


async def join(hall: House, by: Caller = LOCAL, sender: HubPeer = HERE, **changed: Any) -> Any:
    params: dict[str, Any] = {"server": "calendars", "replica": REPLICA, "url": hall.url, "token": TOKEN}
    return await say(hall, "join", by, sender, **params | {"tools": [declared()]} | changed)


def served(hall: House) -> list[str]:
    return [entry.id for entry in hall.registry.snapshot.entries if entry.tool.foreign]


async def test_the_person_at_this_machine_joins_and_is_served(hall: House) -> None:
    joined = await join(hall)
    assert len(joined.pop("lease")) == 32
    assert joined == {"heartbeat": 5, "expires": 15, "tools": {"Calendar.create@1.0.0": "active"}}
    assert served(hall) == ["Calendar.create@1.0.0"]


@pytest.mark.parametrize(
    ("scopes", "state"),
    [
        ((serve_scope("Calendar"),), "quarantined"),
        ((SERVE_ALL,), "quarantined"),
        ((serve_scope("Calendar"), TRUSTED_SERVER), "active"),
        ((ADMIN,), "active"),
    ],
)
async def test_a_key_with_the_scope_joins(hall: House, scopes: tuple[str, ...], state: str) -> None:
    assert (await join(hall, caller("ci", *scopes)))["tools"] == {"Calendar.create@1.0.0": state}


@pytest.mark.parametrize(
    "scopes", [(), ("tools:*",), (TRUSTED_SERVER,), (serve_scope("Other"),), (serve_scope("calendar"),)]
)
async def test_nobody_else_joins(hall: House, scopes: tuple[str, ...]) -> None:
    refused = await join(hall, caller("ci", *scopes))
    assert refused["code"] == "FORBIDDEN"
    assert refused["details"]["scopes"] == ["serve:Calendar"]
    assert hall.registration.index.all == ()
    assert len(hall.tool_servers.pools) == 0


async def test_all_toolkits_of_one_join_are_judged_before_any_is_kept(hall: House) -> None:
    by = caller("ci", serve_scope("Calendar"))
    assert (await join(hall, by, tools=[declared(), declared("Mail")]))["code"] == "FORBIDDEN"
    assert hall.registration.index.all == ()


async def test_who_may_run_everything_takes_over_nobody_elses_toolkit(hall: House) -> None:
    """Same words from another caller: it would get the secrets of whoever calls."""
    await join(hall, caller("ada", SERVE_ALL))
    assert "registered by another caller" in (await join(hall, caller("eve", SERVE_ALL)))["message"]
    assert (
        "registered by another"
        in (await join(hall, caller("eve", SERVE_ALL), tools=[declared(version="2.0.0")]))["message"]
    )
    assert "lease" in await join(hall, caller("bob", serve_scope("Calendar")), replica="replica-of-bob-123")
    assert "lease" in await join(hall, caller("ada", SERVE_ALL), replica="another-of-ada-123")


async def test_leases_are_their_owners(hall: House) -> None:
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
async def test_what_cannot_be_is_said(hall: House, changed: dict[str, Any], words: str) -> None:
    refused = await join(hall, **changed)
    assert words in refused["message"]
    assert len(hall.tool_servers.pools) == 0


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://10.0.0.1:80", "http://[fe80::1]"])
async def test_a_tool_server_lives_where_it_joins_from(hall: House, url: str) -> None:
    """Or at a public address, or where the operator opened the door: the hall is sent nowhere else."""
    refused = await join(hall, url=url)
    assert "the hall does not call there" in refused["message"]
    assert hall.registration.index.all == ()


async def test_an_address_that_nobody_knows_opens_nothing(hall: House) -> None:
    assert "does not call there" in (await join(hall, sender=UNKNOWN_PEER))["message"]


async def test_what_a_proxy_says_opens_nothing(hall: House) -> None:
    """Behind one, everybody seems to live on this machine."""
    proxied = HttpPeer({"client": ("127.0.0.1", 9)}, {b"x-forwarded-for": b"198.51.100.7"})
    assert "does not call there" in (await join(hall, sender=proxied))["message"]


async def test_joining_and_leaving_are_recorded_without_the_token(hall: House) -> None:
    lease = (await join(hall))["lease"]
    await say(hall, "leave", lease=lease)
    records: Any = hall.journal.records  # type: ignore[union-attr]
    assert [each.tool for each in records if each.phase is None] == ["join calendars", "leave"]
    assert TOKEN not in str(records)


async def test_a_hall_of_several_processes_is_joined_by_nobody(hall: House) -> None:
    hall.registration.write_lock.read_only_reason = "several processes serve this hall"
    assert "several processes" in (await join(hall))["message"]


async def test_servers_come_and_go_and_the_list_stays(hall: House) -> None:
    """Only what changes the tools is a change of the list."""
    heard: list[int] = []
    lease = (await join(hall))["lease"]
    hall.registry.subscribe(lambda: heard.append(1))
    await join(hall, replica="another-0123456789")
    await say(hall, "leave", lease=lease)
    await join(hall)
    assert heard == []
    assert served(hall) == ["Calendar.create@1.0.0"]


async def test_health_rolls_up_tool_servers(hall: House) -> None:
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
    whole = await say(hall, "health_check")
    assert (whole["status"], whole["components"]["tools"]["Calendar"]) == ("degraded", "degraded")  # nothing runs it


async def test_a_version_that_nothing_runs_shows_beside_one_that_something_does(hall: House) -> None:
    lease = (await join(hall))["lease"]
    await join(hall, replica="another-0123456789", tools=[declared(version="1.0.1")])
    assert (await say(hall, "health_check"))["status"] == "healthy"
    await say(hall, "leave", lease=lease)
    assert (await say(hall, "health_check"))["components"]["tools"]["Calendar"] == "degraded"


async def test_who_cannot_be_reached_gets_no_call(hall: House) -> None:
    """Nothing is kept of it either: it may be another's address."""
    refused = await join(hall, url="http://127.0.0.1:9")
    assert refused["message"].startswith("the hall cannot reach http://127.0.0.1:9: ")
    assert "is it the address that the hall sees? Give another one with --advertise" in refused["message"]
    assert hall.registration.index.all == ()
    assert len(hall.tool_servers.pools) == 0


async def test_who_does_not_answer_in_time_cannot_be_reached(hall: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.http.tool_server_join.REACH_SECONDS", 0.05)

    async def silent(_: bytes, wire: Wire) -> None:
        await wire.gone.wait()

    async with peer(silent) as server:
        assert "no answer to health_check within 0.05 seconds" in (await join(hall, url=server.url))["message"]


async def test_who_is_no_tool_server_cannot_be_reached(hall: House) -> None:
    async def page(_: bytes, wire: Wire) -> None:
        wire.write(whole(b"<html>It works!</html>"))

    async with peer(page) as server:
        assert "the hall cannot reach" in (await join(hall, url=server.url))["message"]


async def test_of_two_that_come_at_once_one_owns_the_toolkit(hall: House) -> None:
    """Both may run everything that nobody else has registered; when they came, nobody had."""
    ada, eve = caller("ada", SERVE_ALL), caller("eve", SERVE_ALL)
    answers = await asyncio.gather(join(hall, ada), join(hall, eve, replica="replica-of-eve-0123"))
    (refused,) = [answer for answer in answers if "lease" not in answer]
    assert "registered by another caller" in refused["message"]
    assert len(hall.tool_servers.pools) == 1
    assert len(hall.registration.index.owners("Calendar")) == 1


async def test_one_declaration_that_is_refused_keeps_out_all_that_came_with_it(hall: House) -> None:
    await join(hall)
    other = declared(params={"type": "object", "required": ["a"], "properties": {"a": {}}})
    refused = await join(hall, replica="another-0123456789", tools=[declared("Mail"), other])
    assert "registered with other content" in refused["message"]
    assert {each.record.toolkit for each in hall.registration.index.all} == {"Calendar"}


async def test_a_join_that_is_printed_shows_no_token(hall: House) -> None:
    params = {"server": "s", "replica": REPLICA, "tools": [declared()], "url": hall.url, "token": TOKEN}
    assert TOKEN not in repr(parse_join(params))


@pytest.mark.parametrize("end", ["leave", "expire", "join elsewhere"])
async def test_a_socket_remembers_nobody_who_is_gone(hall: House, end: str) -> None:
    """One socket may see many replicas come and go."""
    sender = Remembering(unread)
    lease = (await join(hall, sender=sender, url=None, token=None))["lease"]
    assert sender.remembered == 1
    if end == "leave":
        await say(hall, "leave", lease=lease)
    elif end == "expire":
        hall.tool_servers.leases.on_socket_closed(lease)
    else:
        await join(hall, sender=HubPeer(unread), url=None, token=None)
    assert sender.remembered == 0


class Remembering(HubPeer):
    @property
    def remembered(self) -> int:
        return len(self._on_close)


async def unread(_: Any) -> None:
    """Whatever is written here is gone."""


LOOPBACK = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("address", LOOPBACK)
async def test_in_the_profile_server_this_machine_opens_nothing(address: str) -> None:
    """A proxy that does not say that it is one may stand there, and everybody behind it."""
    near = HttpPeer({"client": (address, 9)}, {})
    async with peer(well) as server:
        for more, joins in ((), False), (("127.0.0.1",), True):
            hall = House(pick, config=Config(profile="server", egress_allow=more))
            hall.url = server.url
            with hall:
                found = await join(hall, sender=near)
                assert ("lease" in found) is joins
                assert joins or f"the operator adds '127.0.0.1:{server.port}' to egress_allow" in found["message"]


@pytest.mark.parametrize("address", LOOPBACK)
async def test_in_the_profile_local_this_machine_is_open_from_this_machine(hall: House, address: str) -> None:
    assert "lease" in await join(hall, sender=HttpPeer({"client": (address, 9)}, {}))
