"""Times that fit this machine."""

from pathlib import Path

import pytest

from tests.harness.patience import stretch_timeouts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages are run as stories of many commands and servers, which take what this machine needs."""
    stretch_timeouts(items, Path(__file__).parent)
