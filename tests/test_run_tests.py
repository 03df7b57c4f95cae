"""`tools/run_tests.py`: few failures run once more, alone; what fails again, or too much of it, has failed."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "run_tests.py"
FLAKY = """
from pathlib import Path
def test_second_try():
    seen = Path("seen")
    was_there = seen.exists()
    seen.touch()
    assert was_there
"""
BROKEN = "def test_broken(): assert False\n"


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "-p", "no:randomly", "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_good.py").write_text("def test_good(): pass\n")
    return tmp_path


def test_a_test_that_passes_alone_is_reported_as_flaky(suite: Path) -> None:
    (suite / "test_flaky.py").write_text(FLAKY)
    ended = run(suite)
    assert ended.returncode == 0
    assert "flaky: test_flaky.py::test_second_try failed beside other tests" in ended.stdout


def test_a_test_that_fails_twice_has_failed(suite: Path) -> None:
    (suite / "test_flaky.py").write_text(FLAKY)
    (suite / "test_broken.py").write_text(BROKEN)
    ended = run(suite)
    assert ended.returncode == 1
    assert "flaky:" not in ended.stdout


def test_many_failures_are_not_run_again(suite: Path) -> None:
    for number in range(4):
        (suite / f"test_broken_{number}.py").write_text(BROKEN)
    ended = run(suite)
    assert ended.returncode == 1
    assert "again, alone" not in ended.stdout


def test_a_suite_that_cannot_be_collected_has_failed(suite: Path) -> None:
    (suite / "test_wrong.py").write_text("import nothing_of_this_name\n")
    ended = run(suite)
    assert ended.returncode not in (0, 1)
    assert "again, alone" not in ended.stdout
