"""`toolhall serve` with upstreams: without a target it has no examples beside them, and follows its settings file."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import CliRunner
from tests.harness.http_client import request_url
from tests.harness.server_process import ServerProcess, eventually

SERVER = str(Path(__file__).parents[1] / "servers/stdio_mcp.py")
BAD_LIST = """
import json, sys
ANSWERS = {{
    "initialize": {{
        "protocolVersion": "2025-06-18",
        "capabilities": {{"tools": {{}}}},
        "serverInfo": {{"name": "x", "version": "1"}},
    }},
    "tools/list": {{"tools": {tools}}},
}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        error = {{"error": {{"code": -32601, "message": "no such method"}}}}
        known = asked["method"] in ANSWERS
        answer = {{"result": ANSWERS[asked["method"]]}} if known else error
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **answer}}), flush=True)
"""
DEAD = "http://127.0.0.1:9/mcp"


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def toolkits(server: ServerProcess) -> set[str]:
    listed: list[dict[str, Any]] = request_url(f"{server.origin}/api/tools").json["tools"]
    return {each["id"].partition(".")[0] for each in listed}


def upstreams(server: ServerProcess) -> dict[str, str]:
    listed: list[dict[str, Any]] = request_url(f"{server.origin}/api/upstreams").json["upstreams"]
    return {each["name"]: each["where"] for each in listed}


def test_an_added_upstream_is_served_without_the_examples(cli: CliRunner) -> None:
    assert cli.run("add", DEAD, "--name", "Docs").code == 0
    with cli.serve() as server:
        assert upstreams(server) == {"Docs": "local"}
        assert toolkits(server) == set()


def test_an_upstream_of_the_settings_is_served_without_the_examples(cli: CliRunner) -> None:
    (cli.folder / "toolhall.toml").write_text(f'[upstreams.Docs]\nurl = "{DEAD}"\n')
    with cli.serve() as server:
        assert (set(upstreams(server)), toolkits(server)) == ({"Docs"}, set())


def test_a_command_in_a_settings_file_that_is_written_after_the_start_is_offered(cli: CliRunner) -> None:
    with cli.serve() as server:
        assert "Calculator" in toolkits(server)
        command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([SERVER, '2025-11-25'])}"
        (cli.folder / "toolhall.toml").write_text(f"[upstreams.Late]\n{command}\n")
        assert eventually(lambda: upstreams(server) == {"Late": "toolhall.toml"})
        assert eventually(lambda: "Late" in toolkits(server))


def test_a_call_of_a_tool_whose_upstream_is_off_says_how_to_switch_it_on(cli: CliRunner) -> None:
    assert cli.run("add", "--name", "Kit", "--", sys.executable, SERVER, "2025-11-25").code == 0
    with cli.serve() as server:
        assert eventually(lambda: "Kit" in toolkits(server))
        (name, *_) = [each["id"] for each in request_url(f"{server.origin}/api/tools").json["tools"]]
        assert cli.run("upstream", "off", "Kit", "--url", server.origin).code == 0
        done = cli.run("call", name.partition("@")[0], "--url", server.origin, "--yes")
    assert done.code == 1
    assert f"'toolhall upstream on Kit --url {server.origin}'" in done.err


def test_serve_names_the_review_of_definitions_that_wait(cli: CliRunner) -> None:
    command = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps([SERVER, '2025-11-25'])}"
    (cli.folder / "toolhall.toml").write_text(f'profile = "server"\n[upstreams.Kit]\n{command}\n')
    key = cli.run("key", "create", "root", "--scopes", "admin").out.splitlines()[0]
    with cli.serve() as server:
        asked = ("upstream", "list", "--url", server.origin, "--key", key, "--json")
        assert eventually(lambda: cli.run(*asked).json()[0]["waiting"] > 0)
    with cli.start("serve", "--port", "0", "--json") as process:
        ServerProcess(process).ready().stop()
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert "'toolhall upstream review Kit'" in said


def test_check_of_an_upstream_with_a_withheld_tool_says_that_the_others_can_be_used(cli: CliRunner) -> None:
    listed = [{"name": "ok", "inputSchema": {"type": "object"}}, {"name": "bad", "inputSchema": {"type": "objekt"}}]
    (cli.folder / "bad.py").write_text(BAD_LIST.format(tools=json.dumps(listed)))
    assert cli.run("add", "--name", "Kit", "--", sys.executable, str(cli.folder / "bad.py")).code == 0
    done = cli.run("upstream", "check", "Kit")
    assert (done.code, "Kit can be used, but not everything that it lists is offered" in done.err) == (1, True)
