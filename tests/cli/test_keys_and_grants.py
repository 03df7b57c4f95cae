"""`toolhall key` and `toolhall grant`, on a data folder and at a running hall; and every command that sends a key."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import segno

from tests.harness.cli import KIT, CliRunner

TOOLS = """
from toolhall import tool

@tool(version="1.0.0", level=4)
def push(repo: str) -> str:
    \"\"\"Push to a repository.\"\"\"
    return f"pushed {repo}"
"""


class Hall(NamedTuple):
    """The words that name a running hall, and a key that may manage it."""

    at: list[str]
    admin: str


def test_key_created_is_listed_and_revoked(cli: CliRunner) -> None:
    made = cli.run("key", "create", "ci", "--scopes", "admin, tools:Kit", "--owner", "ada", "--shared")
    assert (made.code, made.out.count("\n"), made.out[:3]) == (0, 1, "tk_"), "piped, the key is alone"
    assert "cannot be shown again" in made.err
    assert made.out.strip() not in made.err
    second = cli.run("key", "create", "ci", "--expires", "never", "--json")
    assert sorted(second.json()) == ["expires", "id", "name", "secret"]
    assert (second.json()["expires"], "never expires" in second.err) == (None, True)
    listed = cli.run("key", "list", "--json").json()
    assert [(key["name"], key["owner"], key["shared"]) for key in listed] == [("ci", "ada", True), ("ci", None, False)]
    assert made.out.strip() not in json.dumps(listed)
    assert cli.run("key", "revoke", listed[0]["id"]).out == f"the key {listed[0]['id']} of ci is revoked\n"
    shown = cli.run("key", "list").out.splitlines()
    assert ["revoked" in shown[1], "good" in shown[2], len(shown)] == [True, True, 3]


def test_key_created_for_a_tool_server_names_the_next_step(cli: CliRunner) -> None:
    made = cli.run("key", "create", "calendars", "--scopes", "serve:Calendar")
    assert (made.code, "toolhall tool activate" in made.err) == (0, True)
    trusted = cli.run("key", "create", "rooms", "--scopes", "serve:*,trusted")
    assert (trusted.code, "toolhall tool activate" in trusted.err) == (0, False)
    listed = cli.run("key", "list", "--json").json()
    assert [key["scopes"] for key in listed] == [["serve:Calendar"], ["serve:*", "trusted"]]


def test_grant_added_is_listed_and_removed(cli: CliRunner) -> None:
    words = ["--when", "/repo=a", "--when", "/repo=b", "--when", "/n=5"]
    added = cli.run("grant", "add", "ci", "Kit.*", *words)
    grant_id = added.out.partition(":")[0]
    assert added.out == f'{grant_id}: ci may call Kit.* when /repo is "a" or "b", /n is 5\n'
    forbid = cli.run("grant", "add", "*", "Kit.wipe", "--forbid", "--json").json()
    listed = cli.run("grant", "list", "--json").json()
    assert [each["effect"] for each in listed] == ["permit", "forbid"]
    assert listed[0]["conditions"] == [{"path": "/repo", "oneOf": ["a", "b"]}, {"path": "/n", "oneOf": [5]}]
    assert cli.run("grant", "remove", grant_id).out == f"the grant {grant_id} is removed\n"
    assert forbid.pop("warnings")
    assert cli.run("grant", "list", "--json").json() == [{**forbid, "calls": 0}]


def test_grant_that_matches_nothing_warns(cli: CliRunner) -> None:
    assert cli.run("key", "create", "ci").code == 0
    first = cli.run("grant", "add", "ci", "Kit.*")
    assert "warning" not in first.err
    assert "warning: no key belongs to a caller 'c1'" in cli.run("grant", "add", "c1", "Kit.*").err
    idle = cli.run("grant", "add", "ci", "Kit.push", "--when", "/repo=a")
    assert f"warning: its conditions change nothing: {first.out.partition(':')[0]}" in idle.err
    told = cli.run("grant", "add", "c2", "Kit.*", "--json").json()
    assert "no key belongs to a caller 'c2'" in told["warnings"][0]


def test_factor_add_at_terminal_draws_a_qr_code(cli: CliRunner) -> None:
    with cli.terminal("factor", "add", "totp", "local") as terminal:
        screen = terminal.expect("First code")
        uri = re.search(r"otpauth://\S+", screen)
        assert uri
        drawn = [line.partition("\x1b[0m")[0] for line in screen.split("\x1b[97;40m")[1:]]
        assert _modules(drawn) == [list(map(bool, row)) for row in segno.make(uri[0], error="l").matrix_iter(border=2)]


def _modules(drawn: list[str]) -> list[list[bool]]:
    """Which modules of a code are dark; one character is two of them, one above the other."""
    halves = {"\u2588": (False, False), " ": (True, True), "\u2580": (False, True), "\u2584": (True, False)}
    rows = [[halves[each][half] for each in line] for line in drawn for half in (0, 1)]
    return rows[: len(rows[0])]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["key", "create", "local"], 1, "choose another"),
        (["key", "list", "--data", "nowhere"], 1, "there is no hall in nowhere"),
        (["key", "list", "--key", "tk_x"], 2, "name it with --url"),
        (["list", KIT, "--key", "tk_x"], 2, "name it with --url"),
        (["key", "list", "--url", "http://127.0.0.1:1", "--key", "a b"], 2, "--key holds no key"),
        (["grant", "add", "ci", "*", "--when", "repo"], 2, "write it like /repo=main"),
        (["grant", "remove", "x", "--data", "."], 1, "there is no hall in ."),
    ],
)
def test_key_or_grant_command_with_wrong_words_prints_one_line(
    cli: CliRunner, words: list[str], code: int, said: str
) -> None:
    done = cli.run(*words)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()


@pytest.fixture
def hall(cli: CliRunner, tmp_path: Path) -> Iterator[Hall]:
    """A hall that serves others, and the keys of an admin and of a program."""
    (tmp_path / "tools.py").write_text(TOOLS)
    admin = cli.run("key", "create", "boss", "--scopes", "admin,tools:*").out.strip()
    with cli.serve("tools.py", "--profile", "server") as server:
        yield Hall(["--url", server.url], admin)


def test_keys_and_grants_at_a_url_are_managed(cli: CliRunner, hall: Hall) -> None:
    cli.environment["TOOLHALL_KEY"] = hall.admin
    secret = cli.run("key", "create", "ci", *hall.at).out.strip()
    cli.run("grant", "add", "ci", "*.push", *hall.at)
    cli.environment["TOOLHALL_KEY"] = secret
    assert "pushed a" in cli.run("call", "push", "repo=a", "--yes", *hall.at).out, "both count at once"
    assert cli.run("key", "list", *hall.at).code == 1, "it is no admin's"
    shown = cli.run("key", "list", "--key", hall.admin, *hall.at)
    assert (shown.code, "ci" in shown.out, hall.admin in shown.out + shown.err) == (0, True, False)
    assert cli.run("key", "revoke", secret[3:15], "--key", hall.admin, *hall.at).code == 0
    assert "does not accept this key" in cli.run("call", "push", "repo=a", "--yes", *hall.at).error_line()
    for file in cli.data.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes()


def test_management_command_at_a_url_sends_the_key(cli: CliRunner, hall: Hall) -> None:
    for words in (["list"], ["tool", "list"]):
        assert "TOOLHALL_KEY" in cli.run(*words, *hall.at).error_line()
    cli.environment["TOOLHALL_KEY"] = hall.admin
    cli.run("grant", "add", "boss", "*", *hall.at)
    for words in (["inspect", "push"], ["tool", "list"], ["lock", "--out", "tools.lock"], ["verify", "tools.lock"]):
        done = cli.run(*words, *hall.at)
        assert done.code == 0, done
    cli.environment["TOOLHALL_KEY"] = "no key"
    refused = cli.run("list", *hall.at).error_line()
    assert ("TOOLHALL_KEY holds no key" in refused, "'no key'" in refused) == (True, False)
