# ruff: noqa: N802 - tests carry the names of their rows
"""J4: what a hall is told of its own by the environment is not there for its tools, nor for what they start."""

import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve_modes import INITIALIZE, ask, children
from tests.harness.cli import CliRunner
from tests.harness.patience import PROGRAM, patience
from tests.harness.server_process import ServerProcess
from toolhall.config import Config
from toolhall.server.process import secret_env_in

KEY = base64.b64encode(bytes(range(32))).decode()
CLIENT_SECRET = "client-secret-of-the-hall"
UPSTREAM_KEY = "key-of-the-hall-at-an-upstream"
SECRETS = {
    "TOOLHALL_VAULT_KEY": KEY,
    "TOOLHALL_OXP_SECRET": "oxp-secret-of-the-hall-with-32-bytes",
    "TOOLHALL_PROVIDERS": json.dumps({"google": {"client_id": "hall", "client_secret": CLIENT_SECRET}}),
    "TOOLHALL_UPSTREAMS": json.dumps({"Docs": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": UPSTREAM_KEY}}}),
    "TOOLHALL_KEY": "thk-key-of-the-operator",
}
CANARIES = (KEY, SECRETS["TOOLHALL_OXP_SECRET"], CLIENT_SECRET, UPSTREAM_KEY, SECRETS["TOOLHALL_KEY"])
TOOLS = """
import os, subprocess, sys
from toolhall import tool

def _read() -> list[str]:
    printing = "import os; print(sorted(os.environ.items()))"
    below = subprocess.run([sys.executable, "-c", printing], capture_output=True, text=True, check=True)
    return [str(sorted(os.environ.items())), below.stdout]

@tool
def here() -> list[str]:
    return _read()

@tool(isolated=True)
def apart() -> list[str]:
    return _read()
"""
OWN = """
import os
from toolhall import Config, Toolhall

config = Config(vault_key=os.environ["TOOLHALL_VAULT_KEY"], data=os.environ["TOOLHALL_DATA"])
hall = Toolhall(here, config=config)
"""


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    cli = CliRunner(tmp_path)
    cli.environment |= SECRETS | {"VISIBLE": "as-everything-else"}
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "own.py").write_text(TOOLS + OWN)
    return cli


def environments_seen_by(cli: CliRunner, server: ServerProcess, name: str) -> list[str]:
    """What a tool says to somebody at this machine: its own environment, and that of what it started."""
    done = CliRunner(cli.folder).run("call", name, "--yes", "--url", server.url, "--json")
    assert done.code == 0, done
    seen: list[str] = json.loads(done.json()["content"][0]["text"])
    assert len(seen) == 2
    return seen


def leaked(seen: list[str]) -> list[str]:
    return [each for each in CANARIES if any(each in text for text in seen)]


@pytest.mark.threat("J4")
@pytest.mark.parametrize(
    "words", [("tools.py",), ("tools.py", "--workers", "2"), ("tools.py", "--reload"), ("own.py:hall",)], ids=" ".join
)
def test_J4_environment_of_tools_and_their_child_processes_holds_no_secret_of_the_hall(
    cli: CliRunner, words: tuple[str, ...]
) -> None:
    """Neither in their environment nor in that of a program they start."""
    with cli.serve(*words) as server:
        seen = environments_seen_by(cli, server, "here")
        assert all("as-everything-else" in text for text in seen), "the rest is as it was"
        assert leaked(seen) == []


@pytest.mark.threat("J4")
@pytest.mark.parametrize("way", [("--workers", "2"), ("--reload",)], ids=" ".join)
def test_J4_command_line_and_environment_of_child_processes_hold_no_secret_of_the_hall(
    cli: CliRunner, way: tuple[str, ...]
) -> None:
    """Others on the machine can read a process's command line, and whoever is the same user its environment."""
    with cli.serve("tools.py", *way) as server:
        assert leaked(environments_seen_by(cli, server, "apart")) == []  # it is loaded, and has started a worker
        for child in children(server.process.pid):
            assert leaked([Path(f"/proc/{child}/{place}").read_text() for place in ("cmdline", "environ")]) == []


# Runs a program without any capability, so that the tests prove the same when they run as root.
_UNPRIVILEGED = """
import ctypes, os, sys
prctl = ctypes.CDLL(None).prctl
for capability in range(64):
    prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""
_PROBE = """
import ctypes, os, sys
pid, found = int(sys.argv[1]), []
for place in ("environ", "mem", "fd/0"):
    try:
        os.close(os.open(f"/proc/{pid}/{place}", os.O_RDONLY))
        found.append(place)
    except PermissionError:
        pass
if ctypes.CDLL(None).ptrace(0x4206, pid, 0, 0) == 0:  # PTRACE_SEIZE
    found.append("trace")
print(*found)
"""
_LAUNCHER = [sys.executable, "-c", _UNPRIVILEGED]


def open_to_same_user(pid: int) -> str:
    """What another process of the user that the server runs as can open of it."""
    words = [*_LAUNCHER, sys.executable, "-c", _PROBE, str(pid)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.threat("K11")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows a process's environment in /proc")
@pytest.mark.parametrize(
    "words", [("tools.py",), ("tools.py", "--workers", "2"), ("tools.py", "--reload"), ("--stdio",)], ids=" ".join
)
def test_K11_process_of_a_running_hall_shows_no_key_and_cannot_be_read_or_traced(
    cli: CliRunner, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process of a hall shows its secrets in /proc, and none can be read or traced by another of the same user."""
    monkeypatch.setattr("tests.harness.cli.PROGRAM", [*_LAUNCHER, *PROGRAM])
    if words == ("--stdio",):
        with cli.start("serve", "tools.py", "--stdio") as process:
            ask(process, INITIALIZE)
            assert_closed([process.pid])
        return
    with cli.serve(*words) as server:
        environments_seen_by(cli, server, "here")  # whatever serves has loaded its tools
        assert_closed([server.process.pid, *children(server.process.pid)])


def assert_closed(pids: list[int]) -> None:
    for pid in pids:
        environment = Path(f"/proc/{pid}/environ").read_text()
        assert "as-everything-else" in environment
        assert leaked([environment]) == []
        deadline = time.monotonic() + patience()
        while open_to_same_user(pid) != "":  # a second worker may still be starting, and has been told nothing yet
            assert time.monotonic() < deadline


@pytest.mark.threat("K11")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows a process's environment in /proc")
def test_K11_probe_of_these_tests_can_read_and_trace_an_unprotected_process() -> None:
    """An ordinary process of the same user is open to the probe that finds a hall closed."""
    words = [*_LAUNCHER, sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as ordinary:
        deadline = time.monotonic() + patience()
        while open_to_same_user(ordinary.pid) != "environ mem fd/0 trace":  # until it has dropped its capabilities
            assert time.monotonic() < deadline
        ordinary.communicate("\n")


def test_secret_settings_are_all_removed_from_the_environment() -> None:
    """And the providers and upstreams, which have secrets among what they say."""
    value: Any = "canary"  # whatever the setting's own type
    plain = [name for name in Config.__struct_fields__ if name != "upstreams"]
    hidden = [name for name in plain if value not in repr(Config(**{name: value}))]
    variables = {f"TOOLHALL_{name.upper()}" for name in [*hidden, "providers", "upstreams"]} | {"TOOLHALL_KEY"}
    assert secret_env_in(dict.fromkeys(variables, "")).keys() == variables == SECRETS.keys()
