"""A runner of its own for every test, and times that fit this machine."""

from pathlib import Path

import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import stretch_timeouts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that waits as long as this machine needs is not ended before its waits are."""
    stretch_timeouts(items, Path(__file__).parent)


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    """An empty working folder and data folder."""
    return CliRunner(tmp_path)
