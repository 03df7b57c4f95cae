"""Every engine of the stores, empty."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolhall.stores.base import ToolStore
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.choosing import choose_stores
from toolhall.stores.sqlite.opening import open_stores

ENGINES: dict[str, Callable[[Path], Stores]] = {
    "memory": lambda _: in_memory(),
    "sqlite": open_stores,
    "on demand": lambda folder: choose_stores(folder, share=False),
}


@pytest.fixture(params=ENGINES)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    opened = ENGINES[request.param](tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def store(stores: Stores) -> ToolStore:
    return stores.tools
