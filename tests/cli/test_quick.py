"""The quick way into `serve` reads a command line exactly as the parser does, or leaves it to the parser."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from cyclopts.exceptions import CycloptsError
from hypothesis import given
from hypothesis import strategies as st

from toolhall.cli.app import app
from toolhall.cli.entry import FLAG_OPTIONS, VALUE_OPTIONS, ServeOptions, parse_serve_fast

WORDS = [
    *(f"--{name}" for name in (*FLAG_OPTIONS, *VALUE_OPTIONS)),
    *(f"--{name}=8" for name in (*FLAG_OPTIONS, *VALUE_OPTIONS)),
    *(
        "a.py",
        "b",
        "0",
        "-1",
        "local",
        "server",
        "hub",
        "-",
        "--",
        "--nope",
        "-t",
        "--port= 8",
        "--no-json",
        "--help",
        "",
    ),
]


def parsed(words: list[str]) -> tuple[tuple[str, ...], ServeOptions] | None:
    """What the parser makes of it; None for what it refuses, or answers with help."""
    try:
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError:
        return None
    arguments: dict[str, Any] = {"options": ServeOptions(), **bound.arguments}
    return (tuple(bound.args), arguments["options"]) if command.__name__ == "serve" else None


def test_quick_parser_knows_every_option() -> None:
    assert {*FLAG_OPTIONS, *VALUE_OPTIONS} == {field.name for field in dataclasses.fields(ServeOptions)}


@given(st.lists(st.sampled_from(WORDS), max_size=5))
def test_quick_parser_on_any_words_agrees_with_the_full_parser(words: list[str]) -> None:
    quickly = parse_serve_fast(["serve", *words])
    if quickly is not None:
        assert quickly == parsed(["serve", *words])


@pytest.mark.parametrize("words", [[], ["list"], ["--help"], ["serve", "--help"], ["serve", "--port"], ["serve", "-h"]])
def test_quick_parser_on_other_words_leaves_them_to_the_full_parser(words: list[str]) -> None:
    assert parse_serve_fast(words) is None


def test_quick_parser_on_plain_words_reads_them() -> None:
    words = ["serve", "a.py", "--port", "9", "--data=d", "b.py", "--json", "--workers=2"]
    options = ServeOptions(port=9, data=Path("d"), json=True, workers=2)
    assert parse_serve_fast(words) == (("a.py", "b.py"), options)
