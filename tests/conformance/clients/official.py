"""The client of the official Python SDK."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp
import mcp_types
from driver import Driver, main


@asynccontextmanager
async def connected(driver: Driver, era: str, target: list[str]) -> AsyncGenerator[None]:
    """The client of the official SDK."""

    async def elicit(context: object, params: object) -> mcp_types.ElicitResult:
        return mcp_types.ElicitResult(action=driver.action, content=driver.content)

    server = mcp.StdioServerParameters(command=target[1], args=target[2:]) if target[0] == "--" else target[0]
    options = {"mode": era, "elicitation_callback": elicit, "message_handler": driver.on_message, "cache": None}
    async with mcp.Client(server, **options) as client:

        async def call(name: str, arguments: dict[str, Any], progress: Any = None) -> Any:
            return await client.call_tool(name, arguments, progress_callback=progress)

        driver.call, driver.session = call, client.session
        driver.page = lambda cursor: client.list_tools(cursor=cursor)
        yield


if __name__ == "__main__":
    main(connected)
