"""The page on threats is made from the tests that prove its rows."""

import ast
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.threats.rows import ADVISORIES, GROUPS, PROMISES, ROWS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/threats.md"


class Proof(NamedTuple):
    """One test, and what it says it proves."""

    place: str
    says: str


def marks(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    """The rows that a test is marked with."""
    for decorator in function.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(attr="threat"), args=[ast.Constant(value=str(row))]):
                yield row
            case _:
                continue


def proofs() -> dict[str, list[Proof]]:
    """Every marked test, by row."""
    found: dict[str, list[Proof]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "node_modules" in path.parts or "clients" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for row in marks(node):
                    says = (ast.get_docstring(node) or "").partition("\n")[0]
                    found[row].append(Proof(f"{path.relative_to(ROOT)}::{node.name}", says))
    return found


PROOFS = proofs()


def order(row: str) -> tuple[str, int]:
    return row[0], int(row[1:])


def _tests(row: str) -> str:
    return "; ".join(f"`{each.place.rpartition('/')[2]}`" for each in PROOFS.get(row, []))


def written() -> str:
    """The whole page."""
    lines = [
        "# Threats",
        "",
        "What is tried against a hall, what stands against it, and the tests that prove it. This page is made from the",
        "tests: `UPDATE_DOCS=1 make test` writes it anew.",
    ]
    for letter, title in GROUPS.items():
        lines += ["", f"## {letter}. {title}", "", "| row | attack | control | proven by |", "|---|---|---|---|"]
        for row in sorted((each for each in ROWS if each[0] == letter), key=order):
            attack, control, later = ROWS[row]
            lines.append(f"| {row} | {attack} | {control} | {_tests(row) or f'with {later}'} |")
    lines += ["", "## Promises", "", "| promise | says | proven by |", "|---|---|---|"]
    lines += [f"| {name} | {says} | {_tests(name)} |" for name, says in PROMISES.items()]
    lines += ["", "## What happened to others", "", "| advisory | product | cause | rows |", "|---|---|---|---|"]
    lines += [f"| {each.name} | {each.product} | {each.cause} | {', '.join(each.rows)} |" for each in ADVISORIES]
    return "\n".join(lines) + "\n"


def test_threats_page_equals_the_marked_tests() -> None:
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(written(), "utf-8")
    assert PAGE.read_text("utf-8") == written(), "UPDATE_DOCS=1 .venv/bin/pytest tests/docs/test_threats.py writes it"


@pytest.mark.parametrize("row", [*(row for row, said in ROWS.items() if not said.later), *PROMISES])
def test_threat_row_that_applies_has_a_marked_test(row: str) -> None:
    assert PROOFS.get(row), f"no test is marked with threat({row!r})"


def test_threat_marks_name_existing_rows() -> None:
    assert PROOFS.keys() <= ROWS.keys() | PROMISES.keys()


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda each: each.name)
def test_advisory_rows_have_marked_tests(advisory: object) -> None:
    assert isinstance(advisory, tuple)
    assert all(PROOFS.get(row) for row in advisory[3])
