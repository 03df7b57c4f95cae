"""Clients of a served hall for every dialect: those over HTTP, and one over the hub's WebSocket."""

import json

from websockets.asyncio.client import connect

from tests.properties.callers.house import Building, Reply
from tests.properties.callers.ways import WAYS, Call, Hub
from tests.servers.served_hall import ServedHall


class HubSocket(Hub):
    """The hub's Tool API over its WebSocket."""

    dialect = "hub socket"

    async def send(self, house: Building, call: Call) -> Reply:
        """`tool_request`."""
        assert isinstance(house, ServedHall)
        message = {"type": "tool_request", "id": "1", "tool": call.toolkit, "method": call.tool, **call.under("params")}
        url, headers = f"ws://127.0.0.1:{house.port}/hub", house.proof(call.caller)
        async with connect(url, additional_headers=headers, proxy=None) as socket:
            await socket.send(json.dumps(message))
            said = await socket.recv(decode=False)
        house.seen += said
        return Reply(200, {}, said)


ALL_DIALECT_CLIENTS = (*WAYS, HubSocket)
