"""`/api/servers`: which tool servers there are, and how they are; drain and forget one."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.execution.remote.fake_tool_server import (
    ServerConnection,
    fake_tool_server,
    http_response,
    tool_response,
)
from tests.unit.http.api.management_client import manage, place
from tests.unit.http.api.test_described import check, described
from tests.unit.http.test_tool_server_join import (
    REPLICA,
    HallWithToolServer,
    answer_healthy,
    caller,
    declared,
    hub_request,
    join,
)
from toolhall.execution.remote.replica_pools import HealthProber
from toolhall.model.caller import LOCAL, SERVE_ALL, TRUSTED_SERVER
from toolhall.model.errors import Unavailable
from toolhall.model.messages import CallTool
from toolhall.stores.audit.journal import MemoryJournal

OWNER = caller("calendar-key", SERVE_ALL)


async def answer_calls(body: bytes, wire: ServerConnection) -> None:
    """Answer probes and calls; a call of `Rooms` is lost."""
    message = json.loads(body)
    if message["type"] != "tool_request":
        await answer_healthy(body, wire)
    elif message["tool"] == "Rooms":
        wire.close()
    else:
        wire.write(http_response(tool_response(message["id"], "made")))


@pytest.fixture
async def hall() -> AsyncIterator[HallWithToolServer]:
    """A hall that one replica of the tool server `calendars` has joined."""
    async with fake_tool_server(answer_calls) as server:
        hall = HallWithToolServer()
        hall.url = server.url
        with hall:
            await hall.open()
            yield hall


async def servers(hall: HallWithToolServer) -> list[Any]:
    reply = await manage(hall, "GET", "/api/servers")
    assert reply.status == 200, reply
    found: list[Any] = reply.body["servers"]
    return found


async def test_joined_server_shows_its_replicas(hall: HallWithToolServer) -> None:
    assert await servers(hall) == []
    await join(hall, OWNER)
    await HealthProber(hall.tool_servers.pools).probe_all()
    (row,) = await servers(hall)
    (replica,) = row.pop("replicas")
    assert row == {"name": "calendars", "state": "healthy", "toolkits": ["Calendar"], "caller": "calendar-key"}
    assert replica["since"] <= replica["lastProbeAt"] < replica["leaseEndsAt"]
    for moment in ("since", "lastProbeAt", "leaseEndsAt"):
        del replica[moment]
    address = hall.url.rpartition(":")[2].partition("/")[0]
    assert replica.pop("address").endswith(f":{address}")
    assert replica == {
        "id": REPLICA,
        "state": "healthy",
        "callsInFlight": 0,
        "lastProbeOk": True,
        "breaker": "closed",
        "version": "1.0.0",
        "transport": "http",
        "draining": False,
    }


async def test_lists_show_which_server_a_tool_is_from(hall: HallWithToolServer) -> None:
    await join(hall, OWNER)
    found = (await manage(hall, "GET", "/api/tools?server=calendars")).body
    assert ([each["server"] for each in found["tools"]], found["facets"]["server"]) == (["calendars"], {"calendars": 1})


async def test_drained_server_gets_no_calls_until_it_joins_again(hall: HallWithToolServer) -> None:
    lease = (await join(hall, OWNER))["lease"]
    drained = await manage(hall, "POST", "/api/servers/calendars/drain")
    assert (drained.status, drained.body["replicas"][0]["state"]) == (200, "draining")
    assert drained.body["state"] == "unhealthy"
    with pytest.raises(Unavailable):
        hall.tool_servers.pools.pick("Calendar", "1.0.0")
    await hub_request(hall, "heartbeat", OWNER, lease=lease)
    await HealthProber(hall.tool_servers.pools).probe_all()
    assert (await servers(hall))[0]["replicas"][0]["draining"], "neither a heartbeat nor a probe ends it"
    await join(hall, OWNER)
    (row,) = await servers(hall)
    assert (row["state"], row["replicas"][0]["draining"]) == ("healthy", False)
    assert hall.tool_servers.pools.pick("Calendar", "1.0.0").id == REPLICA


async def test_drained_replica_can_leave(hall: HallWithToolServer) -> None:
    lease = (await join(hall, OWNER))["lease"]
    await manage(hall, "POST", "/api/servers/calendars/drain")
    assert await hub_request(hall, "leave", OWNER, lease=lease) == {"status": "left", "running": 0}
    assert [each["state"] for each in await servers(hall)] == ["gone"]


async def test_only_a_server_that_is_gone_is_forgotten(hall: HallWithToolServer) -> None:
    lease = (await join(hall, OWNER, tools=[declared(), declared("Rooms")]))["lease"]
    refused = await manage(hall, "DELETE", "/api/servers/calendars")
    assert (refused.status, refused.body["error"]["code"]) == (409, "conflict")
    await hub_request(hall, "leave", OWNER, lease=lease)
    (row,) = await servers(hall)
    assert (row["state"], row["toolkits"], row["caller"]) == ("gone", ["Calendar", "Rooms"], "calendar-key")
    removed = await manage(hall, "DELETE", "/api/servers/calendars")
    assert (removed.status, removed.body) == (200, {"removed": "calendars"})
    assert await servers(hall) == []
    assert (await manage(hall, "GET", place("Calendar.create"))).status == 404
    assert (await manage(hall, "DELETE", "/api/servers/calendars")).status == 404


async def test_what_another_server_runs_is_not_forgotten(hall: HallWithToolServer) -> None:
    lease = (await join(hall, OWNER))["lease"]
    await join(hall, OWNER, server="spare", replica="replica-of-spare-1")
    await hub_request(hall, "leave", OWNER, lease=lease)
    assert [(each["name"], each["state"]) for each in await servers(hall)] == [("spare", "healthy")]
    assert (await manage(hall, "DELETE", "/api/servers/calendars")).status == 404
    assert (await manage(hall, "GET", place("Calendar.create"))).status == 200


async def test_changes_are_recorded_whatever_comes_of_them(hall: HallWithToolServer) -> None:
    await join(hall, OWNER)
    await manage(hall, "POST", "/api/servers/calendars/drain")
    await manage(hall, "POST", "/api/servers/other/drain")
    await manage(hall, "DELETE", "/api/servers/calendars")
    assert isinstance(hall.journal, MemoryJournal)
    kept = [(each.tool, each.outcome) for each in hall.journal.records if each.phase is None]
    assert kept[-3:] == [
        ("drain server calendars", "ok"),
        ("drain server other", "NotFound"),
        ("forget server calendars", "Malformed"),
    ]


async def test_records_name_the_server_that_ran_the_call(hall: HallWithToolServer) -> None:
    await join(hall, caller("calendar-key", SERVE_ALL, TRUSTED_SERVER), tools=[declared(), declared("Rooms")])
    for tool in ("Calendar.create", "Rooms.create", "nothing"):
        await hall.dispatcher.answer(CallTool(tool, {}, "test"), LOCAL)

    async def outcomes(query: str) -> list[tuple[str, str | None]]:
        reply = await manage(hall, "GET", f"/api/audit?dialect=test&stage=find,run,audit&{query}")
        assert reply.status == 200, reply
        return [(each["outcome"], each.get("server")) for each in reply.body["records"]]

    ran = [("Unavailable", "calendars"), ("ok", "calendars")]
    assert await outcomes("") == [("NotFound", None), *ran]
    assert await outcomes("server=calen*,other") == ran
    assert await outcomes("server=other") == []


async def test_server_responses_match_openapi(hall: HallWithToolServer) -> None:
    document = await described(hall)
    lease = (await join(hall, OWNER))["lease"]
    one = "/api/servers/{name}"
    check(document, "/api/servers", "get", await manage(hall, "GET", "/api/servers"))
    for name in ("calendars", "none"):
        check(document, f"{one}/drain", "post", await manage(hall, "POST", f"/api/servers/{name}/drain"))
        check(document, one, "delete", await manage(hall, "DELETE", f"/api/servers/{name}"))
    await hub_request(hall, "leave", OWNER, lease=lease)
    check(document, "/api/servers", "get", await manage(hall, "GET", "/api/servers"))
    check(document, one, "delete", await manage(hall, "DELETE", "/api/servers/calendars"))
    assert (await manage(hall, "GET", "/api/servers/calendars")).status == 405
