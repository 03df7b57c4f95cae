"""A session asks its client nothing before the client said that it is initialized."""

import asyncio

import msgspec

from toolhall import Context, Toolhall, tool
from toolhall.dialects.mcp.jsonrpc import Request, Response
from toolhall.dialects.mcp.revisions import NOVEMBER
from toolhall.dialects.mcp.write import Server, Writer
from toolhall.model.caller import LOCAL
from toolhall.transports.mcp.legacy import Session
from toolhall.transports.stream import Stream


@tool
async def greet(ctx: Context) -> str:
    given = await ctx.ask("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"Hello, {given.value['name']}!"


async def test_questions_wait_for_initialized() -> None:
    with Toolhall(greet) as hall:
        session = Session(hall.hall, Writer(Server(name="x", version="1"), NOVEMBER), LOCAL, {"elicitation": {}})
        stream = Stream()
        call = asyncio.create_task(session.answer(Request(1, "tools/call", {"name": "greet"}), stream, 0))
        for _ in range(20):
            await asyncio.sleep(0)
        assert stream.last == 0, "nothing is sent before notifications/initialized"
        session.greet()
        await stream.started()
        session.reply(Response("toolhall-1", {"action": "accept", "content": {"name": "Ada"}}))
        wire = await asyncio.wait_for(call, 10)
        assert msgspec.json.decode(wire.body)["result"]["content"][0]["text"] == "Hello, Ada!"
