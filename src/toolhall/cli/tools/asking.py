"""Asks the person before something happens that is hard to take back."""

import sys

from toolhall.cli.failure import CommandFailed
from toolhall.cli.screen import YELLOW, person_present, styled
from toolhall.cli.terminal import forget_typed, prompt, says_yes


def agree(question: str, *, yes: bool) -> None:
    """Return if the person agrees, or said --yes before; CommandFailed where nobody does."""
    if yes:
        return
    if not person_present():
        raise CommandFailed(f"there is nobody to ask: {question} Add --yes if you have decided")
    forget_typed()
    prompt(styled(f"{question} [y/N] ", YELLOW, sys.stderr))
    if not says_yes(sys.stdin.readline()):
        raise CommandFailed("nothing was changed: you did not say yes")
