"""Tables of any size: as rich would draw them, without the work that it does for every cell."""

import io
import re
import sys

import pytest
from rich.console import Console
from rich.table import Table

from tests.harness.cli import CliRunner
from toolhall.cli.output import print_rows

HEADINGS = ("name", "state", "said")
ROWS = [
    ("short", "active", "One thing."),
    ("a_rather_long_name", "", "Two things, of which the second is said at some length."),
    ("日本語", "quarantined", ""),
    ("", "é", "wide 日本 words"),
]
TOOL = '''
from toolhall import tool

@tool(effect="reads")
def look() -> int:
    """{said}"""
    return 1
'''


def drawn_by_rich() -> list[str]:
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=heading != HEADINGS[-1])
    for row in ROWS:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, highlight=False, markup=False, width=1_000).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_table_columns_are_aligned_as_rich_does(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(HEADINGS, ROWS, {"active": "32"}, first="36")
    assert capsys.readouterr().out.splitlines() == drawn_by_rich()


def test_table_row_with_hidden_characters_is_one_visible_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(HEADINGS, [("a\nb", "\x1b[2J", "\u202e[red]")])
    assert capsys.readouterr().out.splitlines()[1] == "a<U+000A>b  <U+001B>[2J  <U+202E>[red]"


def test_table_of_many_rows_takes_little_work_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    rows = [(f"Kit_tool_{number}", "active", "It does what it says, and nothing else.") for number in range(1_000)]
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        print_rows(HEADINGS, rows)
    finally:
        sys.setprofile(before)
    assert capsys.readouterr().out.count("\n") == 1_001
    assert calls / 1_000 < 200, "rich takes thousands"


def test_table_at_terminal_wraps_the_last_column_and_has_colours(cli: CliRunner) -> None:
    (cli.folder / "tools.py").write_text(TOOL.format(said="word " * 30 + "x" * 90))
    cli.environment["COLUMNS"] = "60"
    code, seen, _ = cli.run("list", "tools.py", terminal=True)
    assert code == 0
    assert "\x1b[36mlook\x1b[0m" in seen
    assert "\x1b[32mreads\x1b[0m" in seen
    table = seen[seen.index("\x1b[1mname") :]
    lines = re.sub(r"\x1b\[\d*m", "", table).splitlines()
    assert all(len(line) <= 60 for line in lines), lines
    said = "".join(line.split("reads")[-1] for line in lines[1:]).replace(" ", "")
    assert said == "word" * 30 + "x" * 90
