"""The client of FastMCP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import fastmcp
from driver import Driver, main
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport


@asynccontextmanager
async def connected(driver: Driver, era: str, target: list[str]) -> AsyncGenerator[None]:
    """FastMCP's client."""

    async def elicit(message: str, kind: object, params: object, context: object) -> ElicitResult:
        return ElicitResult(action=driver.action, content=driver.content)

    server = StdioTransport(command=target[1], args=target[2:]) if target[0] == "--" else target[0]
    options = {"mode": era, "elicitation_handler": elicit, "message_handler": driver.on_message}
    async with fastmcp.Client(server, **options) as client:

        async def call(name: str, arguments: dict[str, Any], progress: Any = None) -> Any:
            return await client.call_tool_mcp(name, arguments, progress_handler=progress)

        driver.call, driver.session = call, client.session
        driver.page = lambda cursor: client.list_tools_mcp(cursor=cursor)
        yield


if __name__ == "__main__":
    main(connected)
