"""The page about using servers: its examples run against a served hall and in memory."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from docs_src import using_servers
from tests.harness.patience import patience
from toolhall import Client, Context, SyncClient, Toolhall, tool
from toolhall.mcp_client import session

PAGE = (Path(__file__).parents[2] / "docs/how-to/use-servers.md").read_text()


@tool(effect="reads")
async def invite(ctx: Context) -> str:
    """Invite somebody."""
    given = await ctx.ask("Who comes?", {"type": "object", "properties": {"name": {"type": "string"}}})
    ctx.progress(1, 1, str(given.value))
    return given.action


@tool(effect="reads", task=True)
async def export(year: int) -> str:
    """Export a year."""
    return f"the orders of {year}"


def type_name(field: str) -> str:
    """What the person types."""
    assert field == "name: "
    return "Ada"


@asynccontextmanager
async def served() -> AsyncGenerator[str]:
    """The URL of the MCP endpoint of a hall."""
    async with Toolhall(using_servers.Weather, invite, export) as hall:
        server = uvicorn.Server(uvicorn.Config(hall, port=0, log_level="error", lifespan="off"))
        serving = asyncio.ensure_future(server.serve())
        async with asyncio.timeout(patience()):
            while not server.started:  # noqa: ASYNC110 - uvicorn tells it in no other way
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
        hall.end_streams()
        server.should_exit = True
        await serving


async def test_using_servers_examples_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", type_name)
    async with served() as url:
        await using_servers.look(url)
        assert "Weather_forecast - Forecast the weather" in (shown := capsys.readouterr().out)
        assert shown.endswith("\n21.5\n")
        await asyncio.to_thread(using_servers.blocking, url)
        assert '"celsius":21.5' in capsys.readouterr().out
        await using_servers.talk(url)
        shown = capsys.readouterr().out
        assert "Who comes?" in shown
        assert "Ada" in shown
        assert await using_servers.export(url) == "the orders of 2026"
    assert await using_servers.in_memory() == using_servers.Forecast("Bergen", 21.5)


def test_using_servers_page_names_every_method_and_error() -> None:
    named = set(re.findall(r"`(\w+)[(`]", PAGE))
    methods = {name for name in vars(Client) if not name.startswith("_")}
    assert methods - {"command"} <= named, "describe it in the table"
    assert {name for name in vars(SyncClient) if not name.startswith("_")} <= methods
    errors = {name for name, each in vars(session).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert errors - {"ResponseTooLarge"} <= named, "describe it in the table"
