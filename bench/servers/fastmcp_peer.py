"""The benchmark's tool on FastMCP, set up as fast as it goes: stateless, JSON replies, uvloop and httptools."""

# The peers are installed in an environment of their own, which the type checkers do not see.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

import argparse

from fastmcp import FastMCP
from fastmcp.tools import Tool
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
    parser.add_argument("--session", action="store_true", help="keep sessions, as 2025-11-25 has them")
    given = parser.parse_args()
    server = FastMCP("peer")
    first = Tool.from_function(add)
    server.add_tool(first)
    for number in range(1, given.tools):  # copies, because reading 10,000 functions takes it a minute
        about = f"Tool number {number}: adds two numbers and returns the sum."
        server.add_tool(first.model_copy(update={"name": f"tool_{number:05d}", "description": about}))
    if given.port is None:
        server.run("stdio", show_banner=False)
    else:
        server.run(
            "http",
            host="127.0.0.1",
            port=given.port,
            path="/mcp",
            stateless_http=not given.session,
            json_response=True,
            show_banner=False,
            log_level="error",
            uvicorn_config={"loop": "uvloop", "http": "httptools", "access_log": False, "log_level": "error"},
        )


if __name__ == "__main__":
    main()
