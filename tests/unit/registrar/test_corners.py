"""What the state machine found (tests/properties/test_registrar_machine.py), each on its own."""

from datetime import date, timedelta
from typing import Any

import msgspec
import pytest

from tests.unit.registrar.office import ADD, Office, calculator, mcp, own
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Malformed
from toolhall.registration.records import TamperedRecord, tool_from_record

TODAY = date(2027, 1, 15)
KIT = "Kit.add@1.0.0"


async def test_code_that_is_taken_away_is_known_and_not_served() -> None:
    office = Office()
    office.bring(own("1.0.0"))
    await office.open()
    assert office.registrar.remove_code_tool("Kit_add")
    assert (office.served, office.state(KIT)) == ([], "not served")


async def test_code_can_be_taken_away_while_it_is_switched_off() -> None:
    office = await Office().open()
    office.bring(own("1.0.0"))
    await office.registrar.deactivate(KIT, "eve")
    assert office.registrar.remove_code_tool("Kit_add")
    assert not office.registrar.remove_code_tool("Kit_add")
    await office.registrar.remove(KIT, "eve")


async def test_what_came_from_outside_is_not_taken_away_as_if_it_were_code() -> None:
    office = await Office().open()
    await office.register()
    await office.activate(ADD)
    assert not office.registrar.remove_code_tool(ADD)
    assert office.served == [ADD]


async def test_code_wins_also_when_it_will_go() -> None:
    office = await Office().open()
    await office.register(mcp("kit_add", "kit.add@1.0.0"), "mcp")
    await office.activate("kit.add")
    again = await office.again(own("1.0.0"))
    assert (again.served, again.state("kit.add")) == ([KIT], "not served")
    await again.registrar.deprecate(KIT, "eve", None, None)
    third = await again.again(own("1.0.0"))
    assert (third.served, third.state("kit.add")) == ([KIT], "not served")


async def test_code_that_changed_before_its_release_stays_as_somebody_left_it() -> None:
    office = Office()
    office.bring(own("0.1.0-dev"), own("0.1.0-dev", name="subtract"))
    await office.open()
    await office.registrar.deactivate("Kit.add", "eve")
    await office.registrar.deprecate("Kit.subtract", "eve", None, "Kit.add")
    again = await office.again(own("0.1.0-dev", "Adds more."), own("0.1.0-dev", "Subtracts more.", name="subtract"))
    assert again.served == ["Kit.subtract@0.1.0-dev"]
    found = again.registry.snapshot.find("Kit.subtract")
    assert found is not None
    assert (found.tool.description, found.tool.deprecation is not None) == ("Subtracts more.", True)


async def test_its_day_also_comes_for_what_nothing_brings() -> None:
    office = Office()
    office.bring(own("1.0.0"))
    await office.open()
    await office.registrar.deprecate(KIT, "eve", TODAY + timedelta(1), None)
    again = await office.again()
    assert again.state(KIT) == "not served"
    again.now += 86_400
    again.registrar.watch()
    assert again.state(KIT) == "retired"


async def test_there_is_no_way_back_to_code_that_is_gone() -> None:
    office = Office()
    office.bring(own("1.0.0"))
    await office.open()
    again = await office.again(own("1.1.0"))
    with pytest.raises(Malformed, match=r"there is no version of Kit\.add before"):
        await again.registrar.roll_back("Kit.add", "eve")
    assert again.served == ["Kit.add@1.1.0"]


async def test_without_a_version_the_newest_is_meant_though_it_was_never_stored() -> None:
    office = Office()
    office.bring(own("1.0.0"))
    await office.open()
    office.bring(own("1.1.0"))
    assert office.registrar.find("Kit.add").version == "1.1.0"


async def test_a_release_owes_nothing_to_a_pre_release_of_a_later_one() -> None:
    office = Office()
    await office.register(calculator("2.0.0-rc.1"))
    await office.register(calculator("1.0.0", description="Another one."))


async def test_a_toolkit_may_have_an_at_sign_in_its_name() -> None:
    office = await Office().open()
    await office.register(calculator("1.0.0", id="@scope/sums"))
    for name in ("add", "subtract"):
        await office.activate(f"@scope/sums.{name}")
    assert [entry.id for entry in office.registry.snapshot.listed] == office.served
    for name in ("@scope/sums.add", "@scope/sums.add@^1", "@scope/sums.add@1.0.0"):
        found = office.registry.snapshot.find(name)
        assert found is not None
        assert found.id == "@scope/sums.add@1.0.0"
    await office.registrar.deactivate("@scope/sums.add", "eve")
    assert office.state("@scope/sums.add") == office.state("@scope/sums.add@^1") == "inactive"


async def test_a6_a_toolkit_with_a_dot_is_not_another_toolkits_tool() -> None:
    office = Office()
    await office.register(calculator("1.0.0", id="one.two"))
    twin = calculator("2.0.0", id="one")
    twin["capabilities"] = [{**twin["capabilities"][0], "name": "two.add"}]
    with pytest.raises(BadDocument, match=r"tell apart from one\.two\.add@1\.0\.0"):
        await office.register(twin)


@pytest.mark.parametrize("changed", [{"foreign": False}, {"name": "x"}])
async def test_a3_papers_that_speak_of_somebody_elses_tool(changed: dict[str, Any]) -> None:
    office = Office()
    (kept, _) = await office.register()
    model = msgspec.json.encode(msgspec.structs.replace(tool_from_record(kept), **changed))
    with pytest.raises(TamperedRecord):
        tool_from_record(msgspec.structs.replace(kept, model=model))
    with pytest.raises(TamperedRecord):
        tool_from_record(msgspec.structs.replace(kept, version="1.0.1"))
