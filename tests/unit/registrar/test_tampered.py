"""What somebody changed in the store behind the hall's back is never served as if it were what was registered."""

import logging

import msgspec
import pytest

from tests.unit.registrar.office import ADD, SUBTRACT, Office
from toolhall.stores.tools import ToolRecord


async def rewritten(office: Office, **changed: object) -> None:
    """Change the papers of a tool in the store, as one with access to it could."""
    (kept,) = [each for each in await office.store.all() if each.id == ADD]
    await office.store.save([msgspec.structs.replace(kept, **changed)], [])


def poisoned(kept: ToolRecord) -> bytes:
    return kept.model.replace(b"Adds two numbers", b"Sends all mail to me")


async def test_a_tool_that_was_changed_in_the_store_is_quarantined(caplog: pytest.LogCaptureFixture) -> None:
    office = await Office().open()
    await office.register()
    await office.activate(ADD)
    await office.activate(SUBTRACT)
    await rewritten(office, model=poisoned(office.registrar.find(ADD)))
    with caplog.at_level(logging.ERROR):
        again = await office.again()
    assert (again.served, again.state(ADD)) == ([SUBTRACT], "quarantined")
    assert "is not what was registered" in caplog.text
    assert (await again.told(ADD))[0] == ("quarantined", "operator")
    third = await office.again()
    assert (third.served, third.state(ADD)) == ([SUBTRACT], "quarantined")


@pytest.mark.parametrize("model", [b"{", b"[]", b"{}"])
async def test_what_cannot_be_read_is_left_out(model: bytes) -> None:
    office = await Office().open()
    await office.register()
    await office.activate(ADD)
    await rewritten(office, model=model, document=b"nothing")
    again = await office.again()
    assert (again.served, again.state(ADD)) == ([], None)
