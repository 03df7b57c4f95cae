"""Every engine of the stores, empty."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.open import open_stores
from toolhall.stores.sqlite import open_sqlite
from toolhall.stores.tools import ToolStore

ENGINES: dict[str, Callable[[Path], Stores]] = {
    "memory": lambda _: in_memory(),
    "sqlite": open_sqlite,
    "on demand": lambda folder: open_stores(folder, allow_readonly=False),
}


@pytest.fixture(params=ENGINES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    opened = ENGINES[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> ToolStore:
    return stores.tools
