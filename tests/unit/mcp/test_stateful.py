"""A session asks its client nothing before the client said that it is initialized."""

import asyncio

import msgspec

from tests.harness.patience import patience
from toolhall import Context, Toolhall, tool
from toolhall.dialects.mcp.protocol import REVISION_2025_11_25, JsonRpcRequest, JsonRpcResponse
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.http.sse import EventStream
from toolhall.mcp.stateful import StatefulSession
from toolhall.model.caller import LOCAL


@tool
async def greet(ctx: Context) -> str:
    given = await ctx.ask("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"Hello, {given.value['name']}!"


async def test_session_question_waits_for_initialized() -> None:
    with Toolhall(greet) as hall:
        session = StatefulSession(
            hall.dispatcher,
            McpEncoder(ServerInfo(name="x", version="1"), REVISION_2025_11_25),
            LOCAL,
            {"elicitation": {}},
        )
        stream = EventStream()
        call = asyncio.create_task(session.answer(JsonRpcRequest(1, "tools/call", {"name": "greet"}), stream, 0))
        for _ in range(20):
            await asyncio.sleep(0)
        assert stream.last_number == 0, "nothing is sent before notifications/initialized"
        session.mark_initialized()
        await stream.wait_until_started()
        session.handle_response(JsonRpcResponse("toolhall-1", {"action": "accept", "content": {"name": "Ada"}}))
        wire = await asyncio.wait_for(call, patience())
        assert msgspec.json.decode(wire.body)["result"]["content"][0]["text"] == "Hello, Ada!"
