"""The page about keys and grants is a story, and every command on it works."""

import re
from pathlib import Path

from tests.harness.cli import CliRunner

PAGE = (Path(__file__).parents[2] / "docs/how-to/keys-and-grants.md").read_text()
COMMANDS = re.findall(r"^toolhall (.*)$", PAGE, re.MULTILINE)
OPTIONS = re.findall(r"^\| `(--\w+)(?: ([^`]+))?` \|", PAGE, re.MULTILINE)


def test_keys_and_grants_page_commands_all_work(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    for command in COMMANDS:
        words = [word.strip("'") for word in command.split()]
        if words[-1] == "ID":
            words[-1] = cli.run(words[0], "list", "--json").json()[0]["id"]
        done = cli.run(*words)
        assert done.code == 0, (command, done)
    assert {tuple(command.split()[:2]) for command in COMMANDS} == {
        *(("key", verb) for verb in ("create", "list", "revoke")),
        *(("grant", verb) for verb in ("add", "list", "remove")),
    }
    assert [bool(key["revokedAt"]) for key in cli.run("key", "list", "--json").json()] == [True, False]
    assert [grant["effect"] for grant in cli.run("grant", "list", "--json").json()] == ["permit", "forbid"]


def test_keys_and_grants_page_options_are_all_known(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    given = [word for option, value in OPTIONS for word in (option, value) if word]
    assert {option for option, _ in OPTIONS} == {"--scopes", "--owner", "--shared", "--expires"}
    made = cli.run("key", "create", "ci", *given)
    (key,) = cli.run("key", "list", "--json").json()
    assert (key["scopes"], key["owner"], key["shared"]) == (["admin", "tools:Calendar"], "alice", True), made
