"""The composition root builds and imports only what is used."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import patience
from toolhall import Toolhall
from toolhall.authoring.declaration import tool
from toolhall.config import BadConfig, Config
from toolhall.oauth.providers import ProviderSettings

MAX_MODULES = 250
# The HTTP API, MCP sessions, web pages, the OAuth broker and the pools of tool servers.
SERVING = ("toolhall.http", "toolhall.mcp", "toolhall.web.pages", "toolhall.web.approve", "toolhall.oauth.broker")
POOLS = "toolhall.execution.remote.replica_pools"
UPSTREAMS = (
    "toolhall.app.upstream",
    "toolhall.execution.upstream",
    "toolhall.registration.upstream",
    "toolhall.mcp_client.http",
)
LIST_MODULES = """
import atexit, json, sys
loaded = lambda: [name for name in sys.modules if name.split(".")[0] == "toolhall"]
atexit.register(lambda: json.dump(loaded(), open({out!r}, "w")))
"""
CALL = """
import sys
from toolhall.cli.entry import main
sys.argv = ["toolhall", "call", "Calculator_Add", "a=1", "b=2"]
sys.exit(main())
"""
CLIENT = """
import asyncio
from toolhall import tool
from toolhall.testing import Client

@tool
def add(a: int, b: int) -> int:
    return a + b

async def main() -> None:
    async with Client(add) as client:
        assert await client.call(add, a=1, b=2) == 3
        assert len(await client.list_tools()) == 1

asyncio.run(main())
"""


SERVE_OWN = """
import asyncio, sys
from toolhall import Toolhall

async def main() -> None:
    async with Toolhall() as hall:
        hall.http

asyncio.run(main())
print([name for name in sys.modules if name.startswith({upstreams!r})])
"""


@tool
def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("program", [CALL, CLIENT], ids=["toolhall call", "test client"])
def test_local_call_imports_nothing_that_only_a_server_needs(program: str, tmp_path: Path) -> None:
    out = tmp_path / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", LIST_MODULES.format(out=str(out)) + program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules: list[str] = json.loads(out.read_text())
    assert [name for name in modules if name.startswith((*SERVING, *UPSTREAMS)) or name == POOLS] == []
    assert len(modules) <= MAX_MODULES


def test_constructor_builds_neither_routes_nor_tool_servers_nor_broker() -> None:
    with Toolhall(add) as hall:
        built = vars(hall)
        assert (built["_built_routes"], built["_built_tool_servers"], built["_built_upstreams"]) == (None, None, None)
        assert vars(hall.credentials)["_built_broker"] is None


async def test_open_of_a_hall_that_is_served_builds_its_routes() -> None:
    async with Toolhall(add) as hall:
        assert vars(hall)["_built_routes"].http is hall.http
        assert hall.http.opened


async def test_routes_built_after_open_use_what_was_opened() -> None:
    with Toolhall(add) as hall:
        hall.without_pages()
        await hall.open()
        assert vars(hall)["_built_routes"] is None
        assert hall.api is hall.api
        assert "toolhall_audit_failing" in {metric.name for metric in hall.telemetry.metrics}
        assert hall.credentials.broker.has_pages is False
        await hall.settle()


@pytest.mark.parametrize(
    "settings",
    [
        {"egress_allow": ("no address",)},
        {"providers": {"acme": ProviderSettings(client_id="hall")}},
        {"cedar": "missing.cedar"},
        {"issuers": (), "profile": "server", "oxp_secret": "short"},
    ],
    ids=["egress", "provider", "cedar", "authentication"],
)
def test_settings_that_cannot_work_are_refused_by_the_constructor(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((BadConfig, ValueError)):
        Toolhall(add, config=Config(data=str(tmp_path), **settings))


async def test_tool_servers_built_in_an_open_hall_are_watched() -> None:
    with Toolhall(add) as hall:
        hall.without_pages()
        await hall.open()
        assert hall.tool_servers.leases.is_watching
        await hall.settle()


async def test_routes_built_in_an_open_hall_are_open() -> None:
    with Toolhall(add) as hall:
        hall.without_pages()
        await hall.open()
        assert hall.http.opened
        await hall.settle()


def test_hall_with_a_bad_egress_allow_creates_no_data_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with pytest.raises(BadConfig):
        Toolhall(config=Config(egress_allow=("nonsense!!",), data=str(folder)))
    assert not folder.exists()


def test_served_hall_without_upstreams_imports_nothing_of_them() -> None:
    program = SERVE_OWN.format(upstreams=UPSTREAMS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=patience(), check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
