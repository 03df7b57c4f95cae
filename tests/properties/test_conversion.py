"""Properties of conversion: every definition converts to every dialect and back exactly, and every loss is listed."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.journeys import converted, documents, exactly, resolve, unlisted, without_loss_records
from tests.harness.seeds import examples
from tests.properties.definitions import DOCUMENTS, MCP, NAMES, schemas
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.convert.lossless import split_document
from toolhall.dialects.convert.translate import read_source, restore, translate
from toolhall.model.json import encode

PAIRS = list(itertools.permutations([name for name in DOCUMENTS if name != "function"], 2))
each_pair = pytest.mark.parametrize(("source", "target"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])


@each_pair
@settings(max_examples=12)
@given(data=st.data())
def test_conversion_to_another_dialect_and_back_is_exact(source: str, target: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[source])
    before = encode(document)
    there = documents(converted([document], target, source))
    assert encode(document) == before, "the document belongs to whoever gave it"
    (back,) = documents(converted(there, source, target))
    assert exactly(back) == exactly(document)


@each_pair
@settings(max_examples=12)
@given(data=st.data())
def test_conversion_without_the_loss_record_lists_every_loss(source: str, target: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[source])
    written = translate(read_source(document, CATALOGS[source]), CATALOGS[target])
    back = without_loss_records(written.documents, CATALOGS[source], CATALOGS[target])
    for loss in written.losses:
        resolve(document, loss.path)
    assert not unlisted(document, back, written.losses)


@pytest.mark.parametrize("source", ["machine", "hub", "oxp", "mcp@2025-11-25"])
@settings(max_examples=examples(40))
@given(data=st.data(), text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=9))
def test_conversion_edited_description_wins_over_the_loss_record(source: str, data: st.DataObject, text: str) -> None:
    document = data.draw(DOCUMENTS[source])
    catalog, target = CATALOGS[source], CATALOGS["mcp@2026-07-28"]
    edited = [{**each, "description": text} for each in translate(read_source(document, catalog), target).documents]
    pieces = [restore(each, target, CATALOGS) for each in edited]
    items: list[Any] = list(split_document(document, catalog)[1])
    for before, piece, each in zip(items, pieces, edited, strict=True):
        if piece is None:  # nothing had to be carried
            tools = target.read(each)
            assert tools[0].description == text
            continue
        (item,) = piece.items
        if isinstance(before, dict):
            assert item["description"] == text
            assert exactly({**item, "description": 0}) == exactly({**before, "description": 0}), "the rest is restored"


@settings(max_examples=examples(60))
@given(document=MCP, name=NAMES, schema=schemas(references=False))
def test_conversion_edited_parameter_type_wins_over_the_loss_record(document: Any, name: str, schema: Any) -> None:
    document["inputSchema"].setdefault("properties", {})[name] = schema
    (machine,) = translate(read_source(document, CATALOGS["mcp@2026-07-28"]), CATALOGS["machine"]).documents
    (parameter,) = (each for each in machine["capabilities"][0]["parameters"] if each["name"] == name)
    parameter["type"] = "string" if parameter["type"] == "boolean" else "boolean"
    (back,) = documents(converted([machine], "mcp@2026-07-28", "machine"))
    part = back["inputSchema"]["properties"][name]
    assert part["type"] == parameter["type"]
    assert part.keys() <= {"type", "description", "default"}, "nothing of the other type is left"
