"""A caller of one place: plain REST for values and refusals, OXP for what a caller brings along, MCP for the rest."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

from tests.harness.http_client import NO_HEADERS, HttpClient, Message, Response, http_client
from tests.harness.mcp_client import HttpMcpClient, http_mcp_client
from tests.interfaces.running.ways import Place
from toolhall.model.json import Json


class Refusal(NamedTuple):
    """What REST says of an error."""

    code: str
    message: str
    details: Message


class Reach:
    """The tools of the kit, by their short names."""

    def __init__(self, place: Place, http: HttpClient) -> None:
        self.place = place
        self._http = http

    async def post(self, path: str, message: Json, headers: Mapping[str, str] = NO_HEADERS) -> Response:
        """Send a message by POST."""
        return await self._http.send(json.dumps(message).encode(), headers, path=path)

    async def rest(self, tool: str, arguments: Json, headers: Mapping[str, str] = NO_HEADERS) -> Response:
        """Call a tool by plain REST."""
        return await self.post(f"/tools/Kit/{tool}", arguments, headers)

    async def value(self, tool: str, **arguments: Json) -> Any:
        """What a tool returned."""
        said = await self.rest(tool, arguments)
        assert said.status == 200, said
        return said.json

    async def refusal(self, tool: str, **arguments: Json) -> Refusal:
        """How a call was refused, or failed."""
        said = await self.rest(tool, arguments)
        assert said.status != 200, said
        error = said.json["error"]
        return Refusal(error["code"], error["message"], error.get("details", {}))

    async def oxp(self, tool: str, arguments: Message, context: Message | None = None) -> Response:
        """Call a tool by OXP, and bring along what it may need."""
        request = {"tool_id": f"Kit.{tool}", "input": arguments, "context": context or {}}
        return await self.post("/oxp/tools/call", {"request": request})

    async def keep(self, secret: str, value: str) -> None:
        """Set a secret in the hall's vault."""
        path = f"/api/secrets/{secret}"
        reply = await self._http.send({"value": value}, method="PUT", path=path)
        assert reply.status == 200, reply

    def talk(self, revision: str) -> AbstractAsyncContextManager[HttpMcpClient]:
        """A conversation in a revision of MCP, with somebody who can be asked everything."""
        return http_mcp_client(self.place.origin, revision)


@asynccontextmanager
async def reached(place: Place) -> AsyncGenerator[Reach]:
    """A caller of this place, until the block ends."""
    async with http_client(place.origin) as http:
        yield Reach(place, http)
