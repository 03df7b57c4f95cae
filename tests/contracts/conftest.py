"""Every engine of the store of registered tools, empty."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolhall.stores.base import ToolStore
from toolhall.stores.choosing import choose_store
from toolhall.stores.memory import MemoryStore
from toolhall.stores.sqlite.store import open_store

ENGINES: dict[str, Callable[[Path], ToolStore]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": open_store,
    "on demand": lambda folder: choose_store(folder, share=False),
}


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ToolStore]:
    opened = ENGINES[request.param](tmp_path)
    yield opened
    opened.close()
