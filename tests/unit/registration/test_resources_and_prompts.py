"""Resources, templates and prompts pass through the records as tools do, from outside and from code."""

from datetime import date
from typing import Any

import pytest

from tests.tables import each_row
from tests.unit.registration.harness import ABOUT_NOW, RegistrationHarness, mcp, own
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Malformed
from toolhall.model.names import ToolId
from toolhall.model.tool import PromptInfo, ResourceInfo, Tool
from toolhall.registration.rules import BrokenPromise
from toolhall.registry.registry import Conflict

POLICY, ORDER, LETTER = "Shop.policy@1.0.0", "Shop.order@1.0.0", "Shop.letter@1.0.0"


def foreign(tool_id: str, **members: Any) -> dict[str, Any]:
    """An MCP definition that states its id."""
    toolkit, name = tool_id.partition("@")[0].split(".")
    return {
        "name": f"{toolkit}_{name}",
        "description": "From outside.",
        "_meta": {"dev.toolhall/id": tool_id},
        **members,
    }


def resource(tool_id: str = POLICY, uri: str = "shop://policy") -> dict[str, Any]:
    return foreign(tool_id, **{"uriTemplate" if "{" in uri else "uri": uri})


def prompt(tool_id: str = LETTER, *arguments: str) -> dict[str, Any]:
    return foreign(tool_id, arguments=[{"name": name, "required": True} for name in arguments])


def code(kind: str, name: str, version: str = "1.0.0", uri: str = "shop://orders/{number}") -> Tool:
    """A definition of this kind from code."""
    fields: dict[str, Any] = {"id": ToolId("Kit", name, version), "name": f"Kit_{name}", "effect": "reads"}
    info: dict[str, Any] = {
        "tool": {},
        "resource": {"resource": ResourceInfo(uri=uri)},
        "prompt": {"prompt": PromptInfo()},
    }
    return Tool(**fields, **info[kind], input={"type": "object"})


def served(harness: RegistrationHarness) -> list[str]:
    return [entry.id for entry in harness.registry.snapshot.all_entries]


@pytest.mark.parametrize(
    ("document", "tool_id"),
    [(resource(), POLICY), (resource(ORDER, "shop://orders/{number}"), ORDER), (prompt(LETTER, "number"), LETTER)],
    ids=["resource", "template", "prompt"],
)
async def test_definition_of_any_kind_is_quarantined_reviewed_and_ended(document: Any, tool_id: str) -> None:
    harness = await RegistrationHarness().open()
    (record,) = await harness.register(document, "mcp")
    assert (record.id, record.state, served(harness)) == (tool_id, "quarantined", [])
    assert harness.service.tool(record).foreign
    with pytest.raises(Malformed, match="look at its text"):
        await harness.service.activate(tool_id, "eve")
    await harness.activate(tool_id)
    assert (served(harness), harness.served) == ([tool_id], [])  # served, and no tool
    await harness.service.deactivate(tool_id, "eve")
    assert (served(harness), harness.state(tool_id)) == ([], "inactive")
    await harness.service.activate(tool_id, "eve")
    again = await harness.again()
    assert served(again) == [tool_id]
    assert again.service.all_records == harness.service.all_records
    await again.service.deprecate(tool_id, "eve", date(2027, 1, 16), None)
    assert served(again) == [tool_id]
    again.now = ABOUT_NOW + 86_400
    again.service.watch()
    assert (served(again), again.state(tool_id)) == ([], "retired")
    assert again.registry.snapshot.resources.match("shop://policy") is None
    await again.service.remove(tool_id, "eve")
    assert again.service.all_records == ()
    told = ["removed", "deprecated", "activated", "deactivated", "activated", "registered"]
    assert [what for what, _ in await again.told(tool_id)] == told
    again.service.close()


async def test_register_changed_uri_or_argument_requires_a_major_version() -> None:
    harness = RegistrationHarness()
    await harness.register(resource(ORDER, "shop://orders/{number}"), "mcp")
    await harness.register(resource("Shop.order@1.1.0", "shop://orders/{number}{?lang}"), "mcp")
    with pytest.raises(BrokenPromise, match=r"write version 2\.0\.0") as refused:
        await harness.register(resource("Shop.order@1.2.0", "shop://order/{number}"), "mcp")
    assert [(each.rule, each.path) for each in refused.value.findings[1:]] == [
        ("contract/breaking", "/uriTemplate"), ("contract/breaking", "/uriTemplate"),
    ]  # fmt: skip
    await harness.register(prompt(), "mcp")
    with pytest.raises(BrokenPromise, match=r"write version 2\.0\.0"):
        await harness.register(prompt("Shop.letter@1.1.0", "number"), "mcp")
    with pytest.raises(BrokenPromise, match="registered with other content"):
        await harness.register(prompt(LETTER, "number"), "mcp")


async def test_register_another_kind_under_the_name_of_a_tool_names_both() -> None:
    harness = RegistrationHarness()
    await harness.register(mcp("Shop_policy", POLICY), "mcp")
    with pytest.raises(BadDocument, match=r"the resource Shop\.policy@2\.0\.0 and the tool Shop\.policy@1\.0\.0"):
        await harness.register(resource("Shop.policy@2.0.0"), "mcp")


async def test_register_template_of_equal_shape_is_refused() -> None:
    harness = RegistrationHarness()
    await harness.register(resource(ORDER, "shop://orders/{number}"), "mcp")
    with pytest.raises(BadDocument, match=r"Shop\.sale@1\.0\.0 has a URI, the id or the name of Shop\.order@1\.0\.0"):
        await harness.register(resource("Shop.sale@1.0.0", "shop://orders/{id}"), "mcp")
    await harness.register(resource("Shop.sale@1.0.0", "shop://orders/{id}/sale"), "mcp")


async def test_register_template_that_cannot_be_matched_is_refused_with_the_reason() -> None:
    harness = RegistrationHarness()
    with pytest.raises(BadDocument) as refused:
        await harness.register(resource(ORDER, "shop://orders/{number:3}"), "mcp")
    assert [(each.path, each.rule) for each in refused.value.findings] == [("/uriTemplate", "uri/refused")]
    assert harness.service.all_records == ()


@each_row(("one", "other"), [("tool", "resource"), ("resource", "prompt"), ("prompt", "tool")])
def test_code_of_two_kinds_with_one_name_is_refused_and_names_both(one: str, other: str) -> None:
    harness = RegistrationHarness()
    harness.bring(code(one, "order"))
    for version in ("1.0.0", "1.1.0"):
        message = rf"the {other} Kit\.order@{version} and the {one} Kit\.order@1\.0\.0 have one name"
        with pytest.raises(Conflict, match=message):
            harness.bring(code(other, "order", version))


def test_code_with_two_templates_of_one_shape_is_refused() -> None:
    harness = RegistrationHarness()
    with pytest.raises(Conflict, match=r"Kit\.sale@1\.0\.0 has a URI, the id or the name of Kit\.order@1\.0\.0"):
        harness.bring(code("resource", "order"), code("resource", "sale", uri="shop://orders/{id}"))
    assert served(harness) == []
    harness.bring(code("resource", "order"), code("resource", "order", "1.1.0"))  # versions share their URI


async def test_code_is_held_to_the_version_of_its_uri() -> None:
    harness = await RegistrationHarness().open()
    harness.bring(own("1.0.0"), code("resource", "order"), code("prompt", "letter"))
    harness = await harness.again(own("1.0.0"), code("resource", "order"), code("prompt", "letter"))
    with pytest.raises(BrokenPromise, match=r"write version 2\.0\.0"):
        await harness.again(
            own("1.1.0"), code("resource", "order", "1.1.0", "shop://o/{n}"), code("prompt", "letter", "1.1.0")
        )
    with pytest.raises(BrokenPromise):  # the prompt is gone
        await harness.again(own("1.1.0"), code("resource", "order", "1.1.0"))


async def test_code_that_was_deactivated_stays_hidden() -> None:
    harness = await RegistrationHarness().again(code("resource", "order"), code("prompt", "letter"))
    await harness.service.deactivate("Kit.order@1.0.0", "eve")
    await harness.service.deactivate("Kit.letter", "eve")
    assert served(harness) == []
    harness = await harness.again(code("resource", "order"), code("prompt", "letter"))
    assert served(harness) == []
    await harness.service.activate("Kit.order", "eve")
    assert served(harness) == ["Kit.order@1.0.0"]
