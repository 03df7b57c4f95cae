"""Real clients: of MCP over HTTP and stdio against `toolhall serve tests/conformance/accept.py`, and of OXP."""

import json
import subprocess
from typing import Any

import pytest

from tests.conformance.serving import HERE, served, stdio_command
from tests.harness.mcp_messages import MODERN
from tests.harness.patience import patience
from tests.harness.server_process import ROOT

ACCEPT = "accept.py"
PYTHON = str(ROOT / ".venv-clients/bin/python")
OFFICIAL = [PYTHON, str(HERE / "clients/official.py")]
FAST = [PYTHON, str(HERE / "clients/fast.py")]
OPEN_TOOLS = [PYTHON, str(HERE / "clients/open_tools.py")]
NODE = [str(HERE / "node/node_modules/node/bin/node"), str(HERE / "node/client.mjs")]


CLIENTS = {
    "python-mcp-legacy": [*OFFICIAL, "legacy"],
    "python-mcp-modern": [*OFFICIAL, "auto"],
    "python-fastmcp-legacy": [*FAST, "legacy"],
    "python-fastmcp-modern": [*FAST, "auto"],
    "typescript-v2-legacy": [*NODE, "v2", "legacy"],
    "typescript-v2-modern": [*NODE, "v2", "auto"],
    "typescript-v1-legacy": [*NODE, "v1", "legacy"],
}
CHECKS = {
    "bad_arguments",
    "cancel",
    "elicitation",
    "list",
    "list_changed",
    "parallel",
    "progress",
    "structured",
    "tool_error",
    "unknown_tool",
}


OXP_CHECKS = {
    "bad_input",
    "failing_call",
    "good_call",
    "health",
    "idempotent",
    "list",
    "retries",
    "unknown_tool",
    "version_of_oxp",
    "versions",
}


def drive(client: str, target: list[str]) -> None:
    """Run a client of MCP, and fail for every check that failed."""
    said = run([*CLIENTS[client], *target])
    assert said["revision"] == (MODERN if client.endswith("modern") else "2025-11-25")
    assert set(said["checks"]) == CHECKS
    assert_passed(said["checks"])


def run(command: list[str]) -> dict[str, Any]:
    """Run a client; what it says at its end."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3 * patience(), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def assert_passed(checks: dict[str, str | None]) -> None:
    failed = {name: problem for name, problem in checks.items() if problem is not None}
    assert not failed, "\n\n".join(f"{name}: {problem}" for name, problem in failed.items())


@pytest.mark.requirement("L-1", "L-21", "L-24", "L-29", "L-34", "L-36", "M-5", "M-22", "M-25", "M-31", "M-41")
@pytest.mark.parametrize("client", CLIENTS)
def test_mcp_client_over_http_passes_every_check(client: str) -> None:
    with served(ACCEPT) as server:
        drive(client, [server.mcp])


@pytest.mark.requirement("L-6", "L-21", "L-24", "L-34", "L-36", "M-11", "M-25", "M-37", "M-41")
@pytest.mark.parametrize("client", CLIENTS)
def test_mcp_client_on_stdio_passes_every_check(client: str) -> None:
    drive(client, ["--", *stdio_command(ACCEPT)])


@pytest.mark.parametrize("way", ["sync", "async"])
def test_oxp_client_passes_every_check(way: str) -> None:
    with served("dialects/kit.py") as server:
        checks = run([*OPEN_TOOLS, way, f"{server.origin}/oxp"])
    assert set(checks) == OXP_CHECKS
    assert_passed(checks)
