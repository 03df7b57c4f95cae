"""The tutorial about versions: what it shows is what the program says."""

from pathlib import Path

import pytest

from tests.harness.cli import CliRunner

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial/versions.md").read_text()
CALENDAR = (ROOT / "docs_src/calendar_toolkit.py").read_text()


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def write(cli: CliRunner, version: str, room: str) -> None:
    changed = CALENDAR.replace('version="1.2.0"', f'version="{version}"').replace(
        "start: datetime) -> Event", f"start: datetime{room}) -> Event"
    )
    (cli.folder / "my_calendar.py").write_text(changed)


def test_versions_page_refusal_is_the_one_printed(cli: CliRunner) -> None:
    write(cli, "1.2.0", "")
    with cli.serve("my_calendar.py"):
        pass
    write(cli, "1.2.0", ", room: str")
    ended = cli.run_process("serve", "my_calendar.py", "--port", "0")
    assert ended.code == 1
    assert all(line in PAGE for line in ended.err.splitlines() if line), ended.err


@pytest.mark.parametrize(("version", "room"), [("2.0.0", ", room: str"), ("1.3.0", ', room: str = "anywhere"')])
def test_versions_page_required_version_is_enough(cli: CliRunner, version: str, room: str) -> None:
    write(cli, "1.2.0", "")
    with cli.serve("my_calendar.py"):
        pass
    write(cli, version, room)
    with cli.serve("my_calendar.py"):
        pass
