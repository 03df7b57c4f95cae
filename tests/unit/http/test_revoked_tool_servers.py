"""A tool server whose key is revoked is called no more from that moment on, also before its next heartbeat."""

import logging

import pytest

from tests.unit.execution.remote.fake_tool_server import ServerConnection, fake_tool_server
from tests.unit.http.api.management_client import manage
from tests.unit.http.asgi_client import asked
from tests.unit.http.test_overload_endpoints import JOIN, create_key, open_socket, request
from tests.unit.http.test_tool_server_join import TOKEN, answer_healthy
from toolhall import Config, Toolhall

CONFIG = Config(profile="server", egress_allow=("127.0.0.1",))


async def test_revoked_key_ends_http_replica() -> None:
    async with fake_tool_server(answer_healthy) as server:
        with Toolhall(config=CONFIG) as hall:
            key, by = await create_key(hall, "calendars", "serve:Calendar", "trusted")
            other, _ = await create_key(hall, "calendars", "serve:Calendar")
            _, boss = await create_key(hall, "boss", "admin")
            join = request("j", "join", **JOIN, url=server.url, token=TOKEN)
            assert (await asked(hall, "/hub", "POST", join, by))[0] == 200
            assert (await manage(hall, "DELETE", f"/api/keys/{other}", headers=boss)).status == 200
            assert len(hall.tool_servers.pools) == 1, "it was another key of that name"
            assert (await manage(hall, "DELETE", f"/api/keys/{key}", headers=boss)).status == 200
            assert len(hall.tool_servers.pools) == 0
            await hall.settle()


async def test_revoked_key_ends_websocket_replica() -> None:
    with Toolhall(config=CONFIG) as hall:
        key, by = await create_key(hall, "calendars", "serve:Calendar", "trusted")
        async with open_socket(hall, **by) as server:
            server.say(request("j", "join", **JOIN))
            assert "lease" in (await server.answer("j"))["result"]
            await hall.access.keys.revoke(key)
            assert len(hall.tool_servers.pools) == 0


async def test_key_revoked_during_join_is_refused() -> None:
    """The hall asks the server how it is in between."""
    with Toolhall(config=CONFIG) as hall:
        key, by = await create_key(hall, "calendars", "serve:Calendar", "trusted")

        async def revoking(body: bytes, wire: ServerConnection) -> None:
            await hall.access.keys.revoke(key)
            await answer_healthy(body, wire)

        async with fake_tool_server(revoking) as server:
            join = request("j", "join", **JOIN, url=server.url, token=TOKEN)
            status, said = await asked(hall, "/hub", "POST", join, by)
            assert (status, said["error"]["code"]) == (401, "UNAUTHENTICATED")
            assert len(hall.tool_servers.pools) == 0
            await hall.settle()


@pytest.mark.parametrize("stops", [False, True])
async def test_stopping_hall_logs_no_lost_sockets(caplog: pytest.LogCaptureFixture, stops: bool) -> None:
    with Toolhall(config=Config()) as hall, caplog.at_level(logging.WARNING, "toolhall.toolservers"):
        await hall.open()
        async with open_socket(hall) as server:
            server.say(request("j", "join", **JOIN))
            await server.answer("j")
            if stops:
                hall.end_streams()
        assert ["without leaving" in each.getMessage() for each in caplog.records] == ([] if stops else [True])
