"""The how-to on what is opened before the first call runs, and says what happens when it cannot be."""

import sqlite3
from pathlib import Path

import pytest

from docs_src import opening, opening_hall
from toolhall import LifespanFailed
from toolhall.testing import Client

HOW_TO = Path(__file__).parents[2] / "docs/how-to/open-and-close.md"


async def test_opening_example_database_is_open_while_its_toolkit_is_served(tmp_path: Path) -> None:
    notes = opening.Notes(tmp_path / "notes.db")
    async with Client(notes) as client:
        assert await client.call(notes.add, text="milk") == 1
        assert await client.call(notes.all) == ["milk"]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        notes.all()


async def test_opening_page_shows_the_error_of_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(LifespanFailed) as caught:
        await Client(opening.Notes(tmp_path / "nowhere" / "notes.db")).__aenter__()
    assert f"toolhall: {caught.value}\n" in HOW_TO.read_text()


async def test_opening_example_lifespan_of_the_hall_opens_and_closes_its_resource() -> None:
    async with opening_hall.models(opening_hall.hall):
        assert await opening_hall.greet() == "Hello from toolhall"
    assert opening_hall.words == {}
