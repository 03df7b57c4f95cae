"""`toolhall add` says what it recognised, what it cannot read and what it keeps, before it stores anything."""

import json
from pathlib import Path

import pytest

from tests.harness.cli import CliRunner

VECTORS = Path(__file__).parents[1] / "unit/dialects/client_files/vectors"
CLAUDE = str(VECTORS / "claude.json")
TOKEN = "ghp_aVerySecretToken0123456789"


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def test_add_of_a_url_moves_credentials_and_prints_none(cli: CliRunner) -> None:
    done = cli.run(
        "add", "https://mcp.example.com/mcp", "--header", f"Authorization=Bearer {TOKEN}", "--header", "X-Mode=fast",
        "--level", "2", "--share", "caller", "--only", "search_*,read", "--dry-run", "--json",
    )  # fmt: skip
    assert done.code == 0
    (found,) = done.json()["wouldAdd"]
    assert (found["name"], found["secrets"]) == ("example", ["EXAMPLE_AUTHORIZATION"])
    assert found["settings"] == {
        "url": "https://mcp.example.com/mcp",
        "headers": {"Authorization": "${secret:EXAMPLE_AUTHORIZATION}", "X-Mode": "***"},
        "share": "caller",
        "only": ["search_*", "read"],
        "level": 2,
    }
    assert TOKEN not in done.out + done.err


def test_add_of_a_command_keeps_its_options_and_warns_of_no_version(cli: CliRunner) -> None:
    done = cli.run(
        "add", "--name", "Files", "--env", f"TOKEN={TOKEN}", "--dry-run", "--", "npx", "-y", "files", "--url"
    )
    assert (done.code, done.out) == (0, "")
    later = "what runs tomorrow is not what was looked at today; write the version behind it"
    assert done.err.splitlines() == [
        "Files: npx -y files --url",
        '  env: {"TOKEN":"${secret:FILES_TOKEN}"}',
        "  kept in the vault as the secret FILES_TOKEN; ${secret:FILES_TOKEN} stands in its place",
        f"  warning: files has no exact version: {later}",
    ]


@pytest.mark.parametrize("form", sorted(each.name for each in VECTORS.iterdir()))
def test_add_of_a_file_says_what_each_server_needs(cli: CliRunner, form: str) -> None:
    cli.environment |= {"GITHUB_TOKEN": TOKEN}
    cli.environment.pop("DOCS_KEY", None)
    done = cli.run("add", str(VECTORS / form), "--dry-run", "--json")
    assert done.code == 0, done
    found = {each["name"]: each for each in done.json()["wouldAdd"]}
    if "github" in found and form != "vscode.json":  # which asks for it
        assert found["github"]["settings"]["env"] == {"GITHUB_TOKEN": "${secret:GITHUB_TOKEN}"}
        assert found["github"]["secrets"] == ["GITHUB_TOKEN"]
    if form not in ("gemini.json", "server_packages.json", "server_remote.json"):
        assert found["docs"]["waitsFor"] == ["DOCS_KEY"]
    assert TOKEN not in done.out + done.err


def test_add_only_takes_the_named_servers(cli: CliRunner) -> None:
    done = cli.run("add", CLAUDE, "--only", "docs,old events", "--dry-run", "--json")
    assert [each["name"] for each in done.json()["wouldAdd"]] == ["docs", "old-events"]
    done = cli.run("add", CLAUDE, "--only", "docs", "--name", "Manual", "--dry-run", "--json")
    assert [each["name"] for each in done.json()["wouldAdd"]] == ["Manual"]


def test_add_names_the_server_that_cannot_be_read_and_shows_the_others(cli: CliRunner) -> None:
    servers = {"good": {"command": "true"}, "bad": {"type": "ws", "url": "wss://a"}, "lost": {"command": "${NOWHERE}"}}
    (cli.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers, "other": 1}))
    done = cli.run("add", "mcp.json", "--dry-run")
    assert done.code == 1
    assert "good: true" in done.err
    assert "2 upstreams not added: bad: type is none of stdio, http and sse" in done.err
    assert "lost: the variable NOWHERE is not set" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "add what?"),
        (["https://a.example", "more"], "a URL stands alone"),
        (["http:/a"], "url is not the address of a server"),
        (["missing.json"], "there is no file missing.json"),
        ([CLAUDE, "--only", "nobody"], "has no server nobody; it has files, github, docs, old events, notes"),
        ([CLAUDE, "--name", "One"], "--name names one server"),
        ([CLAUDE, "--header", "A=b"], "--header and --env go with a URL or a command"),
        (["https://a.example", "--header", "A"], "--header is NAME=VALUE"),
        (["https://a.example", "--env", "A=b"], "env belongs to an upstream with command"),
        (["https://a.example", "--level", "11"], "--level is a number from 0 to 10"),
        (["https://a.example", "--name", "a b"], "--name: 'a b' is not a name of an upstream"),
        (["--url", "http://127.0.0.1:1", "--", "true"], "none is taken over the network"),
    ],
)
def test_add_of_what_cannot_be_added_is_wrong_usage(cli: CliRunner, words: list[str], said: str) -> None:
    done = cli.run("add", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.error_line()


def test_add_of_a_file_without_a_person_needs_yes(cli: CliRunner) -> None:
    done = cli.run("add", CLAUDE, "--only", "notes")
    assert done.code == 1
    assert "Add 1 upstream as shown?" in done.err
    assert not cli.data.exists()


def test_add_at_a_terminal_asks_for_each_input_once_and_keeps_it_in_the_vault(cli: CliRunner) -> None:
    entry = {"command": "true", "args": ["${input:folder}"], "env": {"TOKEN": "${input:token}"}}
    inputs = [{"id": "token", "description": "The token", "password": True}, {"id": "folder", "description": "Where"}]
    (cli.folder / "mcp.json").write_text(json.dumps({"inputs": inputs, "servers": {"one": entry, "two": entry}}))
    with cli.terminal("add", "mcp.json", "--yes") as terminal:
        for asked, answer in (
            ("folder:", "./data"), ("Value (it is not shown):", TOKEN), ("The same again:", TOKEN),
        ):  # fmt: skip
            terminal.expect(asked)
            terminal.type(answer)
        terminal.expect("two is added")
    secrets = [each["name"] for each in cli.run("secret", "list", "--json").json()]
    assert secrets == ["ONE_TOKEN", "TWO_TOKEN"]
    found = cli.run("upstream", "show", "one", "--json").json()
    assert found["settings"] == {"command": "true", "args": ["./data"], "env": {"TOKEN": "${secret:ONE_TOKEN}"}}


def test_add_says_that_an_unset_variable_without_braces_is_text(cli: CliRunner) -> None:
    (cli.folder / "mcp.json").write_text('{"mcpServers": {"docs": {"command": "x", "env": {"KEY": "$NOT_SET_HERE"}}}}')
    done = cli.run("add", "mcp.json", "--dry-run", "--json")
    (found,) = done.json()["wouldAdd"]
    assert any("$NOT_SET_HERE is used as it is written" in each for each in found["warnings"])


def test_add_of_a_file_with_no_server_in_it_is_refused(cli: CliRunner) -> None:
    (cli.folder / "mcp.json").write_text('{"mcpServers": {}}')
    done = cli.run("add", "mcp.json")
    assert (done.code, done.error_line()) == (
        1,
        "toolhall: mcp.json lists no servers; write one into it, or add one by its URL",
    )
