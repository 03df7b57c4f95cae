"""Whatever an upstream lists, reading and syncing it never crash, and each definition is a tool or has its finding."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.registration.upstream_lists import UpstreamHarness, listing, upstream
from toolhall.registration.upstream_definitions import DefinitionReader

MEMBERS = (
    "name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "execution", "uri",
    "uriTemplate", "mimeType", "size", "arguments", "required", "readOnlyHint", "audience", "src", "taskSupport",
    "dev.toolhall/id", "dev.toolhall/level",
)  # fmt: skip
KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "additionalItems", "$ref", "$defs", "definitions",
    "$schema", "$id", "allOf", "anyOf", "not", "dependencies", "exclusiveMinimum", "minimum", "enum", "const",
    "pattern", "format", "default", "examples", "x-mcp-header", "additionalProperties",
)  # fmt: skip
WORDS = (
    "object", "string", "float", "any", "array", "a", "a.b", "", "\x00", "\ud800", "\u200b", "find_搜", "#",
    "#/$defs/a", "^(?!a)", "(", "https://example.com", "http://json-schema.org/draft-04/schema#", "a://{b}",
    "a://b{?c*}", "file:///x", "required", "user", "Bank.pay@1.0.0", "x" * 300,
)  # fmt: skip
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS)
keys = st.sampled_from((*KEYWORDS, *WORDS))
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
schemas = st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=5)
definitions = st.fixed_dictionaries(
    {"name": st.sampled_from(WORDS)},
    optional={"inputSchema": schemas, "outputSchema": schemas, "annotations": values, "_meta": values},
) | st.dictionaries(st.sampled_from(MEMBERS), values, max_size=6)
LISTED = st.lists(definitions | values, max_size=4).map(tuple)


@settings(max_examples=examples(400), deadline=None)
@given(LISTED, LISTED, LISTED, st.sampled_from(["2025-11-25", "2026-07-28", "?"]))
def test_upstream_list_of_anything_is_read_and_synced(
    tools: tuple[Any, ...], resources: tuple[Any, ...], prompts: tuple[Any, ...], revision: str
) -> None:
    found = listing(*tools, resources=resources, prompts=prompts, revision=revision)
    read = list(DefinitionReader().read(found))
    assert len(read) == len(tools) + len(resources) + len(prompts)
    assert all(each.tool is not None or each.findings for each in read)
    asyncio.run(_sync_twice(found))


async def _sync_twice(found: Any) -> None:
    hall = UpstreamHarness(local=True)
    await hall.open()
    source = upstream(named=True)
    outcome = await hall.sync.apply(source, found)
    assert len(outcome.added) + len(outcome.withheld) == len(found.tools) + len(found.resources) + len(found.prompts)
    assert set(outcome.added) == {entry.id for entry in hall.registry.snapshot.all_entries}
    assert not await hall.sync.apply(source, found)
    again = await hall.restarted(source)
    assert {entry.id for entry in again.registry.snapshot.all_entries} == set(outcome.added)
    assert not await again.sync.apply(source, found)
