"""The command line's reference page is what `--help` prints; UPDATE_DOCS=1 writes it anew."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/reference/command-line.md"
COMMANDS = ("", "serve", "install", "list", "inspect", "call", "convert", "lint", "diff", "lock", "verify", "replay")
GROUPS = {
    "tool": ("add", "list", "show", "activate", "deactivate", "deprecate", "rollback", "remove", "history", "callers"),
    "key": ("create", "list", "revoke"),
    "grant": ("add", "list", "remove"),
    "approval": ("list", "approve", "deny"),
    "factor": ("add", "list", "remove"),
    "secret": ("set", "list", "remove", "rotate", "key"),
    "account": ("providers", "list", "connect", "disconnect"),
    "audit": ("tail", "search", "verify", "accept", "export"),
}
HEAD = """# Command line

What `--help` prints. [Settings](settings.md) says what else can be set.
"""


def helped(command: str) -> str:
    words = [sys.executable, "-m", "toolhall.cli", *command.split(), "--help"]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "HOME": "/home/me"}
    environment.pop("XDG_DATA_HOME", None)
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30, env=environment)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


@pytest.mark.timeout(180)  # some fifty processes
def test_the_page_is_what_help_prints() -> None:
    below = [f"{group} {command}".strip() for group, commands in GROUPS.items() for command in ("", *commands)]
    commands = (*COMMANDS, "new", *below)
    with ThreadPoolExecutor(2) as pool:
        shown = dict(zip(commands, pool.map(helped, commands), strict=True))
    parts = [f"\n## toolhall {command}".rstrip() + f"\n\n```\n{text}\n```\n" for command, text in shown.items()]
    page = HEAD + "".join(parts)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run the tests in tests/docs once with UPDATE_DOCS=1"
