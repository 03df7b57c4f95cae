"""Tool servers join: who may, with what, from where; and what the hall then says of itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.execution.remote.fake_tool_server import ServerConnection, fake_tool_server, http_response
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


class HallWithToolServer(Toolhall):
    """A hall with a fake tool server that reports itself healthy."""

    url = ""


async def answer_healthy(body: bytes, wire: ServerConnection) -> None:
    result = {"status": "healthy", "components": {"tools": {}}}
    wire.write(
        http_response(encode({"type": "response", "id": json.loads(body)["id"], "result": result, "error": None}))
    )


@pytest.fixture
async def hall() -> AsyncIterator[HallWithToolServer]:
    async with fake_tool_server(answer_healthy) as server:
        hall = HallWithToolServer(pick)
        hall.url = server.url
        with hall:
            yield hall


def caller(name: str, *scopes: str) -> Caller:
    return Caller(name, proof="key", scopes=frozenset(scopes))


def declared(name: str = "Calendar", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    return {"tool": {"name": name, "version": version, "capabilities": {"methods": [{"name": "create", **more}]}}}


async def hub_request(
    hall: HallWithToolServer, method: str, by: Caller = LOCAL, sender: HubPeer = HERE, **params: Any
) -> Any:
    message = {"type": "request", "id": "1", "method": method, "params": params}
    wire = await hall.hub.answer(json.dumps(message).encode(), by, "", sender)
    reply = json.loads(wire.body)
    return reply["result"] if reply["error"] is None else reply["error"]


async def join(hall: HallWithToolServer, by: Caller = LOCAL, sender: HubPeer = HERE, **changed: Any) -> Any:
    params: dict[str, Any] = {"server": "calendars", "replica": REPLICA, "url": hall.url, "token": TOKEN}
    return await hub_request(hall, "join", by, sender, **params | {"tools": [declared()]} | changed)


def served(hall: HallWithToolServer) -> list[str]:
    return [entry.id for entry in hall.registry.snapshot.entries if entry.tool.foreign]


async def test_join_by_local_caller_is_served(hall: HallWithToolServer) -> None:
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
async def test_join_with_serve_scope_is_allowed(hall: HallWithToolServer, scopes: tuple[str, ...], state: str) -> None:
    assert (await join(hall, caller("ci", *scopes)))["tools"] == {"Calendar.create@1.0.0": state}


@pytest.mark.parametrize(
    "scopes", [(), ("tools:*",), (TRUSTED_SERVER,), (serve_scope("Other"),), (serve_scope("calendar"),)]
)
async def test_join_without_scope_is_denied(hall: HallWithToolServer, scopes: tuple[str, ...]) -> None:
    refused = await join(hall, caller("ci", *scopes))
    assert refused["code"] == "FORBIDDEN"
    assert refused["details"]["scopes"] == ["serve:Calendar"]
    assert hall.registration.index.all == ()
    assert len(hall.tool_servers.pools) == 0


async def test_join_with_one_denied_toolkit_registers_none(hall: HallWithToolServer) -> None:
    by = caller("ci", serve_scope("Calendar"))
    assert (await join(hall, by, tools=[declared(), declared("Mail")]))["code"] == "FORBIDDEN"
    assert hall.registration.index.all == ()


async def test_join_with_serve_all_cannot_take_over_toolkits(hall: HallWithToolServer) -> None:
    """Same words from another caller: it would get the secrets of whoever calls."""
    await join(hall, caller("ada", SERVE_ALL))
    assert "registered by another caller" in (await join(hall, caller("eve", SERVE_ALL)))["message"]
    assert (
        "registered by another"
        in (await join(hall, caller("eve", SERVE_ALL), tools=[declared(version="2.0.0")]))["message"]
    )
    assert "lease" in await join(hall, caller("bob", serve_scope("Calendar")), replica="replica-of-bob-123")
    assert "lease" in await join(hall, caller("ada", SERVE_ALL), replica="another-of-ada-123")


async def test_lease_of_another_caller_is_not_found(hall: HallWithToolServer) -> None:
    ada, eve = caller("ada", SERVE_ALL), caller("eve", SERVE_ALL, ADMIN)
    lease = (await join(hall, ada))["lease"]
    for method in ("heartbeat", "leave"):
        assert (await hub_request(hall, method, eve, lease=lease))["code"] == "LEASE_UNKNOWN"
    assert await hub_request(hall, "heartbeat", ada, lease=lease) == {
        "status": "ok",
        "tools": {"Calendar.create@1.0.0": "quarantined"},
    }
    assert await hub_request(hall, "leave", ada, lease=lease) == {"status": "left", "running": 0}
    assert (await hub_request(hall, "heartbeat", ada, lease=lease))["code"] == "LEASE_UNKNOWN"


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
async def test_join_malformed_names_parameter(hall: HallWithToolServer, changed: dict[str, Any], words: str) -> None:
    refused = await join(hall, **changed)
    assert words in refused["message"]
    assert len(hall.tool_servers.pools) == 0


@pytest.mark.parametrize("url", ["http://169.254.169.254", "http://10.0.0.1:80", "http://[fe80::1]"])
async def test_join_url_at_own_address_is_allowed(hall: HallWithToolServer, url: str) -> None:
    """Or at a public address, or where the operator opened the door: the hall is sent nowhere else."""
    refused = await join(hall, url=url)
    assert "the hall does not call there" in refused["message"]
    assert hall.registration.index.all == ()


async def test_join_without_peer_address_allows_no_private_url(hall: HallWithToolServer) -> None:
    assert "does not call there" in (await join(hall, sender=UNKNOWN_PEER))["message"]


async def test_join_through_proxy_allows_no_private_url(hall: HallWithToolServer) -> None:
    """Behind one, everybody seems to live on this machine."""
    proxied = HttpPeer({"client": ("127.0.0.1", 9)}, {b"x-forwarded-for": b"198.51.100.7"})
    assert "does not call there" in (await join(hall, sender=proxied))["message"]


async def test_join_and_leave_are_audited_without_token(hall: HallWithToolServer) -> None:
    lease = (await join(hall))["lease"]
    await hub_request(hall, "leave", lease=lease)
    records: Any = hall.journal.records  # type: ignore[union-attr]
    assert [each.tool for each in records if each.phase is None] == ["join calendars", "leave"]
    assert TOKEN not in str(records)


async def test_join_hall_with_workers_is_denied(hall: HallWithToolServer) -> None:
    hall.registration.write_lock.read_only_reason = "several processes serve this hall"
    assert "several processes" in (await join(hall))["message"]


async def test_leave_keeps_tools_listed(hall: HallWithToolServer) -> None:
    """Only what changes the tools is a change of the list."""
    heard: list[int] = []
    lease = (await join(hall))["lease"]
    hall.registry.subscribe(lambda: heard.append(1))
    await join(hall, replica="another-0123456789")
    await hub_request(hall, "leave", lease=lease)
    await join(hall)
    assert heard == []
    assert served(hall) == ["Calendar.create@1.0.0"]


async def test_health_includes_tool_servers(hall: HallWithToolServer) -> None:
    lease = (await join(hall))["lease"]
    http_response = await hub_request(hall, "health_check", components=["all"])
    assert http_response["components"]["servers"] == {"calendars": "healthy"}
    assert http_response["components"]["tools"]["Calendar"] == "healthy"
    await hub_request(hall, "heartbeat", lease=lease, status="unhealthy")
    http_response = await hub_request(hall, "health_check", components=["servers"])
    assert http_response == {"status": "unhealthy", "components": {"servers": {"calendars": "unhealthy"}}}
    other = await hub_request(hall, "health_check", caller("ci"))
    assert "servers" not in other["components"]
    await hub_request(hall, "heartbeat", lease=lease, status="degraded")
    assert (await hub_request(hall, "health_check"))["status"] == "degraded"
    await hub_request(hall, "leave", lease=lease)
    http_response = await hub_request(hall, "health_check")
    assert (http_response["status"], http_response["components"]["tools"]["Calendar"]) == (
        "degraded",
        "degraded",
    )  # nothing runs it


async def test_health_version_without_replica_is_unhealthy(hall: HallWithToolServer) -> None:
    lease = (await join(hall))["lease"]
    await join(hall, replica="another-0123456789", tools=[declared(version="1.0.1")])
    assert (await hub_request(hall, "health_check"))["status"] == "healthy"
    await hub_request(hall, "leave", lease=lease)
    assert (await hub_request(hall, "health_check"))["components"]["tools"]["Calendar"] == "degraded"


async def test_join_unreachable_url_is_refused(hall: HallWithToolServer) -> None:
    """Nothing is kept of it either: it may be another's address."""
    refused = await join(hall, url="http://127.0.0.1:9")
    assert refused["message"].startswith("the hall cannot reach http://127.0.0.1:9: ")
    assert "is it the address that the hall sees? Give another one with --advertise" in refused["message"]
    assert hall.registration.index.all == ()
    assert len(hall.tool_servers.pools) == 0


async def test_join_probe_timeout_is_refused(hall: HallWithToolServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.http.tool_server_join.REACH_SECONDS", 0.05)

    async def silent(_: bytes, wire: ServerConnection) -> None:
        await wire.gone.wait()

    async with fake_tool_server(silent) as server:
        assert "no answer to health_check within 0.05 seconds" in (await join(hall, url=server.url))["message"]


async def test_join_url_of_other_server_is_refused(hall: HallWithToolServer) -> None:
    async def page(_: bytes, wire: ServerConnection) -> None:
        wire.write(http_response(b"<html>It works!</html>"))

    async with fake_tool_server(page) as server:
        assert "the hall cannot reach" in (await join(hall, url=server.url))["message"]


async def test_join_concurrently_gives_toolkit_one_owner(hall: HallWithToolServer) -> None:
    """Both may run everything that nobody else has registered; when they came, nobody had."""
    ada, eve = caller("ada", SERVE_ALL), caller("eve", SERVE_ALL)
    answers = await asyncio.gather(join(hall, ada), join(hall, eve, replica="replica-of-eve-0123"))
    (refused,) = [answer for answer in answers if "lease" not in answer]
    assert "registered by another caller" in refused["message"]
    assert len(hall.tool_servers.pools) == 1
    assert len(hall.registration.index.owners("Calendar")) == 1


async def test_join_with_one_refused_declaration_registers_none(hall: HallWithToolServer) -> None:
    await join(hall)
    other = declared(params={"type": "object", "required": ["a"], "properties": {"a": {}}})
    refused = await join(hall, replica="another-0123456789", tools=[declared("Mail"), other])
    assert "registered with other content" in refused["message"]
    assert {each.record.toolkit for each in hall.registration.index.all} == {"Calendar"}


async def test_join_repr_hides_token(hall: HallWithToolServer) -> None:
    params = {"server": "s", "replica": REPLICA, "tools": [declared()], "url": hall.url, "token": TOKEN}
    assert TOKEN not in repr(parse_join(params))


@pytest.mark.parametrize("end", ["leave", "expire", "join elsewhere"])
async def test_peer_forgets_ended_leases(hall: HallWithToolServer, end: str) -> None:
    """One socket may see many replicas come and go."""
    sender = InspectablePeer(unread)
    lease = (await join(hall, sender=sender, url=None, token=None))["lease"]
    assert sender.remembered == 1
    if end == "leave":
        await hub_request(hall, "leave", lease=lease)
    elif end == "expire":
        hall.tool_servers.leases.on_socket_closed(lease)
    else:
        await join(hall, sender=HubPeer(unread), url=None, token=None)
    assert sender.remembered == 0


class InspectablePeer(HubPeer):
    @property
    def remembered(self) -> int:
        return len(self._on_close)


async def unread(_: Any) -> None:
    """Whatever is written here is gone."""


LOOPBACK = ["127.0.0.1", "::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("address", LOOPBACK)
async def test_join_in_server_profile_denies_loopback_url(address: str) -> None:
    """A proxy that does not say that it is one may stand there, and everybody behind it."""
    near = HttpPeer({"client": (address, 9)}, {})
    async with fake_tool_server(answer_healthy) as server:
        for more, joins in ((), False), (("127.0.0.1",), True):
            hall = HallWithToolServer(pick, config=Config(profile="server", egress_allow=more))
            hall.url = server.url
            with hall:
                found = await join(hall, sender=near)
                assert ("lease" in found) is joins
                assert joins or f"the operator adds '127.0.0.1:{server.port}' to egress_allow" in found["message"]


@pytest.mark.parametrize("address", LOOPBACK)
async def test_join_in_local_profile_allows_loopback_url(hall: HallWithToolServer, address: str) -> None:
    assert "lease" in await join(hall, sender=HttpPeer({"client": (address, 9)}, {}))
