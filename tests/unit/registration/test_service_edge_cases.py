"""What the state machine found (tests/properties/test_registrar_machine.py), each on its own."""

from datetime import date, timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.registration.harness import ADD, RegistrationHarness, calculator, mcp, own
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Malformed
from toolhall.registration.records import TamperedRecord, tool_from_record

TODAY = date(2027, 1, 15)
KIT = "Kit.add@1.0.0"


async def test_removed_code_tool_is_known_as_not_served() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    assert harness.service.remove_code_tool("Kit_add")
    assert (harness.served, harness.state(KIT)) == ([], "not served")


async def test_inactive_code_tool_can_be_removed() -> None:
    harness = await RegistrationHarness().open()
    harness.bring(own("1.0.0"))
    await harness.service.deactivate(KIT, "eve")
    assert harness.service.remove_code_tool("Kit_add")
    assert not harness.service.remove_code_tool("Kit_add")
    await harness.service.remove(KIT, "eve")


async def test_remove_code_tool_of_a_tool_registered_from_outside_returns_false() -> None:
    harness = await RegistrationHarness().open()
    await harness.register()
    await harness.activate(ADD)
    assert not harness.service.remove_code_tool(ADD)
    assert harness.served == [ADD]


async def test_deprecated_code_tool_still_replaces_a_registered_tool_of_a_confusable_name() -> None:
    harness = await RegistrationHarness().open()
    await harness.register(mcp("kit_add", "kit.add@1.0.0"), "mcp")
    await harness.activate("kit.add")
    again = await harness.again(own("1.0.0"))
    assert (again.served, again.state("kit.add")) == ([KIT], "not served")
    await again.service.deprecate(KIT, "eve", None, None)
    third = await again.again(own("1.0.0"))
    assert (third.served, third.state("kit.add")) == ([KIT], "not served")


async def test_changed_pre_release_code_tool_keeps_its_state_and_deprecation() -> None:
    harness = RegistrationHarness()
    harness.bring(own("0.1.0-dev"), own("0.1.0-dev", name="subtract"))
    await harness.open()
    await harness.service.deactivate("Kit.add", "eve")
    await harness.service.deprecate("Kit.subtract", "eve", None, "Kit.add")
    again = await harness.again(own("0.1.0-dev", "Adds more."), own("0.1.0-dev", "Subtracts more.", name="subtract"))
    assert again.served == ["Kit.subtract@0.1.0-dev"]
    found = again.registry.snapshot.find("Kit.subtract")
    assert found is not None
    assert (found.tool.description, found.tool.deprecation is not None) == ("Subtracts more.", True)


async def test_deprecated_code_tool_that_is_missing_is_retired_on_its_sunset() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    await harness.service.deprecate(KIT, "eve", TODAY + timedelta(1), None)
    again = await harness.again()
    assert again.state(KIT) == "not served"
    again.now += 86_400
    again.service.watch()
    assert again.state(KIT) == "retired"


async def test_roll_back_to_a_missing_code_tool_raises_malformed() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    again = await harness.again(own("1.1.0"))
    with pytest.raises(Malformed, match=r"there is no version of Kit\.add before"):
        await again.service.roll_back("Kit.add", "eve")
    assert again.served == ["Kit.add@1.1.0"]


async def test_find_without_version_returns_the_newest_code_tool_before_it_is_stored() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    harness.bring(own("1.1.0"))
    assert harness.service.find("Kit.add").version == "1.1.0"


async def test_release_is_not_compared_with_a_later_pre_release() -> None:
    harness = RegistrationHarness()
    await harness.register(calculator("2.0.0-rc.1"))
    await harness.register(calculator("1.0.0", description="Another one."))


async def test_toolkit_name_with_an_at_sign_is_resolved_with_and_without_version() -> None:
    harness = await RegistrationHarness().open()
    await harness.register(calculator("1.0.0", id="@scope/sums"))
    for name in ("add", "subtract"):
        await harness.activate(f"@scope/sums.{name}")
    assert [entry.id for entry in harness.registry.snapshot.listed] == harness.served
    for name in ("@scope/sums.add", "@scope/sums.add@^1", "@scope/sums.add@1.0.0"):
        found = harness.registry.snapshot.find(name)
        assert found is not None
        assert found.id == "@scope/sums.add@1.0.0"
    await harness.service.deactivate("@scope/sums.add", "eve")
    assert harness.state("@scope/sums.add") == harness.state("@scope/sums.add@^1") == "inactive"


async def test_register_tool_id_that_collides_through_a_dotted_toolkit_name_raises_bad_document() -> None:
    harness = RegistrationHarness()
    await harness.register(calculator("1.0.0", id="one.two"))
    twin = calculator("2.0.0", id="one")
    twin["capabilities"] = [{**twin["capabilities"][0], "name": "two.add"}]
    with pytest.raises(BadDocument, match=r"tell apart from one\.two\.add@1\.0\.0"):
        await harness.register(twin)


@pytest.mark.parametrize("changed", [{"foreign": False}, {"name": "x"}])
async def test_tool_from_record_whose_model_describes_another_tool_raises_tampered_record(
    changed: dict[str, Any],
) -> None:
    harness = RegistrationHarness()
    (kept, _) = await harness.register()
    model = msgspec.json.encode(msgspec.structs.replace(tool_from_record(kept), **changed))
    with pytest.raises(TamperedRecord):
        tool_from_record(msgspec.structs.replace(kept, model=model))
    with pytest.raises(TamperedRecord):
        tool_from_record(msgspec.structs.replace(kept, version="1.0.1"))
