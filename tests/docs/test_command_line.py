"""The command line's reference page is what `--help` prints; UPDATE_DOCS=1 writes it anew."""

import os
from pathlib import Path

from tests.harness.cli import CliRunner

PAGE = Path(__file__).parents[2] / "docs/reference/command-line.md"
COMMANDS = (
    *("", "serve", "install", "list", "inspect", "call", "read", "prompt", "convert", "lint", "diff", "lock", "verify"),
    *("replay", "add"),
)
GROUPS = {
    "upstream": ("list", "show", "check", "review", "sync", "off", "on", "remove"),
    "tool": ("add", "list", "show", "activate", "deactivate", "deprecate", "rollback", "remove", "history", "callers"),
    "key": ("create", "list", "revoke"),
    "grant": ("add", "list", "remove"),
    "approval": ("list", "approve", "deny"),
    "factor": ("add", "list", "remove"),
    "secret": ("set", "list", "remove", "rotate", "key"),
    "account": ("providers", "list", "connect", "disconnect"),
    "task": ("list", "show", "cancel"),
    "audit": ("tail", "search", "verify", "accept", "export"),
}
HEAD = """# Command line

What `--help` prints. [Settings](settings.md) says what else can be set.
"""


def helped(cli: CliRunner, command: str) -> str:
    done = cli.run(*command.split(), "--help")
    assert (done.code, done.err) == (0, "")
    return "\n".join(line.rstrip() for line in done.out.splitlines())


def test_command_line_page_equals_what_help_prints(tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    cli.environment |= {"COLUMNS": "100", "NO_COLOR": "1", "HOME": "/home/me"}
    cli.environment.pop("XDG_DATA_HOME", None)
    below = [f"{group} {command}".strip() for group, commands in GROUPS.items() for command in ("", *commands)]
    shown = {command: helped(cli, command) for command in (*COMMANDS, "new", *below)}
    parts = [f"\n## toolhall {command}".rstrip() + f"\n\n```\n{text}\n```\n" for command, text in shown.items()]
    page = HEAD + "".join(parts)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run the tests in tests/docs once with UPDATE_DOCS=1"
