"""A hall in front of nine MCP servers that others wrote, started as people start it: `toolhall serve mcp.json`."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.http_client import HOST, fetch, http_request, request_url
from tests.harness.mcp_messages import REVISIONS
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, environment, eventually, server_process, toolhall
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool
from tests.upstreams.listing import listed_names, upstream_states
from tests.upstreams.programs import Program, client_file, programs

NOBODY = "http://127.0.0.1:9/mcp"  # the port of `discard`, where nothing listens
FIRST_SYNC_SECONDS = 20.0  # on a quiet machine; a test waits longer
READY_SECONDS = 1.0


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    return programs(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def hall(chosen: dict[str, Program], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("hall")
    file = client_file(folder / "mcp.json", chosen, Nobody=NOBODY)
    command = toolhall("serve", str(file), "--port", "0", "--json")
    with server_process(command, folder, env=environment(folder, {}), log=folder / "server.log") as server:
        yield server
        children = [psutil.Process(pid) for pid in server.children]
        server.stop(signal.SIGTERM)
        _, left = psutil.wait_procs(children, patience())
        assert not left


def health(server: ServerProcess) -> tuple[int, dict[str, Any]]:
    reply = request_url(f"{server.origin}/health")
    return reply.status, json.loads(reply.body)


def wait_until_listed(server: ServerProcess, chosen: dict[str, Program]) -> None:
    assert eventually(lambda: all(upstream_states(server).get(name) == "ready" for name in chosen)), server.log


def test_hall_is_ready_before_any_server_was_reached(chosen: dict[str, Program], tmp_path: Path) -> None:
    """Starting waits for nobody: neither for children that take seconds to start, nor for a dead URL."""
    file = client_file(tmp_path / "mcp.json", chosen, Nobody=NOBODY)
    command = toolhall("serve", str(file), "--port", "0", "--json")
    with server_process(command, tmp_path, env=environment(tmp_path, {}), log=tmp_path / "server.log") as server:
        began = time.monotonic()
        reply = fetch(server.port, http_request("GET", "/health/ready", [("Host", HOST)]))
        assert reply.status == 200
        assert time.monotonic() - began < READY_SECONDS * patience() / 60


def test_health_is_degraded_and_names_the_dead_server(hall: ServerProcess, chosen: dict[str, Program]) -> None:
    wait_until_listed(hall, chosen)
    status, body = health(hall)
    assert (status, body["status"]) == (200, "degraded")
    assert upstream_states(hall)["Nobody"] != "ready"
    assert "Nobody" in json.dumps(body)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_tool_is_listed_below_its_toolkit(hall: ServerProcess, chosen: dict[str, Program], revision: str) -> None:
    wait_until_listed(hall, chosen)
    names = listed_names(SyncHttpMcpClient(hall.port, revision))
    counted = {name: sum(each.startswith(f"{name}_") for each in names) for name in chosen}
    assert counted == {name: each.tools for name, each in chosen.items()}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_tool_of_every_server_answers(hall: ServerProcess, chosen: dict[str, Program], revision: str) -> None:
    wait_until_listed(hall, chosen)
    client = SyncHttpMcpClient(hall.port, revision)
    for name, program in chosen.items():
        tool, arguments = program.call
        answer = call_tool(client, f"{name}_{tool}", **arguments)
        text = json.dumps(answer.result)
        assert program.says in text, f"{name}: {text[:400]}"
