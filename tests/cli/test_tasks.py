"""`toolhall task` on the data folder of a hall that runs or does not, and at its URL."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import patience

TOOLS = '''
from toolhall import Context, tool

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


@tool(effect="reads", task=True)
async def asks(ctx: Context, what: str) -> str:
    """Ask for a name."""
    return str(await ctx.ask("Which name?", FORM, key="name"))
'''
MARK = "mark-8d2f6c"


@pytest.fixture
def tools(cli: CliRunner) -> Path:
    file = cli.folder / "long.py"
    file.write_text(TOOLS)
    return file


def start_task(url: str) -> None:
    """Make a call that asks something, and wait until it does."""
    headers = {"Content-Type": "application/json", "Prefer": "respond-async"}
    body = json.dumps({"what": MARK}).encode()
    with urlopen(Request(f"{url}/tools/long/asks", body, headers), timeout=patience()) as reply:
        place = f"{url}{reply.headers['Location']}"
    end = time.monotonic() + patience()
    while state_at(place) != "input_required":
        assert time.monotonic() < end, "it never asked"


def state_at(place: str) -> str:
    """The state of a task; one that is looked at too often is not shown."""
    try:
        with urlopen(place, timeout=patience()) as reply:
            return str(json.load(reply)["state"])
    except HTTPError as limited:
        if limited.code != 429:
            raise
        return "limited"


@pytest.fixture
def url(cli: CliRunner, tools: Path) -> Iterator[str]:
    """A hall that runs, with one task that asks something."""
    with cli.serve(str(tools)) as server:
        start_task(server.url)
        yield server.url


def only(cli: CliRunner, *words: str) -> str:
    (found,) = cli.run("task", "list", "--json", *words).json()
    assert found["tool"] == "long.asks@0.1.0"
    return str(found["id"])


def test_task_at_a_url_is_listed_shown_and_cancelled(cli: CliRunner, url: str) -> None:
    task, at = only(cli, "--url", url), ["--url", url]
    shown = cli.run("task", "show", task, *at)
    assert (shown.code, shown.out.splitlines()[0], MARK in shown.out) == (0, task, False)
    listed = cli.run("task", "list", "--state", "open", "--tool", "long.asks", "--caller", "local", *at)
    assert task in listed.out
    assert MARK not in listed.out
    assert cli.run("task", "list", "--state", "failed", *at).err == "there are no such tasks\n"
    assert cli.run("task", "cancel", task, *at).out == f"{task} is cancelled\n"
    assert cli.run("task", "show", task, "--json", *at).json()["state"] == "cancelled"


def test_task_in_the_folder_of_a_running_hall_is_shown_but_cancelled_at_its_url(cli: CliRunner, url: str) -> None:
    task = only(cli)
    assert cli.run("task", "show", task).out.startswith(task)
    refused = cli.run("task", "cancel", task)
    assert refused.code == 1
    assert "--url" in refused.error_line()
    assert cli.run("task", "show", task, "--json", "--url", url).json()["state"] == "input_required"


def test_task_of_a_stopped_hall_is_cancelled_in_its_folder(cli: CliRunner, tools: Path) -> None:
    with cli.serve(str(tools)) as server:
        start_task(server.url)
    task = only(cli, "--state", "open")
    shown = cli.run("task", "show", task, "--json").json()
    assert (shown["state"], shown["questions"]) == ("input_required", ["Which name?"])
    assert cli.run("task", "cancel", task).out == f"{task} is cancelled\n"
    assert cli.run("task", "list", "--state", "open").err == "there are no such tasks\n"
