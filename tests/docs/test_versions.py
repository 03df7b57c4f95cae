"""The tutorial about versions: what it shows is what the program says."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial/versions.md").read_text()
CALENDAR = (ROOT / "docs_src/calendar_toolkit.py").read_text()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def write(shell: Shell, version: str, room: str) -> None:
    changed = CALENDAR.replace('version="1.2.0"', f'version="{version}"').replace(
        "start: datetime) -> Event", f"start: datetime{room}) -> Event"
    )
    (shell.folder / "my_calendar.py").write_text(changed)


def test_the_refusal_is_the_one_on_the_page(shell: Shell) -> None:
    write(shell, "1.2.0", "")
    with shell.serving("my_calendar.py"):
        pass
    write(shell, "1.2.0", ", room: str")
    ended = shell.run("serve", "my_calendar.py", "--port", "0")
    assert ended.code == 1
    assert all(line in PAGE for line in ended.err.splitlines() if line), ended.err


@pytest.mark.parametrize(("version", "room"), [("2.0.0", ", room: str"), ("1.3.0", ', room: str = "anywhere"')])
def test_the_version_that_it_names_is_enough(shell: Shell, version: str, room: str) -> None:
    write(shell, "1.2.0", "")
    with shell.serving("my_calendar.py"):
        pass
    write(shell, version, room)
    with shell.serving("my_calendar.py"):
        pass
