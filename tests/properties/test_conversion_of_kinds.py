"""Properties of conversion of resources, templates and prompts, which only MCP has."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.journeys import converted, documents, exactly, resolve, unlisted, without_loss_records
from tests.properties.definitions import PROMPTS, RESOURCES, TEMPLATES
from toolhall.dialects.catalogs import CATALOGS, DIALECTS, READABLE_DIALECTS
from toolhall.dialects.convert.translate import read_source, translate
from toolhall.model.json import encode

KINDS = RESOURCES | TEMPLATES | PROMPTS
TOOL = {"name": "find", "description": "Finds an order.", "inputSchema": {"type": "object", "properties": {}}}
SOURCE = "mcp@2026-07-28"
OTHERS = [name for name in CATALOGS if name != SOURCE]
WRITE_ONLY = [name for name in DIALECTS if name not in READABLE_DIALECTS]


@pytest.mark.parametrize("target", OTHERS)
@settings(max_examples=20)
@given(document=KINDS)
def test_conversion_of_a_kind_to_another_dialect_and_back_is_exact(target: str, document: Any) -> None:
    before = encode(document)
    there = documents(converted([document], target, SOURCE))
    assert encode(document) == before, "the document belongs to whoever gave it"
    (back,) = documents(converted(there, SOURCE, target))
    assert exactly(back) == exactly(document)


@pytest.mark.parametrize("target", OTHERS)
@settings(max_examples=20)
@given(document=KINDS)
def test_conversion_of_a_kind_lists_every_loss_and_first_that_of_its_kind(target: str, document: Any) -> None:
    written = translate(read_source(document, CATALOGS[SOURCE]), CATALOGS[target])
    back = without_loss_records(written.documents, CATALOGS[SOURCE], CATALOGS[target])
    for loss in written.losses:
        resolve(document, loss.path)
    assert not unlisted(document, back, written.losses)
    kind = "prompts" if "arguments" in document else "resources"
    said = [loss.path for loss in written.losses if kind in loss.reason and "nobody can call" in loss.reason]
    assert said == ([] if target.startswith("mcp@") else [""])


@pytest.mark.parametrize("target", WRITE_ONLY)
@settings(max_examples=8)
@given(tools=st.lists(st.just(TOOL), max_size=1), others=st.lists(KINDS, min_size=1, max_size=3))
def test_conversion_of_a_kind_to_what_is_never_read_leaves_it_out(
    target: str, tools: list[Any], others: list[Any]
) -> None:
    results = converted([*others, *tools], target, SOURCE)
    left_out = [result.index for result in results for loss in result.losses if "it is left out" in loss.reason]
    assert left_out == list(range(len(others)))
    alone = converted(tools, target, SOURCE)
    assert encode(documents(results)) == encode(documents(alone))
