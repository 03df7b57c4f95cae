"""The manifest of requirements and the tests that prove them stay in step."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conformance.serving import HERE
from tests.harness.mcp_messages import REVISIONS

TESTS = HERE.parent
MANIFEST = HERE / "requirements.toml"
COUNTS = {
    "J": 6, "L": 36, "M": 47, "RS": 13, "SB": 5, "RT": 10, "PR": 7, "CO": 6, "CA": 3, "PG": 1, "LG": 2, "IC": 1,
    "SK": 7,
}  # fmt: skip
TASK_IDS = [*(f"TA-{number}" for number in range(1, 10)), *(f"TE-{number}" for number in range(1, 11))]
QUESTION_IDS = ["EL-1", "EL-2", "EL-3", "EL-4", "SA-1", "SA-2", "RO-1", "MT-1"]
PAGE_IDS = [f"AP-{number}" for number in (1, 2, 3, 4, 6)]
IDS = [
    *(f"{group}-{n}" for group, count in COUNTS.items() for n in range(1, count + 1)),
    *QUESTION_IDS,
    *TASK_IDS,
    *PAGE_IDS,
]
LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "form"}


class Claim(NamedTuple):
    """One test that says what it proves."""

    id: str
    test: str


def claims(file: Path) -> Iterator[Claim]:
    """Every id that a marker in this file names; read, not imported, so that it does not matter which tests run."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.requirement":
                assert node.name.startswith("test_"), f"{file.name}: {node.name} is no test"
                yield from (Claim(ast.literal_eval(named), f"{file.name}::{node.name}") for named in decorator.args)


@pytest.fixture(scope="module")
def manifest() -> dict[str, dict[str, Any]]:
    """The requirements by id."""
    listed: list[dict[str, Any]] = tomllib.loads(MANIFEST.read_text())["requirement"]
    assert len({each["id"] for each in listed}) == len(listed), "an id is there twice"
    return {each["id"]: each for each in listed}


@pytest.fixture(scope="module")
def proven() -> dict[str, list[str]]:
    """The tests for each id."""
    found: dict[str, list[str]] = {}
    for file in TESTS.rglob("test_*.py"):
        if "node_modules" not in file.parts:
            for claim in claims(file):
                found.setdefault(claim.id, []).append(claim.test)
    return found


def test_manifest_lists_every_requirement_id(manifest: dict[str, dict[str, Any]]) -> None:
    assert list(manifest) == IDS


def test_manifest_entries_are_complete(manifest: dict[str, dict[str, Any]]) -> None:
    for entry in manifest.values():
        assert entry["level"] in LEVELS
        assert entry["revisions"]
        assert set(entry["revisions"]) <= set(REVISIONS)
        assert entry["says"].endswith(".")
        assert entry["status"] in ("covered", "partial", "gap")
        assert entry["status"] != "partial" or entry.get("note"), f"{entry['id']}: say in a note what is missing"
        assert ("reason" in entry) is (entry["status"] == "gap"), f"{entry['id']}: a gap has a reason, and only a gap"


def test_manifest_requirement_is_covered_by_a_test_or_a_known_gap(
    manifest: dict[str, dict[str, Any]], proven: dict[str, list[str]]
) -> None:
    covered = {name for name, entry in manifest.items() if entry["status"] != "gap"}
    assert not covered - proven.keys(), f"no test names these: {sorted(covered - proven.keys())}"
    gaps = manifest.keys() - covered
    assert not gaps & proven.keys(), (
        f"these are no longer gaps: { {name: proven[name] for name in gaps & proven.keys()} }"
    )


def test_requirement_markers_name_only_known_requirements(
    manifest: dict[str, dict[str, Any]], proven: dict[str, list[str]]
) -> None:
    unknown = {name: tests for name, tests in proven.items() if name not in manifest}
    assert not unknown, f"requirements.toml does not have these: {unknown}"
