"""The program as a whole: help, version, exit codes, one line for what went wrong."""

import pytest

from tests.harness.cli import KIT, CliRunner
from toolhall.cli.app import app

COMMANDS = ("serve", "list", "inspect", "call", "convert", "lint", "diff", "lock", "verify", "replay", "new")
GROUPS = {
    "tool": ("add", "list", "show", "activate", "deactivate", "deprecate", "rollback", "remove", "history", "callers"),
    "key": ("create", "list", "revoke"),
    "grant": ("add", "list", "remove"),
    "secret": ("set", "list", "remove", "rotate", "key"),
    "account": ("providers", "list", "connect", "disconnect"),
    "approval": ("list", "approve", "deny"),
    "factor": ("add", "list", "remove"),
    "audit": ("tail", "search", "verify", "accept", "export"),
}
BELOW = [f"{group} {command}" for group, commands in GROUPS.items() for command in commands]


def test_help_shows_commands_in_groups_with_an_example_each(cli: CliRunner) -> None:
    done = cli.run("--help")
    assert done.code == 0
    for group in ("Serve tools", "Look at tools", "Call tools", "Check definitions", "Make tools", "Manage a hall"):
        _, _, panel = done.out.partition(f"─ {group} ")
        assert "Example: toolhall " in panel.partition("╰")[0]
    assert cli.run().out == done.out


@pytest.mark.parametrize("command", [*COMMANDS, *BELOW])
def test_command_of_any_kind_takes_json(command: str) -> None:
    found = app
    for word in command.split():
        found = found[word]
    names = [name for argument in found.assemble_argument_collection() for name in argument.names]
    assert "--json" in names


@pytest.mark.parametrize("command", [each for each in BELOW if each != "secret key"])  # which is about no hall
def test_management_command_takes_data_and_url(command: str) -> None:
    group, name = command.split()
    names = {each for argument in app[group][name].assemble_argument_collection() for each in argument.names}
    assert {"--data", "--json"} <= names
    assert "--url" not in names or "--key" in names, "whoever can be asked over HTTP may want a key"


@pytest.mark.parametrize("group", GROUPS)
def test_management_group_lists_every_command_with_an_example(cli: CliRunner, group: str) -> None:
    found = {name for name in app[group] if not name.startswith("-")}
    assert found == set(GROUPS[group])
    said = cli.run(group, GROUPS[group][0], "--help").out
    assert f"Example: toolhall {group} {GROUPS[group][0]}" in said


def test_version_option_prints_the_version(cli: CliRunner) -> None:
    done = cli.run("--version")
    assert (done.code, done.out) == (0, "toolhall 0.1.0\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nope"], 2, 'Unknown command "nope"'),
        (["nope"], 2, "prompt, convert and more; see 'toolhall --help'"),
        (["list", "--jsn"], 2, "Did you mean --json?"),
        (["list", "a.py", "b.py"], 2, "too many words: b.py"),
        (["call"], 2, "requires an argument"),
        (["call", "get_weather", "Oslo"], 2, "write arguments as key=value"),
        (["call", "get_weather", "--timeout", "0"], 2, "more than 0"),
        (["list", "missing.py"], 2, "there is no file missing.py"),
        (["list", "no.such.module"], 2, "there is no module 'no.such.module'"),
        (["list", "--dialect", "esperanto"], 2, "mcp@2026-07-28"),
        (["list", KIT, "--url", "http://127.0.0.1:1"], 2, "not both"),
        (["list", "--url", "ftp://127.0.0.1"], 2, "http://127.0.0.1:8000"),
        (["list", "--url", "http://me:secret@127.0.0.1"], 2, "no user name or password"),
        (["list", "--url", "http://127.0.0.1:1"], 1, "start it with 'toolhall serve'"),
        (["inspect", "a", "b", "c"], 2, "too many words"),
        (["inspect", "Calculator_Ad"], 1, "did you mean 'Calculator_Add'?"),
    ],
)
def test_command_that_goes_wrong_prints_one_line_with_its_exit_code(
    cli: CliRunner, words: list[str], code: int, said: str
) -> None:
    done = cli.run(*words)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()


def test_command_whose_reader_closes_the_pipe_prints_no_traceback(cli: CliRunner) -> None:
    with cli.start("list", KIT, "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
