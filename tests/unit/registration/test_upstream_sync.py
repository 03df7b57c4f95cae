"""What an upstream lists is served as somebody has looked at it; what it changes waits, by the table of `on_change`."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.registration.harness import mcp, own
from tests.unit.registration.upstream_lists import UpstreamHarness, listing, schema, tool, upstream
from toolhall.contracts.release import check_release
from toolhall.model.errors import Malformed
from toolhall.model.tool import Task
from toolhall.registration import upstream_sync
from toolhall.registration.upstream_changes import HELD_MESSAGE
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.sqlite import open_sqlite

LOCAL = upstream(named=True)
TEXT = tool(description="Searches all documents.")
ADDITIVE = tool(inputSchema=schema("text", text="string", limit="integer"))
BREAKING = tool(inputSchema=schema("text", "lang", text="string", lang="string"))
READS = tool(annotations={"readOnlyHint": True})


@pytest.fixture
async def hall() -> UpstreamHarness:
    harness = UpstreamHarness(local=True)
    await harness.open()
    return harness


@pytest.fixture
async def pinned(hall: UpstreamHarness) -> UpstreamHarness:
    await hall.list(LOCAL, tool())
    return hall


# --- first sight ------------------------------------------------------------------------------------------------------


async def test_first_list_of_an_upstream_that_a_person_named_is_served_at_once(hall: UpstreamHarness) -> None:
    outcome = await hall.list(LOCAL, tool(), tool("fetch"))
    assert outcome.activated == outcome.added == ("Docs.search@1.0.0", "Docs.fetch@1.0.0")
    assert hall.served == ["Docs.search@1.0.0", "Docs.fetch@1.0.0"]
    assert (hall.entry("Docs_search").tool.foreign, hall.entry("Docs_search").tool.upstream_name) == (True, "search")
    assert len(hall.heard) == 1
    (record, _) = hall.service.all_records
    assert (record.origin, record.origin_detail, record.by) == ("upstream", "Docs", "upstream:Docs")


@pytest.mark.parametrize(("local", "named"), [(False, True), (True, False)])
async def test_first_list_is_quarantined_where_nobody_named_the_upstream(local: bool, named: bool) -> None:
    hall = UpstreamHarness(local=local)
    await hall.open()
    outcome = await hall.list(upstream(named=named), tool())
    assert outcome.held == outcome.added == ("Docs.search@1.0.0",)
    assert (hall.served, hall.heard, hall.states()) == ([], [], {"search@1.0.0": "quarantined"})


async def test_new_tool_of_a_later_list_is_quarantined_unless_the_upstream_is_trusted(pinned: UpstreamHarness) -> None:
    assert (await pinned.list(LOCAL, tool(), tool("fetch"))).held == ("Docs.fetch@1.0.0",)
    assert pinned.served == ["Docs.search@1.0.0"]
    await pinned.list(upstream(trusted=True), tool(), tool("fetch"), tool("more"))
    assert pinned.served == ["Docs.search@1.0.0", "Docs.fetch@1.0.0", "Docs.more@1.0.0"]


async def test_list_that_changes_nothing_writes_nothing(pinned: UpstreamHarness) -> None:
    records, told, heard = pinned.service.all_records, await pinned.service.history(), len(pinned.heard)
    outcome = await pinned.list(LOCAL, {**tool(), "inputSchema": dict(reversed(tool()["inputSchema"].items()))})
    assert not outcome
    assert (pinned.service.all_records, await pinned.service.history(), len(pinned.heard)) == (records, told, heard)


# --- changes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "version"),
    [
        (TEXT, "1.0.1"),
        (ADDITIVE, "1.1.0"),
        (BREAKING, "2.0.0"),
        (tool(annotations={"title": "Search"}), "1.0.1"),
        (tool(outputSchema={"type": "object"}), "1.1.0"),
    ],
)
async def test_changed_definition_waits_under_the_version_that_its_change_demands(
    pinned: UpstreamHarness, changed: dict[str, Any], version: str
) -> None:
    outcome = await pinned.list(LOCAL, changed)
    assert outcome.changed == outcome.held == (f"Docs.search@{version}",)
    assert pinned.states() == {"search@1.0.0": "active", f"search@{version}": "quarantined"}
    old, new = (pinned.service.tool(pinned.service.find(f"Docs.search@{each}")) for each in ("1.0.0", version))
    assert check_release([old], [new]).ok
    assert len(pinned.heard) == 1


@pytest.mark.parametrize(
    ("on_change", "changed", "held", "checks_next"),
    [
        ("keep", TEXT, False, False),
        ("keep", ADDITIVE, False, True),
        ("keep", BREAKING, True, False),
        ("hold", TEXT, True, False),
        ("hold", ADDITIVE, True, False),
        ("hold", BREAKING, True, False),
        ("follow", BREAKING, True, False),
    ],
)
async def test_calls_of_a_changed_definition_are_held_by_the_table(
    pinned: UpstreamHarness, on_change: str, changed: dict[str, Any], held: bool, checks_next: bool
) -> None:
    source = upstream(named=True, on_change=on_change)
    await pinned.list(source, changed)
    for hall in (pinned, await pinned.restarted(source)):
        entry = hall.entry("Docs_search")
        assert (entry.id, entry.tool.description) == ("Docs.search@1.0.0", "Searches the documents.")
        assert entry.held == (HELD_MESSAGE if held else None)
        assert (entry.next_input is not None) is checks_next
    if checks_next:
        assert entry.next_input is not None
        assert not entry.next_input.accepts({"text": "x", "limit": "many"})
    assert len(pinned.heard) == 1  # nobody is shown another list


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (READS, tool()),
        (READS, tool(annotations={"readOnlyHint": False})),
        (tool(annotations={"destructiveHint": False}), tool(annotations={"destructiveHint": True})),
        (tool(annotations={"openWorldHint": False}), tool(annotations={"openWorldHint": True})),
    ],
)
async def test_worse_hint_holds_every_call(
    hall: UpstreamHarness, before: dict[str, Any], after: dict[str, Any]
) -> None:
    await hall.list(LOCAL, before)
    await hall.list(LOCAL, after)
    assert hall.entry("Docs_search").held == HELD_MESSAGE
    assert hall.states() == {"search@1.0.0": "active", "search@2.0.0": "quarantined"}


@pytest.mark.parametrize(
    ("trusted", "changed", "served"),
    [
        (False, TEXT, "1.0.1"),
        (False, ADDITIVE, "1.1.0"),
        (False, BREAKING, "1.0.0"),
        (True, BREAKING, "2.0.0"),
    ],
)
async def test_followed_upstream_changes_what_is_served_unless_it_breaks(
    pinned: UpstreamHarness, trusted: bool, changed: dict[str, Any], served: str
) -> None:
    await pinned.list(upstream(on_change="follow", trusted=trusted), changed)
    assert pinned.served == [f"Docs.search@{served}"]
    assert len(pinned.heard) == (1 if served == "1.0.0" else 2)


async def test_setting_of_the_operator_is_served_at_once_under_a_new_version(pinned: UpstreamHarness) -> None:
    await pinned.list(upstream(level=2), tool())
    assert (pinned.served, pinned.entry("Docs_search").tool.level) == (["Docs.search@2.0.0"], 2)
    secret = upstream(level=2, headers={"X-Key": "${secret:KEY}"}, auth="oauth")
    await pinned.list(secret, tool())
    found = pinned.entry("Docs_search")
    assert found.id == "Docs.search@3.0.0"
    assert found.requirements is not None
    assert (found.requirements.secrets, found.requirements.accounts[0].provider) == (("KEY",), "upstream:Docs")
    assert found.held is None


async def test_timeout_of_the_operator_is_that_of_every_tool(pinned: UpstreamHarness) -> None:
    assert pinned.entry("Docs_search").tool.timeout is None
    await pinned.list(upstream(timeout=1.5), tool())
    assert pinned.entry("Docs_search").tool.timeout == 1.5
    assert pinned.entry("Docs_search").held is None


async def test_changed_setting_changes_what_is_held_before_any_sync(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, TEXT)
    assert pinned.entry("Docs_search").held is None
    pinned.sync.configure({"Docs": upstream(on_change="hold")})
    assert pinned.entry("Docs_search").held == HELD_MESSAGE
    pinned.sync.configure({"Docs": LOCAL})
    assert pinned.entry("Docs_search").held is None


async def test_definition_that_changes_again_replaces_what_waits(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, BREAKING)
    await pinned.list(LOCAL, TEXT)
    assert pinned.states() == {"search@1.0.0": "active", "search@1.0.1": "quarantined"}
    await pinned.list(LOCAL, tool(description="Searches some documents."))
    assert pinned.states() == {"search@1.0.0": "active", "search@1.0.1": "quarantined"}
    assert pinned.entry("Docs_search").held is None
    await pinned.list(LOCAL, tool())
    assert pinned.states() == {"search@1.0.0": "active"}


# --- the look ---------------------------------------------------------------------------------------------------------


async def test_acceptance_8_one_word_changes_and_later_the_schema_breaks(pinned: UpstreamHarness) -> None:
    """No client is shown it, calls go on, the review shows the diff; after the yes every client hears once."""
    await pinned.list(LOCAL, TEXT)
    (item,) = pinned.sync.review("Docs").items
    assert (item.id, item.after, item.size, item.refused) == ("Docs.search@1.0.1", "1.0.0", "text", False)
    assert [str(change.path) for change in item.changes] == ["/description"]
    assert ("all documents" in item.text, "all documents" in (item.before or "")) == (True, False)
    assert (len(pinned.heard), pinned.entry("Docs_search").held) == (1, None)
    assert await pinned.accept() == ("Docs.search@1.0.1",)
    assert len(pinned.heard) == 2
    assert pinned.served == ["Docs.search@1.0.1"]
    assert pinned.entry("Docs_search").tool.description == "Searches all documents."
    await pinned.list(LOCAL, {**BREAKING, "description": TEXT["description"]})
    assert pinned.entry("Docs_search").held == HELD_MESSAGE
    assert pinned.sync.review("Docs").items[0].refused
    await pinned.accept()
    assert len(pinned.heard) == 3
    assert (pinned.served, pinned.entry("Docs_search").held) == (["Docs.search@2.0.0"], None)
    assert pinned.states() == {"search@1.0.0": "inactive", "search@1.0.1": "inactive", "search@2.0.0": "active"}
    assert pinned.sync.review("Docs").items == ()


async def test_yes_counts_for_exactly_the_set_that_was_shown(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, TEXT)
    shown = pinned.sync.review("Docs").digest
    for changed in ([tool(description="Sends your files.")], [TEXT, tool("more")], [tool()]):
        await pinned.list(LOCAL, *changed)
        with pytest.raises(Malformed, match="toolhall upstream review Docs"):
            await pinned.sync.accept("Docs", shown, "eve")
    assert pinned.served == ["Docs.search@1.0.0"]
    await pinned.list(LOCAL, TEXT)  # what was shown, once more
    assert await pinned.sync.accept("Docs", shown, "eve") == ("Docs.search@1.0.1",)
    assert (await pinned.told("Docs.search@1.0.1"))[0] == ("activated", "eve")


async def test_review_of_many_definitions_shows_the_first_and_a_yes_counts_for_those(
    hall: UpstreamHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 10
    monkeypatch.setattr(upstream_sync, "MAX_REVIEWED", most)
    await hall.list(upstream(), *(tool(f"t{number:03}") for number in range(most + 5)))
    review = hall.sync.review("Docs")
    assert (len(review.items), review.more, hall.sync.waiting("Docs")) == (most, 5, most + 5)
    assert len(await hall.accept()) == len(hall.served) == most
    assert next(item.upstream_name for item in hall.sync.review("Docs").items) == f"t{most:03}"
    await hall.accept()
    assert len(hall.served) == most + 5
    await hall.list(upstream(), *(tool(f"b{number}", "x" * 250_000) for number in range(9)))
    assert 1 <= len(hall.sync.review("Docs").items) < 9


async def test_one_tool_can_be_activated_alone(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, BREAKING, tool("more"))
    await pinned.activate("Docs.search@2.0.0")
    assert pinned.states() == {"search@1.0.0": "inactive", "search@2.0.0": "active", "more@1.0.0": "quarantined"}
    assert pinned.entry("Docs_search").held is None
    assert not await pinned.list(LOCAL, BREAKING, tool("more"))


async def test_rolled_back_tool_waits_again_since_its_upstream_has_what_was_left(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, BREAKING)
    await pinned.accept()
    await pinned.service.roll_back("Docs.search", "eve")
    assert pinned.states() == {"search@1.0.0": "active", "search@2.0.0": "quarantined"}
    assert pinned.entry("Docs_search").held == HELD_MESSAGE
    assert not await pinned.list(LOCAL, BREAKING)


async def test_tool_that_was_switched_off_stays_off(pinned: UpstreamHarness) -> None:
    await pinned.service.deactivate("Docs.search", "eve")
    await pinned.list(LOCAL, tool())
    await pinned.list(LOCAL, TEXT)
    await pinned.list(LOCAL)
    await pinned.list(LOCAL, TEXT)
    assert (pinned.served, pinned.sync.review("Docs").items) == ([], ())


async def test_deprecation_passes_on_to_the_next_version(pinned: UpstreamHarness) -> None:
    await pinned.service.deprecate("Docs.search", "eve", None, None)
    await pinned.list(LOCAL, TEXT)
    await pinned.accept()
    assert pinned.entry("Docs_search").tool.deprecation is not None


# --- what is gone -----------------------------------------------------------------------------------------------------


async def test_tool_that_is_gone_is_withheld_and_comes_back_without_a_look(pinned: UpstreamHarness) -> None:
    assert (await pinned.list(LOCAL)).gone == ("Docs.search@1.0.0",)
    assert (pinned.served, pinned.states(), pinned.state("Docs_search")) == (
        [],
        {"search@1.0.0": "withheld"},
        "withheld",
    )
    again = await pinned.restarted(LOCAL)
    assert again.served == []
    assert (await again.list(LOCAL, tool())).activated == ("Docs.search@1.0.0",)
    assert again.served == ["Docs.search@1.0.0"]


async def test_tool_that_comes_back_as_another_is_held_like_any_change(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL)
    await pinned.list(LOCAL, BREAKING)
    assert pinned.served == ["Docs.search@1.0.0"]
    assert pinned.entry("Docs_search").held == HELD_MESSAGE


async def test_tool_that_nobody_looked_at_is_forgotten_when_it_is_gone(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, TEXT, tool("more"))
    await pinned.list(LOCAL)
    assert pinned.states() == {"search@1.0.0": "withheld"}


async def test_list_of_another_user_only_adds(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, tool("theirs"), shared=False)
    assert pinned.states() == {"search@1.0.0": "active", "theirs@1.0.0": "quarantined"}
    await pinned.list(LOCAL, TEXT, shared=False)
    await pinned.list(LOCAL, tool(), shared=False)
    assert pinned.states()["search@1.0.1"] == "quarantined"


async def test_forgotten_upstream_leaves_its_history_only(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, TEXT)
    assert await pinned.sync.forget("Docs", "eve") == 2
    assert (pinned.served, pinned.states(), await pinned.sync.forget("Docs", "eve")) == ([], {}, 0)
    assert (await pinned.told("Docs.search@1.0.0"))[0] == ("removed", "eve")


async def test_list_that_was_being_read_when_its_upstream_was_removed_adds_nothing(pinned: UpstreamHarness) -> None:
    syncing = asyncio.create_task(pinned.list(LOCAL, *(tool(f"t{number}") for number in range(100))))
    await asyncio.sleep(0)
    await pinned.sync.forget("Docs", "eve")
    assert not await syncing
    assert (pinned.states(), pinned.served) == ({}, [])


# --- names ------------------------------------------------------------------------------------------------------------


async def test_tools_are_published_under_the_name_of_their_upstream(hall: UpstreamHarness) -> None:
    await hall.list(LOCAL, tool("Docs"), tool("a.b"), tool("a b"), tool("搜索"), tool("x" * 90))
    names = [entry.tool.name for entry in hall.registry.snapshot.entries]
    assert names[:2] == ["Docs_Docs", "Docs_a_b"]
    assert all(name.startswith("Docs_") and len(name) <= 64 for name in names)
    assert len({entry.id for entry in hall.registry.snapshot.entries}) == 5
    assert [entry.tool.upstream_name for entry in hall.registry.snapshot.entries][2:4] == ["a b", "搜索"]


async def test_same_tool_of_two_upstreams_is_two_tools(hall: UpstreamHarness) -> None:
    await hall.list(LOCAL, tool(), tool("搜索"))
    await hall.list(upstream("Wiki", named=True), tool(), tool("搜索"))
    assert len(hall.served) == 4


async def test_renamed_and_selected_tools_follow_the_settings(hall: UpstreamHarness) -> None:
    source = upstream(named=True, only=("search*", "fetch"), except_=("search_old",), rename={"search_v2": "search"})
    await hall.list(source, tool("search_v2"), tool("search_old"), tool("fetch"), tool("drop"))
    assert hall.served == ["Docs.search@1.0.0", "Docs.fetch@1.0.0"]
    assert hall.entry("Docs_search").tool.upstream_name == "search_v2"
    outcome = await hall.list(
        upstream(except_=("fetch",), rename={"search_v2": "search"}), tool("search_v2"), tool("fetch")
    )
    assert outcome.gone == ("Docs.fetch@1.0.0",)


async def test_name_that_code_has_withholds_that_tool_alone(hall: UpstreamHarness) -> None:
    hall.bring(own("1.0.0", name="a_b"))  # Kit_a_b
    outcome = await hall.list(upstream("Kit", named=True), tool("y"))
    assert [each.name for each in outcome.withheld] == ["y"]
    assert "give the upstream another name" in str(outcome.withheld[0].findings[-1])
    (withheld,) = (await hall.list(upstream("Kit_a", named=True), tool("b"), tool("y"))).withheld
    assert "'Kit_a_b', which some dialect cannot tell apart from Kit.a_b@1.0.0" in str(withheld.findings[-1])
    assert hall.served == ["Kit.a_b@1.0.0", "Kit_a.y@1.0.0"]


async def test_toolkit_of_an_upstream_takes_no_tools_from_elsewhere(pinned: UpstreamHarness) -> None:
    with pytest.raises(Malformed, match="'Docs' is the name of an upstream"):
        await pinned.register(mcp("other", "Docs.other@1.0.0"), "mcp")
    await pinned.register(mcp("other", "Wiki.other@1.0.0"), "mcp")
    outcome = await pinned.list(upstream("Wiki", named=True), tool())
    assert "'Wiki' is registered already, from elsewhere" in str(outcome.withheld[0].findings[-1])


async def test_prompts_and_resources_are_registered_beside_tools(hall: UpstreamHarness) -> None:
    found = listing(
        tool("search"),
        prompts=({"name": "search", "description": "Asks.", "arguments": [{"name": "q", "required": True}]},),
        resources=({"uri": "docs://readme", "name": "search"}, {"uri": "docs://other", "name": "search"}),
        templates=({"uriTemplate": "docs://{page}", "name": "page"},),
    )
    outcome = await hall.sync.apply(LOCAL, found)
    assert (len(outcome.added), outcome.withheld) == (5, ())
    snapshot = hall.registry.snapshot
    assert len({entry.id for entry in snapshot.all_entries}) == 5
    assert [entry.tool.upstream_name for entry in snapshot.prompts.entries] == ["search"]
    assert {entry.tool.upstream_name for entry in snapshot.resources.entries} == {
        "docs://readme",
        "docs://other",
        "docs://{page}",
    }
    assert not await hall.sync.apply(LOCAL, found)


async def test_resource_that_another_upstream_has_gets_the_name_of_its_upstream(hall: UpstreamHarness) -> None:
    found = listing(resources=({"uri": "docs://readme", "name": "readme"},))
    await hall.sync.apply(LOCAL, found)
    await hall.sync.apply(upstream("Wiki", named=True), found)
    (_, second) = hall.registry.snapshot.resources.entries
    assert second.tool.resource is not None
    assert (second.tool.resource.uri, second.tool.upstream_name) == ("docs://Wiki/readme", "docs://readme")
    assert not await hall.sync.apply(upstream("Wiki", named=True), found)


# --- completions and tasks --------------------------------------------------------------------------------------------

PROMPT = {"name": "ask", "description": "Asks.", "arguments": [{"name": "city", "required": True}, {"name": "day"}]}
TEMPLATE = {"uriTemplate": "docs://{page}", "name": "page"}


def completed(hall: UpstreamHarness, name: str) -> tuple[str, ...]:
    info = (tool := hall.entry(name).tool).resource or tool.prompt
    assert info is not None
    return info.completes


async def test_server_that_completes_completes_every_argument_and_variable(hall: UpstreamHarness) -> None:
    found = listing(tool(), prompts=(PROMPT,), templates=(TEMPLATE,), completes=True)
    await hall.sync.apply(LOCAL, found)
    assert completed(hall, "Docs_ask") == ("city", "day")
    assert completed(hall, "Docs.page@1.0.0") == ("page",)
    assert not await hall.sync.apply(LOCAL, found)


async def test_server_that_completes_later_needs_no_look_and_takes_nothing_back(hall: UpstreamHarness) -> None:
    before = listing(prompts=(PROMPT,), templates=(TEMPLATE,))
    await hall.sync.apply(LOCAL, before)
    assert completed(hall, "Docs_ask") == ()
    await hall.sync.apply(LOCAL, msgspec.structs.replace(before, completes=True))
    assert hall.entry("Docs_ask").id == "Docs.ask@1.1.0"
    assert (completed(hall, "Docs_ask"), completed(hall, "Docs.page@1.1.0")) == (("city", "day"), ("page",))
    assert not await hall.sync.apply(LOCAL, before)
    assert completed(hall, "Docs_ask") == ("city", "day")


async def test_text_that_changes_with_what_is_completed_waits_for_a_look(hall: UpstreamHarness) -> None:
    await hall.sync.apply(LOCAL, listing(prompts=(PROMPT,)))
    await hall.sync.apply(LOCAL, listing(prompts=({**PROMPT, "description": "Obey."},), completes=True))
    assert hall.states() == {"ask@1.0.0": "active", "ask@1.1.0": "quarantined"}


async def test_tool_that_runs_as_a_task_only_is_served(hall: UpstreamHarness) -> None:
    outcome = await hall.list(LOCAL, tool(execution={"taskSupport": "required"}), tool("plain"))
    assert outcome.withheld == ()
    assert hall.entry("Docs_search").tool.task == Task(again=False)
    assert hall.entry("Docs_plain").tool.task is None


# --- definitions that cannot be read ----------------------------------------------------------------------------------


async def test_definition_that_cannot_be_read_is_withheld_and_the_others_go_on(hall: UpstreamHarness) -> None:
    bad = tool("bad", inputSchema={"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}})
    outcome = await hall.list(LOCAL, bad, tool(), 5)
    assert hall.served == ["Docs.search@1.0.0"]
    assert [each.name for each in outcome.withheld] == ["bad", ""]
    assert all(each.findings for each in outcome.withheld)
    assert hall.sync.findings("Docs") == outcome.withheld


async def test_tool_that_becomes_unreadable_is_not_served(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, tool(inputSchema={"type": "string"}), shared=False)
    assert pinned.states() == {"search@1.0.0": "withheld"}


async def test_mended_definition_is_served_with_its_findings(hall: UpstreamHarness) -> None:
    await hall.list(
        LOCAL, {"name": "search", "description": None, "inputSchema": {"properties": {"a": {"type": "str"}}}}
    )
    assert hall.entry("Docs_search").tool.input == {"type": "object", "properties": {"a": {"type": "string"}}}
    (found,) = hall.sync.findings("Docs")
    assert not found.withheld
    assert {each.rule for each in found.findings} == {"mended/text", "mended/type", "mended/root"}


# --- what survives ----------------------------------------------------------------------------------------------------


async def test_lists_come_from_the_store_before_any_upstream_is_reached(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, BREAKING, tool("more"))
    again = await pinned.restarted(LOCAL)
    assert again.served == ["Docs.search@1.0.0"]
    assert again.sync.review("Docs") == pinned.sync.review("Docs")
    assert not await again.list(LOCAL, BREAKING, tool("more"))


async def test_each_tool_keeps_its_own_document_only(pinned: UpstreamHarness) -> None:
    await pinned.list(LOCAL, tool(), *(tool(f"t{number}") for number in range(20)))
    assert all(len(each.document) < 500 for each in pinned.service.all_records)


async def test_other_version_of_the_server_is_an_event(pinned: UpstreamHarness) -> None:
    for stated in ("1.0", "1.0", "1.1"):
        await pinned.list(LOCAL, tool(), server_version=stated, server_name="docs")
    again = await pinned.restarted(LOCAL)
    await again.list(LOCAL, tool(), server_version="1.1")
    told = await again.service.history("Docs")
    assert [(each.what, each.detail["from"], each.detail["to"]) for each in told] == [
        ("server changed", "1.0", "1.1"),
        ("server changed", None, "1.0"),
    ]


@pytest.mark.parametrize("column", ["model", "state"])
async def test_row_changed_by_another_program_waits_for_a_look(tmp_path: Path, column: str) -> None:
    """It is known by its name again, and is served once somebody has looked at what the upstream lists."""
    secret = upstream(named=True, headers={"X-Key": "${secret:KEY}"})
    with closing(open_sqlite(tmp_path)) as stores:
        hall = UpstreamHarness(stores.tools, local=True)
        await hall.open()
        await hall.list(secret, tool(), tool("fetch"))
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
        changed = "CAST(replace(model, 'Searches', 'Sends') AS BLOB)" if column == "model" else "'inactive'"
        connection.execute(f"UPDATE tools SET {column} = {changed} WHERE tool = 'search'")
    with closing(open_sqlite(tmp_path)) as stores:
        hall = UpstreamHarness(stores.tools, local=True)
        await hall.open()
        assert hall.served == ["Docs.fetch@1.0.0"]
        await hall.list(secret, tool(), tool("fetch"))
        assert hall.states() == {"search@1.0.0": "quarantined", "fetch@1.0.0": "active"}
        await hall.accept()
        found = hall.entry("Docs_search")
        assert (found.tool.upstream_name, found.tool.description) == ("search", "Searches the documents.")
        assert found.requirements is not None
