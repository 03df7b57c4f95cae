"""The calls that the how-to records are replayed, with the output that it shows."""

from pathlib import Path

import pytest

from docs_src import replaying
from toolhall.cli.commands.replay import replay
from toolhall.cli.errors import CommandError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/replay-calls.md").read_text()


@pytest.fixture
async def recorded(tmp_path: Path) -> Path:
    await replaying.record_calls(str(tmp_path))
    return tmp_path


def replayed(recorded: Path, source: str) -> None:
    target = recorded / "my_tools.py"
    target.write_text(source)
    replay(recorded, str(target))


def test_replay_of_the_unchanged_example_reports_same_answers(
    recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    replayed(recorded, Path(replaying.__file__).read_text())
    assert capfd.readouterr().out == "Weather.forecast: 2 same\n"


def test_replay_of_the_changed_example_prints_the_output_on_the_page(
    recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    changed = Path(replaying.__file__).read_text().replace("len(city))", 'len(city) + (city == "Bergen"))')
    with pytest.raises(CommandError):
        replayed(recorded, changed)
    assert f"```\n{capfd.readouterr().out}```" in PAGE
