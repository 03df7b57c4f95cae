"""Calls through the client are typed from the function itself, under both type checkers."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.patience import patience

ROOT = Path(__file__).parent.parent.parent
SNIPPETS = sorted((Path(__file__).parent / "snippets").glob("*.py"))
PYRIGHT = ROOT / "tools/node/node_modules/.bin/pyright"
MARK = re.compile(r"# expect-error\b")
Places = set[tuple[str, int]]  # file name and line


def expected() -> Places:
    """Where the snippets say that there is an error."""
    lines = (
        (file.name, number, line) for file in SNIPPETS for number, line in enumerate(file.read_text().splitlines(), 1)
    )
    return {(name, number) for name, number, line in lines if MARK.search(line)}


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * patience(), cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stderr or done.stdout  # 1: there are errors
    return done.stdout


def found_by_mypy(folder: Path) -> Iterator[tuple[str, int]]:
    output = run(sys.executable, "-m", "mypy", "--output", "json", *copied(folder))
    for line in output.splitlines():
        report = json.loads(line)
        yield Path(report["file"]).name, report["line"]


def found_by_pyright(folder: Path) -> Iterator[tuple[str, int]]:
    copied(folder)
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src")],
        "venvPath": str(ROOT),
        "venv": ".venv",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    report = json.loads(run(PYRIGHT, "--outputjson", "--project", folder))
    assert report["summary"]["filesAnalyzed"] == len(SNIPPETS)
    for problem in report["generalDiagnostics"]:
        yield Path(problem["file"]).name, problem["range"]["start"]["line"] + 1


def copied(folder: Path) -> list[Path]:
    """The snippets in a folder of their own, where no setting of this project leaves them out."""
    for snippet in SNIPPETS:
        (folder / snippet.name).write_text(snippet.read_text())
    return sorted(folder.glob("*.py"))


@pytest.mark.parametrize("checker", [found_by_mypy, found_by_pyright], ids=["mypy", "pyright"])
def test_type_checker_reports_errors_on_exactly_the_marked_lines(
    checker: Callable[[Path], Iterator[tuple[str, int]]], tmp_path: Path
) -> None:
    if checker is found_by_pyright and not PYRIGHT.exists():
        pytest.skip("pyright is installed by 'make setup'")
    found = set(checker(tmp_path))
    assert not found - expected(), "errors where there should be none"
    assert not expected() - found, "errors that were not found"


def test_snippets_have_marked_lines_in_wrong_calls_only() -> None:
    assert len(expected()) >= 25
    assert [file.name for file in SNIPPETS] == ["right_calls.py", "wrong_calls.py"]
    assert {name for name, _ in expected()} == {"wrong_calls.py"}
