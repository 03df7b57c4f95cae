"""`toolhall serve --join`: the real program as a tool server of a hall."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.fake_hall import FakeHall, call, fake_hall, fake_socket_hall, ids_of
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.harness.server_process import ServerProcess
from tests.servers import stdio_mcp

TOOLS = """
import asyncio
import os
from pathlib import Path

from toolhall import tool

print("printed while it is imported")

@tool
async def hidden() -> bool:
    print("printed while it runs")
    return "TOOLHALL_KEY" in os.environ

@tool
async def held() -> str:
    Path("begun").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return "held"
"""
QUIET = """
from toolhall import tool

@tool
async def quiet() -> None: ...
"""
EXAMPLE = """
from toolhall import BaseTool, ToolError, ToolRequest, ToolResponse

class ExampleTool(BaseTool):
    def __init__(self):
        super().__init__("example-tool", "1.0.0")

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        try:
            if request.method == "method1":
                result = await self._handle_method1(request.params)
                return ToolResponse(result=result)
            raise ToolError("Unknown method")
        except Exception as e:
            raise ToolError(str(e))

    async def _handle_method1(self, params: dict) -> dict:
        # Implementation
        return {"status": "success"}
"""


@contextmanager
def joined(
    cli: CliRunner, hall: FakeHall | ServerProcess, *words: str
) -> Generator[tuple["subprocess.Popen[bytes]", dict[str, Any]]]:
    """A tool server that has joined; at the end it leaves on SIGTERM, and ends with code 0."""
    with cli.start("serve", *words, "--join", hall.url, "--json") as process:
        first = json.loads(read_line(process))
        yield process, first
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience()) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"", "with --json there is one line, and nothing else"


def refusing(_: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"code": "FORBIDDEN", "message": "not this key", "details": {"scopes": [params["server"]]}}


def test_join_of_a_tool_server_is_called_and_leaves(cli: CliRunner) -> None:
    with fake_hall() as hall:
        with joined(cli, hall, KIT, "--name", "kits") as (process, first):
            place = hall.wait_for("join")
            assert first == {"url": place["url"], "pid": process.pid, "hall": hall.url}
            assert place["server"] == "kits"
            assert len(place["replica"]) >= 16
            assert "kit.echo@0.1.0" in ids_of(place)
            assert "Shop.sell@2.1.0" in ids_of(place)
            assert call(place, "sell", "Shop", {"what": "hat"})["result"] == {"result": "sold a small hat"}
            assert call(place | {"token": "wrong"}, "sell", "Shop")["error"]["code"] == "UNAUTHENTICATED"
            lease = hall.wait_for("heartbeat", 2)
            assert lease == {"lease": "lease-1", "status": "healthy"}
        assert hall.all("leave") == [{"lease": "lease-1"}]
        assert len(hall.all("join")) == 1


def test_join_stopped_while_calls_run_finishes_them_and_takes_no_more(cli: CliRunner) -> None:
    (cli.folder / "own.py").write_text(TOOLS)
    with fake_hall() as hall, ThreadPoolExecutor(1) as pool:
        hall.let_go.clear()
        with joined(cli, hall, "own.py") as (process, _):
            place = hall.wait_for("join")
            running = pool.submit(call, place, "held", "own")
            until((cli.folder / "begun").exists)
            process.send_signal(signal.SIGTERM)
            assert hall.leaving.wait(patience())
            refused = call(place, "hidden", "own", id="2")["error"]
            assert (refused["code"], refused["details"]["started"]) == ("UNAVAILABLE", False)
            (cli.folder / "go").touch()
            assert running.result(patience())["result"] == {"result": "held"}
            assert process.poll() is None
            hall.let_go.set()
            assert process.wait(patience()) == 0


def test_join_stopped_twice_waits_for_nobody(cli: CliRunner) -> None:
    (cli.folder / "own.py").write_text(TOOLS)
    with fake_hall() as hall, ThreadPoolExecutor(1) as pool:
        hall.let_go.clear()
        with joined(cli, hall, "own.py") as (process, _):
            place = hall.wait_for("join")
            running = pool.submit(call, place, "held", "own")
            until((cli.folder / "begun").exists)
            process.send_signal(signal.SIGTERM)
            assert hall.leaving.wait(patience())
            process.send_signal(signal.SIGTERM)
            assert process.wait(patience()) == 0, "it would wait longer for the hall, and for what runs"
        hall.let_go.set()
        assert running.exception(patience()) is not None


def until(claim: Callable[[], bool]) -> None:
    """Wait until this is so."""
    deadline = time.monotonic() + patience()
    while not claim():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_join_refused_by_the_hall_ends_with_its_words(cli: CliRunner) -> None:
    (cli.folder / "quiet.py").write_text(QUIET)
    with fake_hall(refusing) as hall:
        ended = cli.run_process("serve", "quiet.py", "--join", hall.url)
    assert (ended.code, ended.out) == (1, "")
    assert "not this key" in ended.error_line()


def test_join_with_an_absent_hall_retries_and_rejoins(cli: CliRunner) -> None:
    def judge(method: str, _: dict[str, Any]) -> dict[str, Any] | None:
        if method == "join" and len(hall.told) == 1:
            return {"code": "UNAVAILABLE", "message": "soon"}
        if method == "heartbeat" and len(hall.all("join")) == 2:
            return {"code": "LEASE_UNKNOWN", "message": "join again"}
        return None

    with fake_hall(judge) as hall, joined(cli, hall, KIT):
        first, second, third = [hall.wait_for("join", times) for times in (1, 2, 3)]
        assert first["replica"] == second["replica"] == third["replica"]
        assert first["token"] == third["token"]
        assert hall.wait_for("heartbeat", 2)


@pytest.mark.parametrize("where", ["file", "environment"])
def test_join_key_is_sent_to_the_hall_and_to_no_tool(cli: CliRunner, where: str) -> None:
    (cli.folder / "own.py").write_text(TOOLS)
    words = ["own.py"]
    if where == "file":
        (cli.folder / "key").write_text("the-key\n")
        words += ["--key-file", "key"]
    else:
        cli.environment["TOOLHALL_KEY"] = "the-key"
    with fake_hall() as hall, joined(cli, hall, *words):
        place = hall.wait_for("join")
        assert call(place, "hidden", "own")["result"] == {"result": False}
    assert hall.keys == {"Bearer the-key"}


def test_join_of_the_specification_example_runs_for_a_hall(cli: CliRunner) -> None:
    (cli.folder / "example.py").write_text(EXAMPLE)
    with fake_hall() as hall, joined(cli, hall, "example.py"):
        place = hall.wait_for("join")
        assert place["server"] == "example-tool"
        assert ids_of(place) == ["example-tool.method1@1.0.0"]
        assert call(place, "method1", "example-tool")["result"] == {"status": "success"}
        assert call(place, "method2", "example-tool")["error"]["code"] == "METHOD_NOT_FOUND"


def test_serve_of_the_specification_example_runs_by_itself(cli: CliRunner) -> None:
    (cli.folder / "example.py").write_text(EXAMPLE)
    with cli.serve("example.py:ExampleTool") as server:
        found = cli.run("call", "example-tool_method1", "--yes", "--url", server.url, "--json").json()
        assert found["structuredContent"] == {"status": "success"}


def test_join_over_a_socket_is_called(cli: CliRunner) -> None:
    with fake_socket_hall() as hall, joined(cli, hall, KIT, "--socket") as (process, first):
        assert first == {"url": None, "pid": process.pid, "hall": hall.url}
        declared = hall.wait_for("join")
        assert not {"url", "token"} & set(declared)
        request = {"type": "tool_request", "id": "7", "tool": "Shop", "method": "sell", "params": {"what": "hat"}}
        hall.say(request)
        assert hall.hear("tool_response", "7")["result"] == {"result": "sold a small hat"}
        hall.lines[-1].close()
        assert hall.wait_for("join", 2)["replica"] == declared["replica"]
        hall.say({**request, "id": "8"})
        assert hall.hear("tool_response", "8")["error"] is None
    assert len(hall.all("leave")) == 1


@pytest.mark.parametrize("words", [[], ["--socket"]], ids=["http", "socket"])
def test_join_of_a_real_hall_is_called(cli: CliRunner, words: list[str]) -> None:
    (cli.folder / "quiet.py").write_text(QUIET)
    (cli.folder / "example.py").write_text(EXAMPLE)
    with cli.serve("quiet.py") as hall, joined(cli, hall, "example.py", *words):
        called = cli.run("call", "example-tool_method1", "--yes", "--url", hall.url, "--json")
        assert called.json()["structuredContent"] == {"status": "success"}


def test_join_over_a_refused_socket_ends(cli: CliRunner) -> None:
    (cli.folder / "quiet.py").write_text(QUIET)
    with fake_socket_hall(refusing) as hall:
        ended = cli.run_process("serve", "quiet.py", "--join", hall.url, "--socket")
    assert ended.code == 1
    assert "not this key" in ended.error_line()


@pytest.mark.parametrize("words", [[], ["--socket"]], ids=["http", "socket"])
def test_join_without_a_key_names_the_option_and_logs_no_error(cli: CliRunner, words: list[str]) -> None:
    (cli.folder / "quiet.py").write_text(QUIET)
    cli.run("key", "create", "ci")
    with cli.start("serve", "quiet.py", "--profile", "server", "--port", "0", "--json") as hall:
        url = json.loads(read_line(hall))["url"]
        ended = cli.run_process("serve", "quiet.py", "--join", url, *words)
        hall.terminate()
        _, logged = hall.communicate(timeout=patience())
    assert ended.code == 1
    assert "set TOOLHALL_KEY or name a file with --key-file" in ended.error_line()
    assert b"handshake" not in logged


def test_join_at_terminal_shows_what_runs_where(cli: CliRunner) -> None:
    with fake_hall() as hall, cli.start("serve", KIT, "--join", hall.url) as process:
        line = read_line(process)
        assert line == f"Toolhall runs kit at {hall.wait_for('join')['url']} for {hall.url}\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(patience()) == 0


def test_join_with_advertise_tells_the_hall_that_address(cli: CliRunner) -> None:
    with fake_hall() as hall:
        words = ("--host", "127.0.0.1", "--advertise", "https://tools.example.com/kit/")
        with joined(cli, hall, KIT, *words) as (_, first):
            assert first["url"] == hall.wait_for("join")["url"] == "https://tools.example.com/kit"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stdio"], "--stdio is for a hall"),
        (["--workers", "2"], "--workers is for a hall"),
        (["--profile", "server"], "--profile is for a hall"),
        (["--data", "d"], "--data is for a hall"),
        (["--reload"], "--reload does not go with --join"),
        (["--host", "0.0.0.0"], "say it with --advertise https://NAME, or join with --socket"),
        (["--host", "10.0.0.7"], "say it with --advertise https://NAME, or join with --socket"),
        (["--socket", "--port", "0"], "--socket listens on no port"),
        (["--advertise", "tools"], "--advertise 'tools' is not a URL"),
        (["--advertise", "http://10.0.0.7:9001"], "put a proxy with https before this server, or join with --socket"),
        (["--advertise", "http://me:secret@tools"], "--advertise must hold no user name"),
        (["--name", "a b"], "--name: 'a b' is not a name"),
        (["--key-file", "empty"], "--key-file empty holds no key"),
        (["--join", "hall"], "--join 'hall' is not a URL"),
        (["--join", "http://hall.example.com"], "others can read on the way; use https"),
    ],
)
def test_join_with_wrong_usage_names_the_fix(cli: CliRunner, words: list[str], said: str) -> None:
    (cli.folder / "empty").write_text("\n")
    (cli.folder / "quiet.py").write_text(QUIET)
    hall = [] if "--join" in words else ["--join", "http://127.0.0.1:1"]
    ended = cli.run("serve", "quiet.py", *hall, *words)
    assert ended.code == 2
    assert said in ended.error_line()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--join", "http://127.0.0.1:1"], 2, "--join needs the tools to run"),
        ([KIT, "--name", "x"], 2, "go with --join"),
        ([KIT, "--socket"], 2, "--socket goes with --join"),
        ([KIT, "--join", "http://127.0.0.1:1", "--key-file", "none"], 1, "--key-file none cannot be read"),
        (["own.py", "--join", "http://127.0.0.1:1"], 2, "has a Toolhall of its own"),
        (["t.json", "--join", "http://127.0.0.1:1"], 2, "definitions alone cannot be run"),
    ],
)
def test_join_of_what_cannot_be_joined_is_refused(cli: CliRunner, words: list[str], code: int, said: str) -> None:
    (cli.folder / "own.py").write_text("from toolhall import Toolhall\nhall = Toolhall()\n")
    (cli.folder / "t.json").write_text(json.dumps({"name": "a", "inputSchema": {"type": "object"}}))
    ended = cli.run("serve", *words)
    assert ended.code == code
    assert said in ended.error_line()


def test_join_of_servers_in_a_file_runs_their_tools_on_this_machine(cli: CliRunner) -> None:
    (cli.folder / "note.txt").write_text("only here")
    server = {"command": sys.executable, "args": [stdio_mcp.__file__, stdio_mcp.MODERN], "cwd": str(cli.folder)}
    (cli.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"Notes": server}}))
    with fake_hall() as hall, joined(cli, hall, "mcp.json", "--name", "notes") as (_, first):
        place = hall.wait_for("join")
        assert first == {"url": place["url"], "pid": first["pid"], "hall": hall.url}
        assert "Notes.echo@1.0.0" in ids_of(place)
        answer = call(place, "echo", "Notes", {"text": "hi"})
        assert "hi" in json.dumps(answer["result"])
        asked = call(place, "greet", "Notes", context={"can": ["elicitation"]})
        assert asked["error"]["code"] == "UNSUPPORTED", "to ask would repeat the call"


def test_join_of_servers_that_cannot_be_reached_says_which(cli: CliRunner) -> None:
    (cli.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"Gone": {"command": "no-such-program"}}}))
    with fake_hall() as hall:
        done = cli.run("serve", "mcp.json", "--join", hall.url)
        assert done.code == 1
        assert "Gone is " in done.err
        assert "none of the servers offers a tool now" in done.err
