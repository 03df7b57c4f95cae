"""The operator's own code: remembered, held to its versions, and in the operator's hands like everything else."""

import asyncio

import msgspec
import pytest

from tests.unit.registration.harness import ADD, CALCULATOR, RegistrationHarness, mcp, own
from toolhall.contracts.digest import compute_legacy_digests
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.registration.rules import BrokenPromise

KIT = "Kit.add@1.0.0"
WANTS_MORE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


async def test_code_tool_is_active_immediately_and_stored() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    assert harness.served == [KIT]
    await harness.open()
    assert [(kept.id, kept.state, kept.origin) for kept in await harness.store.all()] == [(KIT, "active", "code")]
    again = await harness.again(own("1.0.0"))
    assert await again.told(KIT) == [("registered", "operator")]


@pytest.mark.parametrize("changed", [own("1.0.0", "Adds more."), own("1.0.0", input=WANTS_MORE)])
async def test_code_tool_release_with_changed_content_under_its_version_raises_broken_promise(changed: object) -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    with pytest.raises(BrokenPromise, match="other content"):
        await harness.again(changed)  # type: ignore[arg-type]


async def test_code_tool_breaking_change_requires_a_major_version() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    with pytest.raises(BrokenPromise, match=r"write version 2\.0\.0"):
        await harness.again(own("1.1.0", input=WANTS_MORE))
    again = await harness.again(own("2.0.0", input=WANTS_MORE), own("1.0.0"))
    assert again.served == ["Kit.add@2.0.0", KIT]


async def test_toolkit_release_without_a_former_tool_requires_a_major_version() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"), own("1.0.0", name="subtract"))
    await harness.open()
    with pytest.raises(BrokenPromise, match=r"write version 2\.0\.0"):
        await harness.again(own("1.0.1"))


@pytest.mark.parametrize("version", ["0.1.0-dev", "1.0.0-dev", "2.0.0-rc.1"])
async def test_code_tool_pre_release_may_change_under_its_version(version: str) -> None:
    harness = RegistrationHarness()
    harness.bring(own(version))
    await harness.open()
    again = await harness.again(own(version, "Adds more.", input=WANTS_MORE))
    assert (await again.told(f"Kit.add@{version}"))[0] == ("replaced", "operator")
    assert again.service.find("Kit.add").shown_digest != harness.service.find("Kit.add").shown_digest


async def test_code_tool_opened_with_hold_false_may_change_under_its_version() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    another = RegistrationHarness(harness.store)
    another.bring(own("1.0.0", "Another project's."))
    await another.open(hold=False)
    assert another.served == [KIT]


async def test_code_tool_deactivation_survives_a_restart_until_activation() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"), own("1.0.0", name="subtract"))
    await harness.open()
    await harness.service.deactivate(KIT, "eve")
    assert (harness.served, harness.state("Kit_add")) == (["Kit.subtract@1.0.0"], "inactive")
    again = await harness.again(own("1.0.0"), own("1.0.0", name="subtract"))
    assert (again.served, again.state(KIT)) == (["Kit.subtract@1.0.0"], "inactive")
    await again.activate(KIT)
    assert set(again.served) == {KIT, "Kit.subtract@1.0.0"}


async def test_code_tool_that_was_never_stored_can_be_deactivated() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.service.deactivate("Kit.add", "eve")
    assert (harness.served, harness.state(KIT)) == ([], "inactive")
    harness.bring(own("1.1.0"))
    assert harness.served == ["Kit.add@1.1.0"]


async def test_code_tool_missing_after_a_restart_is_kept_as_not_served_and_removable() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    again = await harness.again()
    assert (again.served, again.state("Kit.add")) == ([], "not served")
    await again.service.remove(KIT, "eve")
    assert again.service.all_records == ()


async def test_service_remove_of_a_served_code_tool_raises_malformed() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    with pytest.raises(Malformed, match="served from code"):
        await harness.service.remove(KIT, "eve")
    assert harness.service.remove_code_tool("Kit_add") is True
    assert harness.service.remove_code_tool("Kit_add") is False
    assert harness.served == []


async def test_register_under_the_toolkit_name_of_a_code_tool_raises_malformed() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    with pytest.raises(Malformed, match="from code; register under another name"):
        await harness.register({**CALCULATOR, "id": "Kit", "version": "9.0.0"})


async def test_code_tool_replaces_a_registered_tool_of_a_confusable_name_after_a_restart() -> None:
    harness = await RegistrationHarness().open()
    await harness.register()
    await harness.activate(ADD)
    again = await harness.again(msgspec.structs.replace(own("1.0.0"), name="Calculator_Add"))
    assert (again.served, again.state(ADD)) == ([KIT], "not served")


async def test_code_tool_draft_without_stated_version_may_change() -> None:
    harness = RegistrationHarness()
    harness.bring(own("0.1.0"), drafts=("Kit.add@0.1.0",))
    await harness.open()
    again = RegistrationHarness(harness.store)
    again.bring(own("0.1.0", input=WANTS_MORE), drafts=("Kit.add@0.1.0",))
    await again.open()
    assert (await again.told("Kit.add@0.1.0"))[0] == ("replaced", "operator")


@pytest.mark.parametrize("version", ["1.0.0+build", "1.0", "1", "01.0.0"])
async def test_code_tool_version_in_another_spelling_raises_broken_promise_as_the_same_version(version: str) -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    with pytest.raises(BrokenPromise, match=r"is the same version as Kit\.add@1\.0\.0"):
        await harness.again(own(version, input=WANTS_MORE))


async def test_code_tool_added_while_serving_is_held_to_its_version_and_stored() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    harness.service.watch()
    assert harness.service.remove_code_tool(KIT)
    for changed, message in (
        (own("1.0.0", input=WANTS_MORE), "other content"),
        (own("1.0.1", input=WANTS_MORE), "too"),
    ):
        with pytest.raises(BrokenPromise, match=message):
            harness.bring(changed)
        assert harness.served == []
    harness.bring(own("1.0.1", "Adds more."))
    assert harness.served == ["Kit.add@1.0.1"]
    await asyncio.sleep(0)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})  # until it is remembered
    assert await harness.told("Kit.add@1.0.1") == [("registered", "operator")]
    harness.service.close()


@pytest.mark.parametrize("hold", [True, False])
async def test_code_tool_replaces_a_toolkit_registered_from_outside_under_the_same_name(hold: bool) -> None:
    harness = await RegistrationHarness().open()
    foreign = {**CALCULATOR, "id": "Kit"}  # add and subtract, in version 1.0.0
    await harness.register(foreign)
    await harness.activate("Kit.subtract@1.0.0")
    again = RegistrationHarness(harness.store)
    again.bring(own("1.0.0"))
    await again.open(hold=hold)
    assert again.served == [KIT]
    assert again.service.find(KIT).origin == "code"
    assert again.state("Kit.subtract@1.0.0") == "not served"
    assert not again.service.is_served(again.service.find("Kit.subtract"))


async def test_register_under_a_name_confusable_with_toolhall_is_refused() -> None:
    harness = RegistrationHarness()
    for name in ("Toolhall", "toolhall", "Too\N{CYRILLIC SMALL LETTER PALOCHKA}hall"):
        with pytest.raises(ToolhallError, match="the hall's own name"):
            await harness.register({**CALCULATOR, "id": name})


PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2}


def taking(part: object) -> dict[str, object]:
    return {"type": "object", "properties": {"pair": part}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (taking({**PAIR, "items": False}), taking(PAIR)),
        ({"type": "object", "additionalProperties": False},
         {"type": "object", "properties": {}, "additionalProperties": False}),
    ],
)  # fmt: skip
async def test_code_tool_with_an_equivalent_schema_spelling_is_the_same_release(before: object, after: object) -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0", input=before), own("1.0.0", name="subtract"))
    await harness.open()
    again = await harness.again(own("1.0.0", input=after), own("1.0.0", name="subtract"))
    assert again.served == [KIT, "Kit.subtract@1.0.0"]
    assert await again.told(KIT) == [("replaced", "operator"), ("registered", "operator")]
    assert again.service.find(KIT).digests == harness.service.find(KIT).digests


async def test_stored_tool_with_legacy_digests_keeps_its_state_after_a_restart() -> None:
    document = {**mcp("look"), "inputSchema": taking(PAIR)}
    harness = await RegistrationHarness().open()
    (kept,) = await harness.register(document, "mcp")
    await harness.activate(kept.id)
    (kept,) = await harness.store.all()
    former = compute_legacy_digests(harness.service.tool(harness.service.find(kept.id)))
    assert former.contract != kept.contract_digest
    await harness.store.save([msgspec.structs.replace(kept, contract_digest=former.contract)], [])
    again = await harness.again()
    assert again.served == [kept.id]
    assert again.service.find(kept.id).digests == kept.digests
    await again.service.deactivate(kept.id, "eve")
    assert (await harness.again()).state("look") == "inactive"
