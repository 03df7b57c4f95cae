"""The benchmark's tool on the official SDK's high-level server: stateless, JSON replies, uvloop and httptools."""

# The peers are installed in an environment of their own, which the type checkers do not see.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

import argparse

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from typing_extensions import TypedDict


class Sum(TypedDict):
    """What every server here returns."""

    result: float


async def add(a: float, b: float) -> Sum:
    """Add two numbers."""
    return {"result": a + b}


def main() -> None:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, help="without it: standard input and output")
    parser.add_argument("--tools", type=int, default=1)
    given = parser.parse_args()
    tools = [Tool.from_function(add)]
    for number in range(1, given.tools):  # copies, because reading 10,000 functions takes it long
        about = f"Tool number {number}: adds two numbers and returns the sum."
        tools.append(tools[0].model_copy(update={"name": f"tool_{number:05d}", "description": about}))
    server = MCPServer("peer", log_level="ERROR", tools=tools)
    if given.port is None:
        server.run("stdio")
    else:
        app = server.streamable_http_app(json_response=True, stateless_http=True)
        uvicorn.run(app, port=given.port, loop="uvloop", http="httptools", access_log=False, log_level="error")


if __name__ == "__main__":
    main()
