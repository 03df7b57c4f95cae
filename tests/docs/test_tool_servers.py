"""The page about tool servers is a story, and everything on it works: both examples join, and each command is run."""

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from docs_src import base_tool
from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.typescript import project
from toolhall import Config, ToolFailed
from toolhall.execution.remote.leases import EXPIRY_SECONDS, HEARTBEAT_SECONDS
from toolhall.execution.remote.replica import FAILURE_THRESHOLD, OPEN_SECONDS
from toolhall.testing import Client

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/tool-servers.md").read_text()
COMMANDS = re.findall(r"^toolhall (.*)$", PAGE, re.MULTILINE)
OPTIONS = re.findall(r"`(--[a-z-]+)(?: ([^`]+))?`", PAGE.partition("| option | meaning |")[2].partition("\n\n")[0])
ADMIN = ("key", "create", "boss", "--scopes", "admin,tools:*")


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def told(verb: str) -> list[list[str]]:
    """The commands on the page that begin so, in order."""
    return [shlex.split(command) for command in COMMANDS if command.startswith(verb)]


def test_tool_servers_page_server_joins_and_is_called(cli: CliRunner) -> None:
    tmp, data = cli.folder, ["--data", str(cli.data)]
    (tmp / "my_calendar.py").write_text((ROOT / "docs_src/calendar_toolkit.py").read_text())
    admin = cli.run(*ADMIN, *data).out.strip()
    caller = cli.run("key", "create", "ci", *data).out.strip()
    (key,) = told("key")
    (tmp / "calendars.key").write_text(cli.run(*key, *data).out)
    (joining,) = told("serve")
    (allowed,) = re.findall(r'`egress_allow = \["(.*?)"\]`', PAGE)
    cli.environment["TOOLHALL_EGRESS_ALLOW"] = allowed
    with cli.serve(KIT, "--profile", "server") as hall:
        words = [hall.url if word.startswith("http://") else word for word in joining[1:]]
        with cli.serve(*words, "--key-file", "calendars.key") as server:
            assert server.first["hall"] == hall.url
            cli.environment["TOOLHALL_KEY"] = admin
            for command in [*told("tool"), *told("grant")]:
                done = cli.run(*command, "--url", hall.url, *(["--yes"] if "activate" in command else []))
                assert (done.code, "Calendar." in done.out) == (0, True), command
            cli.environment["TOOLHALL_KEY"] = caller
            called = cli.run("call", "Calendar_upcoming", "--json", "--url", hall.url)
            assert (called.code, "[]" in called.out) == (0, True), called
    assert {command.split()[0] for command in COMMANDS} == {"serve", "new", "key", "tool", "grant"}


def test_tool_servers_page_options_are_all_known(cli: CliRunner) -> None:
    (cli.folder / "calendars.key").write_text("tk_x")
    assert {option for option, _ in OPTIONS} == {
        *("--join", "--name", "--key-file", "--host", "--port", "--advertise", "--socket")
    }
    both = [word for option, value in OPTIONS if option != "--socket" for word in (option, value)]
    away = ["http://127.0.0.1:1" if word.endswith(":8000") else word for word in both]
    taken = cli.run_process("serve", KIT, *away, "--no-such-option")
    assert "no-such-option" in taken.err, taken


def test_tool_servers_page_typescript_example_joins_and_is_called(cli: CliRunner, tmp_path: Path) -> None:
    example = project(tmp_path / "project", ROOT / "docs_src/rooms.ts") / "rooms.js"
    book = ("call", "Rooms_book", "room=Blue", "--yes")
    with cli.serve(KIT) as hall:
        environment = {**cli.environment, "HALL_URL": hall.url}
        with subprocess.Popen(["node", example], env=environment, stdout=subprocess.PIPE, bufsize=0) as server:
            try:
                assert read_line(server) == f"joined {hall.url}\n"
                booked, again = (cli.run(*book, "--url", hall.url) for _ in range(2))
                server.send_signal(signal.SIGTERM)
                assert server.wait(patience()) == 0
            finally:
                server.kill()
    assert (booked.code, json.loads(booked.out)) == (0, {"booked": "Blue"}), booked
    assert (again.code, "Blue is taken; choose another room" in again.err) == (1, True), again


async def test_tool_servers_page_hub_example_is_right() -> None:
    async with Client(base_tool.Rooms) as client:
        assert (await client.call_named("Rooms_book", {"room": "Blue"})).encoded == b'{"booked":"Blue"}'
        with pytest.raises(ToolFailed, match="Blue is taken"):
            await client.call_named("Rooms_book", {"room": "Blue"})
    assert await base_tool.Rooms().health_check() == {"status": "healthy"}


def test_tool_servers_page_setting_and_figures_are_right() -> None:
    (written,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert msgspec.toml.decode(written, type=Config).idempotent == ("Calendar.upcoming", "Weather.*")
    assert (HEARTBEAT_SECONDS, EXPIRY_SECONDS, FAILURE_THRESHOLD, OPEN_SECONDS) == (5, 15, 5, 30)
    for said in ("every 5 seconds", "after 15 seconds", "fails five times in a row", "for 30 seconds"):
        assert said in PAGE
