"""The program's help page is what cyclopts would print, at any width; what it cannot print is left to cyclopts."""

import re

import pytest

from tests.harness.cli import CliRunner
from toolhall.cli import help_page

ESCAPES = re.compile("\x1b\\[[0-9;]*m")


def lines(text: str) -> list[str]:
    """The lines as they look, without colour and without blanks at their ends."""
    return [ESCAPES.sub("", line).rstrip() for line in text.splitlines()]


def by_cyclopts(cli: CliRunner, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    with monkeypatch.context() as patched:
        patched.setattr(help_page, "_MIN_WIDTH", 1_000_000)
        return cli.run("--help", terminal=terminal).out


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("width", [50, 51, 60, 79, 80, 100, 137, 200])
def test_help_page_equals_that_of_cyclopts(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, width: int, *, terminal: bool
) -> None:
    cli.environment["COLUMNS"] = str(width)
    page = cli.run("--help", terminal=terminal).out
    assert lines(page) == lines(by_cyclopts(cli, monkeypatch, terminal=terminal))
    assert all(len(line) <= width for line in lines(page))


def test_help_page_is_coloured_at_a_terminal_only(cli: CliRunner) -> None:
    assert "\x1b[36mserve" in cli.run("--help", terminal=True).out
    assert "\x1b" not in cli.run("--help").out


@pytest.mark.parametrize("variables", [{"COLUMNS": "40"}, {"FORCE_COLOR": "1"}])
def test_help_page_that_needs_rich_is_left_to_cyclopts(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    cli.environment |= variables
    assert cli.run("--help").out == by_cyclopts(cli, monkeypatch, terminal=False) != ""


def test_help_page_at_a_terminal_without_colour_is_left_to_cyclopts(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.environment["NO_COLOR"] = "1"
    page = cli.run("--help", terminal=True).out
    assert page == by_cyclopts(cli, monkeypatch, terminal=True) != ""
