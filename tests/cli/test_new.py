"""`toolhall new`."""

import subprocess
import sys

import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import patience


def test_new_toolkit_passes_its_own_test_and_can_be_called(cli: CliRunner) -> None:
    done = cli.run("new", "my_tools")
    assert done.code == 0
    following = [line.strip() for line in done.out.partition("Next:")[2].splitlines() if line.strip()]
    assert following == [
        "cd my_tools",
        "python -m pip install pytest && python -m pytest",
        "toolhall serve my_tools.py --reload",
    ]
    folder = cli.folder / "my_tools"
    assert {file.name for file in folder.iterdir()} == {
        "README.md",
        "my_tools.py",
        "pyproject.toml",
        "test_my_tools.py",
    }
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=folder,
        env={**cli.environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    called = cli.run("call", "MyTools_greet", "name=Ada", "my_tools/my_tools.py")
    assert (called.code, called.out) == (0, "Hello, Ada!\n")


def test_new_with_json_lists_the_files(cli: CliRunner) -> None:
    done = cli.run("new", "weather", "--json").json()
    assert done["folder"] == "weather"
    assert "weather.py" in done["files"]
    assert len(done["next"]) == 3
    again = cli.run("new", "weather")
    assert again.code == 1
    assert "choose another name" in again.error_line()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["My-Tools"], 2, "did you mean 'my_tools'?"),
        (["../up"], 2, "did you mean 'up'?"),
        (["json"], 2, "such as json_tools"),
        (["class"], 2, "such as class_tools"),
        (["1"], 2, "for example my_tools"),
        (["a", "--lang", "cobol"], 2, "Choose from"),
    ],
)
def test_new_with_a_bad_name_is_refused(cli: CliRunner, words: list[str], code: int, said: str) -> None:
    done = cli.run("new", *words)
    assert (done.code, done.out) == (code, "")
    assert said in done.error_line()
    assert not any(cli.folder.iterdir())
