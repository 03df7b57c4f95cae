"""A shell of its own for every test."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """An empty working folder and data folder."""
    return Shell(tmp_path)
