"""What tool servers declare is kept once, held to its contract, and served at once only where that is trusted."""

import asyncio
from typing import Any

import pytest

from tests.unit.registration.harness import RegistrationHarness, own
from toolhall.dialects.findings import BadDocument
from toolhall.model.errors import Denied, Malformed
from toolhall.model.tool import ResourceInfo
from toolhall.registration.records import DefinitionDocument, RegistrationSource
from toolhall.registration.rules import BrokenPromise
from toolhall.stores.tools import ToolRecord

BY_CAROL = RegistrationSource("tool-server", "carol", 5.0, "calendars")


def declared(version: str = "1.0.0", *methods: str, name: str = "Calendar", **params: Any) -> DefinitionDocument:
    listed = [{"name": method, "params": {"type": "object", **params}} for method in methods or ("create",)]
    return DefinitionDocument(
        {"tool": {"name": name, "version": version, "capabilities": {"methods": listed}}}, "hub", "calendars"
    )


def allow_anyone() -> None:
    """Allow every registration."""


async def declare(
    harness: RegistrationHarness, *documents: DefinitionDocument, trusted: bool = False
) -> tuple[ToolRecord, ...]:
    return await harness.service.register_declared(documents, BY_CAROL, allow_anyone, trusted=trusted)


@pytest.fixture
async def harness() -> RegistrationHarness:
    return await RegistrationHarness().open()


async def test_declared_tool_of_an_untrusted_tool_server_is_quarantined(harness: RegistrationHarness) -> None:
    (kept,) = await declare(harness, declared())
    assert (kept.state, kept.origin, kept.origin_detail, kept.by) == (
        "quarantined",
        "tool-server",
        "calendars",
        "carol",
    )
    assert harness.served == []


async def test_declared_tools_of_a_trusted_tool_server_are_active_immediately(harness: RegistrationHarness) -> None:
    kept = await declare(harness, declared("1.0.0", "create", "drop"), trusted=True)
    assert [each.state for each in kept] == ["active", "active"]
    assert harness.served == ["Calendar.create@1.0.0", "Calendar.drop@1.0.0"]
    assert await harness.told("Calendar.create@1.0.0") == [("activated", "carol"), ("registered", "carol")]


async def test_declaring_the_same_definition_again_changes_nothing(harness: RegistrationHarness) -> None:
    """A replica, or the same one after a restart: nobody hears of a change, because there is none."""
    await declare(harness, declared(), trusted=True)
    heard = len(harness.heard)
    (again,) = await declare(harness, declared(), trusted=True)
    assert again.state == "active"
    assert len(harness.heard) == heard
    assert len(await harness.told("Calendar.create@1.0.0")) == 2


async def test_inactive_tool_stays_inactive_when_declared_again(harness: RegistrationHarness) -> None:
    await declare(harness, declared(), trusted=True)
    await harness.service.deactivate("Calendar.create@1.0.0", "eve")
    (kept,) = await declare(harness, declared(), trusted=True)
    assert kept.state == "inactive"
    assert harness.served == []


async def test_quarantined_tool_declared_again_by_a_trusted_tool_server_becomes_active(
    harness: RegistrationHarness,
) -> None:
    await declare(harness, declared())
    (kept,) = await declare(harness, declared(), trusted=True)
    assert kept.state == "active"


async def test_replica_with_an_equivalent_tuple_schema_changes_nothing(harness: RegistrationHarness) -> None:
    """As tool servers of two versions of an SDK do while one replaces the other."""
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {}], "minItems": 2, "maxItems": 2}
    await declare(harness, declared(properties={"pair": {**pair, "items": False}}), trusted=True)
    heard = len(harness.heard)
    (again,) = await declare(harness, declared(properties={"pair": pair}), trusted=True)
    assert (again.state, len(harness.heard)) == ("active", heard)


async def test_declared_changed_content_under_the_same_version_raises_broken_promise(
    harness: RegistrationHarness,
) -> None:
    await declare(harness, declared(), trusted=True)
    with pytest.raises(BrokenPromise, match=r"registered with other content; write version 2\.0\.0"):
        await declare(harness, declared(required=["title"], properties={"title": {"type": "string"}}), trusted=True)
    assert harness.served == ["Calendar.create@1.0.0"]


@pytest.mark.parametrize("methods", [("create", "drop"), ("drop",)])
async def test_declared_release_with_another_set_of_tools_raises_broken_promise(
    harness: RegistrationHarness, methods: tuple[str, ...]
) -> None:
    await declare(harness, declared("1.0.0", "create"), trusted=True)
    with pytest.raises(BrokenPromise, match="raise its version"):
        await declare(harness, declared("1.0.0", *methods), trusted=True)


async def test_replica_that_lacks_a_tool_of_the_release_raises_broken_promise(harness: RegistrationHarness) -> None:
    """It would be given calls of what it does not have, though another replica has that."""
    await declare(harness, declared("1.0.0", "create", "drop"), trusted=True)
    with pytest.raises(BrokenPromise, match=r"known with other tools \(drop\); raise its version"):
        await declare(harness, declared("1.0.0", "create"), trusted=True)
    await declare(harness, declared("1.1.0-dev", "create", "drop"), trusted=True)
    await declare(harness, declared("1.1.0-dev", "create"), trusted=True)


async def test_declared_breaking_change_in_a_minor_version_raises_broken_promise(harness: RegistrationHarness) -> None:
    await declare(harness, declared("1.0.0", "create", "drop"), trusted=True)
    with pytest.raises(BrokenPromise, match="too little for a major change"):
        await declare(harness, declared("1.1.0", "create"), trusted=True)


async def test_declared_versions_of_a_toolkit_are_served_side_by_side(harness: RegistrationHarness) -> None:
    await declare(harness, declared("1.0.0"), trusted=True)
    await declare(harness, declared("1.1.0", "create", "drop"), trusted=True)
    assert harness.served == ["Calendar.create@1.0.0", "Calendar.create@1.1.0", "Calendar.drop@1.1.0"]


async def test_changed_pre_release_of_an_untrusted_tool_server_is_quarantined_again(
    harness: RegistrationHarness,
) -> None:
    """Who works on it joins again with every change; where nobody trusts it, somebody looks every time."""
    await declare(harness, declared("1.0.0-dev"), trusted=True)
    (kept,) = await declare(harness, declared("1.0.0-dev", title="other"), trusted=False)
    assert kept.state == "quarantined"
    (kept,) = await declare(harness, declared("1.0.0-dev", title="third"), trusted=True)
    assert kept.state == "active"
    assert "replaced" in [what for what, _ in await harness.told("Calendar.create@1.0.0-dev")]


async def test_declaring_a_toolkit_that_is_served_from_code_raises_malformed(harness: RegistrationHarness) -> None:
    harness.bring(own("1.0.0"))
    with pytest.raises(Malformed, match="'Kit' is served already, from code"):
        await declare(harness, declared("1.0.0", "add", name="Kit"), trusted=True)


async def test_declared_tool_is_active_after_a_restart(harness: RegistrationHarness) -> None:
    await declare(harness, declared(), trusted=True)
    again = await harness.again()
    assert again.served == ["Calendar.create@1.0.0"]
    (kept,) = await declare(again, declared())
    assert kept.state == "active"


async def test_declaring_several_toolkits_stores_none_when_one_is_refused(harness: RegistrationHarness) -> None:
    await declare(harness, declared(), trusted=True)
    other = declared("1.0.0", "create", "drop")
    with pytest.raises(BrokenPromise, match="raise its version"):
        await declare(harness, declared(name="Mail"), declared("1.0.0-dev", name="Notes"), other, trusted=True)
    assert [each.record.toolkit for each in harness.service.index.all] == ["Calendar"]
    assert harness.served == ["Calendar.create@1.0.0"]
    assert len(await harness.service.history()) == 2


async def test_toolkits_declared_together_are_checked_against_each_other(harness: RegistrationHarness) -> None:
    first = declared("1.0.0", "create", "drop")
    with pytest.raises(BrokenPromise, match="too little for a major change"):
        await declare(harness, first, declared("1.1.0", "create"), trusted=True)
    with pytest.raises(BadDocument, match="cannot tell apart"):
        await declare(harness, first, declared(name="calendar"), trusted=True)
    assert harness.service.index.all == ()
    kept = await declare(harness, first, first, declared("2.0.0", "create"), declared(name="Mail"), trusted=True)
    assert {each.state for each in kept} == {"active"}
    assert len(harness.served) == 4


async def test_refused_declaration_leaves_the_registered_tools_unchanged(harness: RegistrationHarness) -> None:
    """A pre-release that would have been replaced, too."""
    await declare(harness, declared("1.0.0-dev"), declared(), trusted=True)
    before = harness.service.index.all
    changed = declared("1.0.0-dev", title="other")
    with pytest.raises(BrokenPromise):
        await declare(harness, changed, declared("1.0.0", "create", "drop"), trusted=True)
    assert harness.service.index.all == before
    (kept,) = await declare(harness, changed, trusted=True)
    assert kept.state == "active"


async def test_trusted_declaration_of_a_name_confusable_with_a_code_tool_stores_nothing(
    harness: RegistrationHarness,
) -> None:
    """Beside code that differs from it in case only."""
    harness.bring(own("1.0.0"))
    with pytest.raises(Malformed, match="cannot tell apart"):
        await declare(harness, declared("1.0.0", "add", name="kit"), trusted=True)
    assert harness.service.index.all == ()
    (kept,) = await declare(harness, declared("1.0.0", "add", name="kit"))
    assert kept.state == "quarantined"


async def test_concurrent_declarations_check_ownership_one_after_the_other(harness: RegistrationHarness) -> None:
    """Of two that come at once with the same new toolkit, the second finds it taken."""

    def check() -> None:
        if harness.service.index.owners("Calendar"):
            raise Denied("it is somebody's")

    both = [harness.service.register_declared([declared()], BY_CAROL, check, trusted=False) for _ in range(2)]
    first, second = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(first, tuple)
    assert isinstance(second, Denied)


# --- URIs -------------------------------------------------------------------------------------------------------------


def resource_of(toolkit: str, uri: str, **properties: Any) -> DefinitionDocument:
    params = {"type": "object", "properties": properties, "required": list(properties)}
    method = {"name": "read", "params": params, "dev.toolhall/resource": {"uri": uri}}
    declaration = {"name": toolkit, "version": "1.0.0", "capabilities": {"methods": [method]}}
    return DefinitionDocument({"tool": declaration}, "hub", "calendars")


async def test_second_of_two_quarantined_resources_with_a_common_uri_is_refused_when_it_is_activated(
    harness: RegistrationHarness,
) -> None:
    await declare(harness, resource_of("Wide", "notes://{id}", id={"type": "string"}))
    await declare(harness, resource_of("Narrow", "notes://7"))
    await harness.activate("Wide.read@1.0.0")
    with pytest.raises(Malformed, match=r"Narrow\.read@1\.0\.0 has a URI, the id or the name of Wide\.read@1\.0\.0"):
        await harness.activate("Narrow.read@1.0.0")
    assert harness.registry.snapshot.resources.tools[0].id.toolkit == "Wide"


async def test_declared_resource_whose_uri_the_halls_code_has_gained_is_not_served_after_a_restart(
    harness: RegistrationHarness,
) -> None:
    document = resource_of("Narrow", "notes://7")
    await declare(harness, document, trusted=True)
    properties = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    code = own("1.0.0", name="read", input=properties, resource=ResourceInfo(uri="notes://{id}"))
    again = await harness.again(code)
    assert [each.id.toolkit for each in again.registry.snapshot.resources.tools] == ["Kit"]
    assert again.state("Narrow.read@1.0.0") == "not served"


async def test_two_versions_of_a_resource_have_one_uri(harness: RegistrationHarness) -> None:
    first = resource_of("Wide", "notes://{id}", id={"type": "string"})
    await declare(harness, first, trusted=True)
    second = DefinitionDocument({"tool": {**first.body["tool"], "version": "1.1.0"}}, "hub", "calendars")
    await declare(harness, second, trusted=True)
    assert len(harness.registry.snapshot.resources.entries) == 2
