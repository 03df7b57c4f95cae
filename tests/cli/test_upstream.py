"""`toolhall upstream` and `toolhall serve FILE` with real servers: a kit over stdio, and nobody at an address."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.server_process import eventually

TOKEN = "hunter2-hunter2"
SHOP = str(Path(__file__).parent / "shop.py")
NOBODY = "http://127.0.0.1:9/mcp"  # the port `discard`


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def command(cli: CliRunner, target: str = KIT) -> dict[str, Any]:
    """The entry of a server that is the program itself, over standard input and output."""
    words = ["-P", "-m", "toolhall.cli", "serve", target, "--stdio", "--data", str(cli.folder / "upstream")]
    return {"command": sys.executable, "args": words, "env": {"HOME": str(cli.folder), "KIT_TOKEN": TOKEN}}


def write(cli: CliRunner, **servers: object) -> None:
    (cli.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def listed(cli: CliRunner, url: str) -> dict[str, dict[str, Any]]:
    done = cli.run("upstream", "list", "--url", url, "--json")
    assert done.code == 0, done
    assert TOKEN not in done.out
    return {each["name"]: each for each in done.json()}


def test_served_file_offers_its_servers_and_follows_its_changes(cli: CliRunner) -> None:
    write(cli, Kit=command(cli), dead={"url": NOBODY}, waits={"url": "https://${NOT_SET_HERE}/mcp"})
    with cli.serve("mcp.json") as server:
        assert eventually(lambda: listed(cli, server.url)["Kit"]["state"] == "ready")
        assert eventually(lambda: listed(cli, server.url)["dead"]["state"] == "away")
        found = listed(cli, server.url)
        assert (found["Kit"]["tools"], found["Kit"]["source"], found["Kit"]["where"]) == (
            12,
            "command line",
            "mcp.json",
        )
        assert found["waits"]["state"] == "waiting"
        assert "the variable NOT_SET_HERE in mcp.json is not set" in found["waits"]["reason"]
        called = cli.run("call", "Kit_echo", "text=hi", "--json", "--url", server.url)
        assert '"text":"hi"' in called.out
        checked = cli.run("upstream", "check", "Kit", "--url", server.url)
        assert checked.code == 0, checked
        checked = cli.run("upstream", "check", "dead", "--url", server.url)
        assert checked.code == 1
        assert "dead cannot be used as it is; failed: address" in checked.error_line()
        children = found["Kit"]["restarts"]
        write(cli, Kit=command(cli), more={"url": NOBODY})
        assert eventually(lambda: sorted(listed(cli, server.url)) == ["Kit", "more"])
        assert listed(cli, server.url)["Kit"]["restarts"] == children, "what is as it was is not touched"


def test_upstream_of_the_settings_is_switched_off_and_on(cli: CliRunner) -> None:
    (cli.folder / "own.toml").write_text(f'[upstreams.Dead]\nurl = "{NOBODY}"\n')
    with cli.serve(KIT, "--config", "own.toml") as server:
        assert listed(cli, server.url)["Dead"]["where"] == "own.toml"
        for action, state in (("off", "Dead is off"), ("on", "Dead is ")):
            done = cli.run("upstream", action, "Dead", "--url", server.url)
            assert (done.code, state in done.out) == (0, True), done
        removed = cli.run("upstream", "remove", "Dead", "--yes", "--url", server.url)
        assert removed.code == 1
        assert "take it out there" in removed.error_line()
        (cli.folder / "own.toml").write_text(f'[upstreams.Other]\nurl = "{NOBODY}"\n')
        assert eventually(lambda: [*listed(cli, server.url)] == ["Other"])


def test_added_command_is_stored_with_its_secret_in_the_vault_and_reviewed(cli: CliRunner) -> None:
    entry = command(cli, SHOP)
    env = [word for name, value in entry["env"].items() for word in ("--env", f"{name}={value}")]
    done = cli.run("add", "--name", "Store", *env, "--json", "--", entry["command"], *entry["args"])
    assert done.code == 0, done
    (added,) = done.json()["added"]
    assert added["secrets"] == ["STORE_KIT_TOKEN"]
    assert TOKEN not in done.out + done.err
    assert TOKEN.encode() not in b"".join(each.read_bytes() for each in cli.data.rglob("*") if each.is_file())
    again = cli.run("add", "--name", "store", "--", "true")
    assert (again.code, "there is an upstream of the name" in again.err) == (1, True), again
    twin = cli.run("add", "--name", "store-kit", "--env", f"TOKEN={TOKEN}", "--", "true")
    assert (twin.code, "there is a secret STORE_KIT_TOKEN already" in twin.err) == (1, True), twin
    checked = cli.run("upstream", "check", "Store", "--json")
    assert (checked.code, checked.json()["ok"]) == (0, True), checked
    key = cli.run("key", "create", "boss", "--scopes", "admin,tools:*").out.strip()
    cli.environment["TOOLHALL_KEY"] = key
    with cli.serve(KIT, "--profile", "server") as server:
        assert eventually(lambda: listed(cli, server.url)["Store"]["waiting"] > 0)
        unseen = cli.run("upstream", "review", "Store", "--url", server.url)
        assert unseen.code == 1
        assert "(new)" in unseen.err
        accepted = cli.run("upstream", "review", "Store", "--yes", "--url", server.url)
        assert accepted.code == 0, accepted
        assert "Store.Shop_greet@1.0.0 is active" in accepted.out
        nothing = cli.run("upstream", "review", "Store", "--url", server.url)
        assert (nothing.code, "nothing of Store waits" in nothing.err) == (0, True), nothing
        removed = cli.run("upstream", "remove", "Store", "--yes", "--url", server.url)
        assert (removed.code, "Store is removed" in removed.out) == (0, True), removed
        assert listed(cli, server.url) == {}


def test_workers_refuse_commands_with_what_to_do_instead(cli: CliRunner) -> None:
    write(cli, Kit=command(cli))
    done = cli.run_process("serve", "mcp.json", "--workers", "2", "--port", "0")
    assert done.code == 78, done
    assert "(Kit): use --workers 1, or serve these in a hall of their own" in done.err


@pytest.mark.parametrize("words", [("list", "mcp.json"), ("call", "echo", "mcp.json")])
def test_file_of_servers_as_a_target_of_other_commands_says_what_to_do(cli: CliRunner, words: tuple[str, ...]) -> None:
    write(cli, Kit=command(cli))
    done = cli.run(*words)
    assert done.code == 2, done
    assert "'toolhall serve mcp.json', and then this command with --url" in done.error_line()
