"""A runner of its own for every test."""

from pathlib import Path

import pytest

from tests.harness.cli import CliRunner


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    """An empty working folder and data folder."""
    return CliRunner(tmp_path)
