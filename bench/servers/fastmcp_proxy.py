"""FastMCP's proxy before another server, set up as fast as it goes: stateless, JSON replies, uvloop and httptools."""

# The peers are installed in an environment of their own, which the type checkers do not see.
# mypy: disable-error-code="import-not-found"
# pyright: reportMissingImports=false

import argparse
from typing import Any

import uvloop
from fastmcp import Client
from fastmcp.server import create_proxy


def main() -> None:
    """Serve until a signal stops the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True, help="the address of the server behind it")
    parser.add_argument("--kept", action="store_true", help="one connected client for all calls: FastMCP warns of it")
    given = parser.parse_args()
    uvloop.run(_kept(given.upstream, given.port) if given.kept else _serve(create_proxy(given.upstream), given.port))


async def _kept(upstream: str, port: int) -> None:
    async with Client(upstream) as client:
        await _serve(create_proxy(client), port)


async def _serve(proxy: Any, port: int) -> None:
    await proxy.run_http_async(
        show_banner=False,
        host="127.0.0.1",
        port=port,
        path="/mcp",
        stateless_http=True,
        json_response=True,
        log_level="error",
        uvicorn_config={"http": "httptools", "access_log": False, "log_level": "error"},
    )


if __name__ == "__main__":
    main()
