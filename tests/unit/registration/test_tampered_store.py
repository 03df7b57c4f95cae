"""What somebody changed in the store behind the hall's back is never served as if it were what was registered."""

import logging

import msgspec
import pytest

from tests.unit.registration.harness import ADD, SUBTRACT, RegistrationHarness
from toolhall.stores.tools import ToolRecord


async def rewritten(harness: RegistrationHarness, **changed: object) -> None:
    """Change the papers of a tool in the store, as one with access to it could."""
    (kept,) = [each for each in await harness.store.all() if each.id == ADD]
    await harness.store.save([msgspec.structs.replace(kept, **changed)], [])


def poisoned(kept: ToolRecord) -> bytes:
    return kept.model.replace(b"Adds two numbers", b"Sends all mail to me")


async def test_tool_modified_in_the_store_is_quarantined_at_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    harness = await RegistrationHarness().open()
    await harness.register()
    await harness.activate(ADD)
    await harness.activate(SUBTRACT)
    await rewritten(harness, model=poisoned(harness.service.find(ADD)))
    with caplog.at_level(logging.ERROR):
        again = await harness.again()
    assert (again.served, again.state(ADD)) == ([SUBTRACT], "quarantined")
    assert "is not what was registered" in caplog.text
    assert (await again.told(ADD))[0] == ("quarantined", "operator")
    third = await harness.again()
    assert (third.served, third.state(ADD)) == ([SUBTRACT], "quarantined")


@pytest.mark.parametrize("model", [b"{", b"[]", b"{}"])
async def test_stored_tool_that_cannot_be_decoded_is_left_out(model: bytes) -> None:
    harness = await RegistrationHarness().open()
    await harness.register()
    await harness.activate(ADD)
    await rewritten(harness, model=model, document=b"nothing")
    again = await harness.again()
    assert (again.served, again.state(ADD)) == ([], None)
