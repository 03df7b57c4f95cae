"""Codes that a person types: never on the command line, where others could read them."""

import sys

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import YELLOW, person_present, styled
from toolhall.cli.terminal import forget_typed, prompt

_MOST = 64


def typed_code(question: str) -> str:
    """The line that is typed at the terminal, or that comes on the standard input."""
    if person_present():
        forget_typed()
        prompt(styled(f"{question}: ", YELLOW, sys.stderr))
    line = sys.stdin.readline(_MOST).strip() if sys.stdin is not None else ""
    if not line:
        raise CommandFailed("nothing was changed: there was no code; type it, or send it on the standard input")
    return line
