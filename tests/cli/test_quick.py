"""The fast parser reads a command line exactly as the full parser does, or leaves it to the full parser."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from cyclopts.exceptions import CycloptsError
from hypothesis import given
from hypothesis import strategies as st

from toolhall.cli.app import app
from toolhall.cli.fast_parser import COMMANDS, Options, flag_options, parse_fast, value_options
from toolhall.cli.options import CallOptions, ListToolsOptions, ServeOptions

OPTIONS = sorted(
    {name for each in COMMANDS.values() for name in (*flag_options(each.options), *value_options(each.options))}
)
NAMES = [f"--{name.replace('_', '-')}" for name in OPTIONS]
WORDS = [
    *NAMES,
    *(f"{name}=8" for name in NAMES),
    *("a.py", "b", "0", "-1", "1.5", "a=1", "a:=-2", "local", "server", "hub"),
    *("-", "--", "--nope", "-t", "-y", "--port= 8", "--timeout=1e3", "--timeout=.5", "--no-json", "--help", ""),
]
FUNCTIONS = {"serve": "serve", "list": "list_tools", "call": "call"}


def parsed(command: str, words: list[str]) -> tuple[tuple[str, ...], dict[str, Any]] | None:
    """What the full parser makes of it; None for what it refuses, or answers with help."""
    try:
        function, bound, _ = app.parse_args([command, *words], exit_on_error=False, print_error=False)
    except CycloptsError:
        return None
    if function.__name__ != FUNCTIONS[command]:
        return None
    options = bound.arguments.get("options", COMMANDS[command].options())
    return bound.args, dataclasses.asdict(options)


@pytest.mark.parametrize("command", COMMANDS)
def test_fast_parser_knows_every_option(command: str) -> None:
    kind: type[Options] = COMMANDS[command].options
    assert {*flag_options(kind), *value_options(kind)} == {field.name for field in dataclasses.fields(kind)}


@given(st.sampled_from(sorted(COMMANDS)), st.lists(st.sampled_from(WORDS), max_size=5))
def test_fast_parser_on_any_words_agrees_with_the_full_parser(command: str, words: list[str]) -> None:
    fast = parse_fast([command, *words])
    if fast is not None:
        others, options = fast
        assert (others, dataclasses.asdict(options)) == parsed(command, words)


@pytest.mark.parametrize(
    "words",
    [
        *([], ["inspect"], ["--help"], ["serve", "--help"], ["serve", "--port"], ["serve", "-h"]),
        *(
            ["list", "a", "b"],
            ["list", "-t", "a.py"],
            ["call"],
            ["call", "-y", "a"],
            ["call", "a", "--timeout", "soon"],
        ),
    ],
)
def test_fast_parser_on_other_words_leaves_them_to_the_full_parser(words: list[str]) -> None:
    assert parse_fast(words) is None


@pytest.mark.parametrize(
    ("words", "others", "options"),
    [
        (
            ["serve", "a.py", "--port", "9", "--data=d", "b.py", "--json", "--workers=2"],
            ("a.py", "b.py"),
            ServeOptions(port=9, data=Path("d"), json=True, workers=2),
        ),
        (["list"], (), ListToolsOptions()),
        (["list", "a.py", "--dialect=oxp"], ("a.py",), ListToolsOptions(dialect="oxp")),
        (
            ["call", "add", "a=1", "--yes", "a.py", "--timeout", "1.5"],
            ("add", "a=1", "a.py"),
            CallOptions(yes=True, timeout=1.5),
        ),
    ],
)
def test_fast_parser_on_plain_words_reads_them(words: list[str], others: tuple[str, ...], options: Options) -> None:
    fast = parse_fast(words)
    assert fast is not None
    assert fast[0] == others
    assert type(fast[1]) is type(options)
    assert dataclasses.asdict(fast[1]) == dataclasses.asdict(options)
