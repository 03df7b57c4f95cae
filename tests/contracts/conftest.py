"""Every engine of the store of registered tools, empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolhall.stores.base import ToolStore
from toolhall.stores.memory import MemoryStore
from toolhall.stores.sqlite.store import open_store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ToolStore]:
    opened: ToolStore = MemoryStore() if request.param == "memory" else open_store(tmp_path)
    yield opened
    opened.close()
