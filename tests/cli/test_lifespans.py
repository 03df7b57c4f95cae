"""Toolkits are entered and left by every command that runs tools, and in every process that does."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve_join import joined, until
from tests.cli.test_serve_modes import INITIALIZE
from tests.cli.test_serve_modes import ask as exchange
from tests.harness.cli import CliRunner
from tests.harness.fake_hall import call, fake_hall
from tests.harness.patience import patience
from tests.harness.processes import ServerProcess

TOOLS = """
import os
from pathlib import Path

from toolhall import Toolkit, tool

def happened(what):
    with Path("happened").open("a") as file:
        file.write(f"{os.getpid()} {what}\\n")

class Database(Toolkit):
    async def __aenter__(self):
        happened("connect")
        self.connected = True
        return self

    async def __aexit__(self, *_):
        happened("disconnect")

    @tool(effect="reads")
    async def ask(self) -> int:
        assert self.connected
        return os.getpid()

class Apart(Toolkit, isolated=True):
    async def __aenter__(self):
        happened("begin apart")
        self.begun = True

    async def __aexit__(self, *_):
        happened("end apart")

    @tool(effect="reads")
    def look(self) -> int:
        assert self.begun
        return os.getpid()

    @tool(effect="reads")
    async def look_again(self) -> int:
        assert self.begun
        return os.getpid()
"""
OFFLINE = """
from toolhall import Toolkit, tool

class Offline(Toolkit):
    async def __aenter__(self):
        raise ConnectionError("nobody listens\\nat db.example")

    async def __aexit__(self, *_): ...

    @tool(effect="reads")
    async def ask(self) -> None: ...
"""
OWN_LIFESPAN = """
from contextlib import asynccontextmanager

from toolhall import Toolhall

@asynccontextmanager
async def models(hall):
    raise RuntimeError("no model")
    yield

hall = Toolhall(lifespan=models)
"""
COMPLAINT = "toolhall: toolkit 'Offline' could not be entered: ConnectionError: nobody listens at db.example"


@pytest.fixture
def kit(cli: CliRunner) -> CliRunner:
    (cli.folder / "own.py").write_text(TOOLS)
    (cli.folder / "offline.py").write_text(OFFLINE)
    return cli


def happened(cli: CliRunner) -> list[tuple[int, str]]:
    file = cli.folder / "happened"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(line.partition(" ")[0]), line.partition(" ")[2]) for line in lines]


def ask(server: ServerProcess, tool: str) -> Any:
    request = urllib.request.Request(f"{server.url}/tools/{tool}", method="POST")
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read())


def test_lifespan_of_serve_is_entered_before_ready_and_left_at_the_end(kit: CliRunner) -> None:
    with kit.serve("own.py") as server:
        here = server.process.pid
        assert happened(kit) == [(here, "connect")]
        assert ask(server, "Database/ask") == here
        there = ask(server, "Apart/look")
        assert ask(server, "Apart/look_again") == there != here
        assert happened(kit) == [(here, "connect"), (there, "begin apart")]
    assert happened(kit)[2:] == [(here, "disconnect"), (there, "end apart")]


def test_lifespan_with_several_workers_is_entered_in_each(kit: CliRunner) -> None:
    with kit.serve("own.py", "--workers", "2") as server:
        until(lambda: len(happened(kit)) == 2)
        entered = {pid for pid, what in happened(kit) if what == "connect"}
        assert len(entered) == 2
        assert ask(server, "Database/ask") in entered
    assert {pid for pid, what in happened(kit) if what == "disconnect"} == entered
    assert len(happened(kit)) == 4


def test_lifespan_after_reload_is_entered_again(kit: CliRunner) -> None:
    with kit.serve("own.py", "--reload"):
        until(lambda: len(happened(kit)) == 1)
        (kit.folder / "own.py").write_text(TOOLS + "\n")
        until(lambda: len(happened(kit)) == 3)
    first, second = happened(kit)[0][0], happened(kit)[-1][0]
    assert first != second
    assert happened(kit) == [(pid, what) for pid in (first, second) for what in ("connect", "disconnect")]


def test_lifespan_of_call_is_entered_and_left(kit: CliRunner) -> None:
    here = kit.run("call", "Database_ask", "own.py", "--json").json()["structuredContent"]
    assert happened(kit) == [(here, "connect"), (here, "disconnect")]


def test_lifespan_over_stdio_is_entered_and_left(kit: CliRunner) -> None:
    asked = {"type": "tool_request", "id": "1", "tool": "Database", "method": "ask", "params": {}}
    ended = kit.run_process("serve", "own.py", "--stdio", "--dialect", "hub", text=json.dumps(asked) + "\n")
    here = json.loads(ended.out.splitlines()[0])["result"]["result"]
    assert happened(kit) == [(here, "connect"), (here, "disconnect")]


def test_lifespan_of_a_tool_server_is_entered_and_left(kit: CliRunner) -> None:
    with fake_hall() as hall:
        with joined(kit, hall, "own.py") as (process, _):
            assert call(hall.wait_for("join"), "ask", "Database")["result"] == {"result": process.pid}
            there = call(hall.wait_for("join"), "look", "Apart", id="2")["result"]["result"]
        assert happened(kit) == [
            (process.pid, "connect"),
            (there, "begin apart"),
            (process.pid, "disconnect"),
            (there, "end apart"),
        ]


@pytest.mark.parametrize("how", [[], ["--stdio"], ["--workers", "2"]])
def test_lifespan_that_fails_at_start_of_serve_is_one_clear_line(kit: CliRunner, how: list[str]) -> None:
    ended = kit.run_process("serve", "offline.py", *how, *([] if "--stdio" in how else ["--port", "0"]))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1] == COMPLAINT


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["offline.py"], 1, COMPLAINT.removeprefix("toolhall: ")),
        (["own_hall.py"], 1, "the lifespan of the hall could not be entered: RuntimeError: no model"),
        (["own.py", "--profle", "local"], 2, "--profle. Did you mean --profile? See 'toolhall serve --help'"),
    ],
)
def test_lifespan_that_fails_over_stdio_is_told_to_the_client(
    kit: CliRunner, words: list[str], code: int, said: str
) -> None:
    (kit.folder / "own_hall.py").write_text(OWN_LIFESPAN)
    with kit.start("serve", *words, "--stdio") as process:
        answer: Any = exchange(process, INITIALIZE)  # while it keeps its side open
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert said in answer["error"]["message"]
        assert process.wait(patience()) == code
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_lifespan_that_fails_in_call_is_one_clear_line(kit: CliRunner) -> None:
    assert kit.run("call", "Offline_ask", "offline.py").err.splitlines()[-1] == COMPLAINT


def test_lifespan_that_fails_in_a_worker_fails_the_call_and_is_logged(kit: CliRunner) -> None:
    apart = Path(kit.folder / "offline.py")
    apart.write_text(OFFLINE.replace("(Toolkit)", "(Toolkit, isolated=True)"))
    kit.environment["TOOLHALL_LOG_LEVEL"] = "error"
    ended = kit.run("call", "Offline_ask", "offline.py")
    assert ended.code == 1
    assert "toolkit 'Offline' could not be entered: ConnectionError: nobody listens" in ended.err
