"""The page about keys and grants is a story, and every command on it works."""

import re
from pathlib import Path

from tests.cli.shell import Shell

PAGE = (Path(__file__).parents[2] / "docs/how-to/keys-and-grants.md").read_text()
COMMANDS = re.findall(r"^toolhall (.*)$", PAGE, re.MULTILINE)
OPTIONS = re.findall(r"^\| `(--\w+)(?: ([^`]+))?` \|", PAGE, re.MULTILINE)


def test_every_command_on_the_page_works(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for command in COMMANDS:
        words = [word.strip("'") for word in command.split()]
        if words[-1] == "ID":
            words[-1] = shell.run(words[0], "list", "--json").json()[0]["id"]
        done = shell.run(*words)
        assert done.code == 0, (command, done)
    assert {tuple(command.split()[:2]) for command in COMMANDS} == {
        *(("key", verb) for verb in ("create", "list", "revoke")),
        *(("grant", verb) for verb in ("add", "list", "remove")),
    }
    assert [bool(key["revokedAt"]) for key in shell.run("key", "list", "--json").json()] == [True, False]
    assert [grant["effect"] for grant in shell.run("grant", "list", "--json").json()] == ["permit", "forbid"]


def test_every_option_on_the_page_is_taken(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    given = [word for option, value in OPTIONS for word in (option, value) if word]
    assert {option for option, _ in OPTIONS} == {"--scopes", "--owner", "--shared", "--expires"}
    made = shell.run("key", "create", "ci", *given)
    (key,) = shell.run("key", "list", "--json").json()
    assert (key["scopes"], key["owner"], key["shared"]) == (["admin", "tools:Calendar"], "alice", True), made
