"""Which data folder a command uses, who shares it, and how a client hears that it cannot be used."""

import asyncio
import json
import re
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve_modes import INITIALIZE, ask
from tests.cli.test_serve_registry import CALCULATOR, told, write_shop
from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from toolhall.cli.settings import default_data_folder, project_root
from toolhall.config import Config, overridden, overriding
from toolhall.stores.access import Grant
from toolhall.stores.common import StoreFailed
from toolhall.stores.open import open_stores
from toolhall.stores.sql import base

PLAIN = '''
from toolhall import tool

@tool(effect="reads")
def {name}() -> str:
    """Say so."""
    return "{name}"
'''
OWN = '''
from toolhall import Config, Toolhall, tool

@tool(level=1)
def hello() -> str:
    """Greet."""
    return "hello"

hall = Toolhall(hello, config=Config(data="own", name="own", port=1))
'''


@pytest.fixture
def home(cli: CliRunner) -> Path:
    """Where data folders are that nobody names."""
    del cli.environment["TOOLHALL_DATA"]
    cli.environment["XDG_DATA_HOME"] = str(cli.folder / "home")
    return cli.folder / "home" / "toolhall"


def project(cli: CliRunner, name: str) -> Path:
    """A project with one tool of its own name."""
    folder = cli.folder / name
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / f"{name}.py").write_text(PLAIN.format(name=name))
    return folder


def test_data_folder_of_each_project_is_its_own(cli: CliRunner, home: Path) -> None:
    one, two = project(cli, "one"), project(cli, "two")
    with cli.serve(str(one / "one.py")), cli.serve(str(two / "two.py")):
        pass
    names = sorted(path.name for path in (home / "projects").iterdir())
    assert [name.rpartition("-")[0] for name in names] == ["one", "two"]


def test_data_folder_of_one_project_is_shared_by_two_servers(cli: CliRunner, home: Path) -> None:
    (cli.folder / "other.py").write_text(PLAIN.format(name="other"))
    with cli.serve(KIT) as first, cli.serve("other.py") as second:
        assert told(second.url, "/health")["status"] == told(first.url, "/health")["status"]
    cli.folder.joinpath("own.py").write_text(PLAIN.format(name="own"))
    with cli.serve("own.py") as first, cli.serve("other.py") as second:
        added = cli.run("tool", "add", str(CALCULATOR), "--url", first.url)
        assert added.code == 0, added
        refused = cli.run("tool", "deactivate", "calculator.add", "--url", second.url)
        assert refused.code == 1
    (folder,) = (path for path in (home / "projects").iterdir() if path.name.startswith(cli.folder.name))
    assert {"state.key", "toolhall.db", "tools.lock"} <= {path.name for path in folder.iterdir()}


def test_data_folder_of_the_working_project_is_found_by_commands(cli: CliRunner, home: Path) -> None:
    folder = project(cli, "one")
    below = folder / "deep" / "down"
    below.mkdir(parents=True)
    cli.folder = below
    assert cli.run("key", "create", "ci").code == 0
    cli.folder = folder
    assert [key["name"] for key in cli.run("key", "list", "--json").json()] == ["ci"]
    cli.folder = folder.parent
    with cli.serve(str(folder / "one.py"), "--profile", "server"):
        pass  # it has a key, so it may start
    elsewhere = cli.run("key", "list").error_line()
    assert "there is no hall in" in elsewhere
    assert "--data" in elsewhere


def test_data_folder_of_an_earlier_version_stays_in_use(cli: CliRunner, home: Path) -> None:
    assert cli.run("key", "create", "old", "--data", str(home)).code == 0
    one, two = project(cli, "one"), project(cli, "two")
    for folder in (one, two):
        cli.folder = folder
        assert [key["name"] for key in cli.run("key", "list", "--json").json()] == ["old"]
    with cli.serve(str(one / "one.py")), cli.serve(str(two / "two.py")):
        pass
    assert not (home / "projects").exists()


def test_data_folder_at_start_of_a_server_is_shown(cli: CliRunner, home: Path) -> None:
    with cli.terminal("serve", KIT, "--port", "0") as terminal:
        shown = terminal.expect("Ctrl+C stops the server.")
    assert re.search(rf"Data folder: {re.escape(str(home))}/projects/\S+", shown.replace("\r\n", "")), shown


def test_project_root_by_its_markers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = tmp_path / "home" / "person"
    inside = person / "code" / "app" / "src"
    inside.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    (person / ".git").mkdir()  # a home under version control holds many projects
    assert project_root(inside) == inside
    (person / "code" / "app" / "toolhall.toml").write_text("")
    assert project_root(inside) == person / "code" / "app"
    monkeypatch.chdir(inside)
    assert default_data_folder() == default_data_folder([str(person / "code/app")])
    assert default_data_folder().parent == person / ".local/share/toolhall/projects"
    assert default_data_folder().name.startswith("app-")
    (inside / "tools.py").write_text("")
    assert (
        default_data_folder(["tools.py:tools", "/"])
        == default_data_folder(["tools.py"])
        == default_data_folder(["some.module"])
    )


def test_data_folder_named_for_several_stdio_servers_is_shared(cli: CliRunner) -> None:
    write_shop(cli, "1.0.0")
    with ExitStack() as stack:
        processes = [stack.enter_context(cli.start("serve", "shop.py", "--stdio")) for _ in range(4)]
        for process in processes:
            assert ask(process, INITIALIZE)["id"] == 1
            assert ask(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})["id"] == 2
        for process in processes:
            call: Any = {"name": "Shop_price", "arguments": {"item": "tea"}}
            answer: Any = ask(process, {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call})
            assert answer["result"]["content"] == [{"type": "text", "text": "3"}]
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(patience()) == 0
    assert cli.run("audit", "verify").code == 0
    records = cli.run("audit", "search", "--json").json()
    assert len([each for each in records if "Shop.price" in json.dumps(each)]) == 4
    assert [tool["id"] for tool in cli.run("tool", "list", "--json").json()] == ["Shop.price@1.0.0"]


SECRET = '''
from toolhall import Context, tool

@tool(secrets=["KEY"], effect="reads")
def length(ctx: Context) -> int:
    """How long the secret is."""
    return len(ctx.secret("KEY"))
'''


def test_commands_beside_a_stdio_server_work(cli: CliRunner) -> None:
    (cli.folder / "tools.py").write_text(SECRET)
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "length", "arguments": {}}}
    with cli.start("serve", "tools.py", "--stdio") as process:
        assert ask(process, INITIALIZE)["id"] == 1
        assert cli.run("secret", "set", "KEY", text="SK01234567").code == 0
        deadline = time.monotonic() + patience()
        number = 2
        while "10" not in json.dumps(ask(process, {**call, "id": number}).get("result")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
            number += 1
        assert cli.run("key", "create", "ci").code == 0
        assert cli.run("tool", "add", str(CALCULATOR)).code == 0
        assert [key["name"] for key in cli.run("key", "list", "--json").json()] == ["ci"]
        rotated = cli.run("secret", "rotate", "--new")
        assert f"is in use by process {process.pid}" in rotated.error_line()
    assert cli.run("secret", "rotate", "--new").code == 0


def test_commands_run_at_the_same_time_wait_for_each_other(cli: CliRunner) -> None:
    with ThreadPoolExecutor(4) as pool:
        begun = [pool.submit(cli.run_process, "key", "create", f"ci{number}") for number in range(4)]
        ended = [each.result() for each in begun]
    assert [each.code for each in ended] == [0] * 4, ended
    assert len(cli.run("key", "list", "--json").json()) == 4


def test_data_folder_of_a_server_is_shared_with_stdio_servers(cli: CliRunner) -> None:
    with cli.start("serve", KIT, "--stdio") as before:
        assert ask(before, INITIALIZE)["id"] == 1
        with cli.serve(KIT) as server, cli.start("serve", KIT, "--stdio") as after:
            assert ask(after, INITIALIZE)["id"] == 1
            assert cli.run("tool", "add", str(CALCULATOR), "--url", server.url).code == 0
            second = cli.run_process("serve", "--port", "0").error_line()
            assert f"is in use by process {server.process.pid}; stop that one" in second
            grant = json.dumps({"callers": "ci", "tools": "*"}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{server.url}/api/grants", grant, headers)
            with urllib.request.urlopen(request, timeout=patience()) as reply:
                assert reply.status == 201


async def test_store_file_made_by_one_process_is_seen_by_earlier_ones(tmp_path: Path) -> None:
    one = open_stores(tmp_path, allow_readonly=True, role="peer", tools_optional=True)
    other = open_stores(tmp_path, allow_readonly=True, role="peer", tools_optional=True)
    assert (one.tools_readonly, other.tools_readonly) == (False, True)
    one.release_tools()
    open_stores(tmp_path, allow_readonly=False, role="peer").close()  # another one may change tools now
    assert one.version is not None
    assert other.version is not None
    before = await one.version()
    await other.grants.add(Grant(id="g", effect="permit", callers="*", tools="*", created_at=1.0, by="x"))
    assert await one.version() != before
    assert [grant.id for grant in await one.grants.all()] == ["g"]
    one.close()
    other.close()
    alone = open_stores(tmp_path, allow_readonly=False)
    assert [grant.id for grant in await alone.grants.all()] == ["g"]
    alone.close()


async def test_store_file_made_by_two_at_the_same_time_is_one(tmp_path: Path) -> None:
    grants = [Grant(id=f"g{n}", effect="permit", callers="*", tools="*", created_at=1.0, by="x") for n in range(2)]
    with (
        closing(open_stores(tmp_path, allow_readonly=False, role="peer")) as one,
        closing(open_stores(tmp_path, allow_readonly=False, role="peer", tools_optional=True)) as other,
    ):
        await asyncio.gather(one.grants.add(grants[0]), other.grants.add(grants[1]))
        assert {grant.id for grant in await one.grants.all()} == {"g0", "g1"}


async def test_store_tables_of_an_older_version_in_use_are_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(open_stores(tmp_path, allow_readonly=False, role="peer")) as old:
        await old.grants.add(Grant(id="g", effect="permit", callers="*", tools="*", created_at=1.0, by="x"))
        monkeypatch.setattr(base, "REVISIONS", (*base.REVISIONS, "9999"))
        with pytest.raises(StoreFailed, match="an older Toolhall that is still using it"):
            open_stores(tmp_path, allow_readonly=False, role="peer", tools_optional=True)
        assert [grant.id for grant in await old.grants.all()] == ["g"]


def test_serve_over_stdio_that_cannot_start_tells_the_client_why(cli: CliRunner) -> None:
    blocked = cli.folder / "file"
    blocked.write_text("")
    (cli.folder / "broken.py").write_text("x = y")
    for words, said in (
        (("serve", KIT, "--stdio", "--data", str(blocked)), "the data folder"),
        (("serve", "broken.py", "--stdio"), "NameError"),
    ):
        notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
        done = cli.run_process(*words, text=f"{notification}\nnonsense\n{json.dumps(INITIALIZE)}\n")
        assert done.code == 1
        answer = done.json()
        assert (answer["id"], answer["error"]["code"]) == (1, -32603)
        assert said in answer["error"]["message"]
        assert said in done.err


def test_serve_over_stdio_that_cannot_start_answers_while_input_stays_open(cli: CliRunner) -> None:
    write_shop(cli, "1.0.0")
    with cli.serve("shop.py"):
        write_shop(cli, "1.0.0", "int")  # which may not be served from that folder
        with cli.start("serve", "shop.py", "--stdio") as process:
            answer: Any = ask(process, INITIALIZE)
            assert "Shop.price@1.0.0 is registered with other content" in answer["error"]["message"]
            assert process.wait(patience()) == 1


def test_serve_options_override_the_settings_of_an_own_hall(cli: CliRunner) -> None:
    (cli.folder / "own.py").write_text(OWN)
    (cli.folder / "mine.toml").write_text('name = "mine"\ninstructions = "Be kind."\n')
    given = cli.folder / "given"
    with cli.serve("own.py", "--data", str(given), "--config", "mine.toml") as server:
        assert not server.url.endswith(":1")
        assert told(server.url, "/openapi.json")["info"]["title"] == "mine"
    assert (given / "state.key").exists()
    assert not (cli.folder / "own").exists()
    with cli.serve("own.py", "--host", "127.0.0.2") as server:
        assert told(server.url, "/openapi.json")["info"]["title"] == "own"
    assert (cli.folder / "own" / "state.key").exists()
    refused = cli.run_process("serve", "own.py", "--profile", "server", "--port", "0")
    assert (refused.code, "needs a credential" in refused.error_line()) == (78, True)
    with cli.serve("own.py", "--data", str(given), "--workers", "2") as server:
        assert told(server.url, "/health")


def test_config_overrides_hold_only_inside_their_context() -> None:
    own = Config(name="own", allowed_hosts=("tools.example",))
    with overriding({"name": "given", "host": "::1"}):
        made = overridden(own)
    assert (made.name, made.host, made.allowed_hosts) == ("given", "::1", ("tools.example", "[::1]"))
    assert overridden(own) is own
