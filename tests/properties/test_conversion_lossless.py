"""Properties of lossless reading and writing: a document of any dialect is written exactly as it was read."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.journeys import exactly
from tests.harness.seeds import examples
from tests.properties.definitions import DOCUMENTS, HUB, MACHINE, MCP
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.convert import lossless
from toolhall.model.json import apply_changes, diff_json, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from([1.0, "", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "type", "$ref", "a", "", "=a", "0", "~/"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_json_diff_applied_to_the_old_value_gives_the_new_one(old: Any, new: Any) -> None:
    before = encode(old)
    assert exactly(apply_changes(diff_json(old, new), old)) == exactly(new)
    assert encode(old) == before, "what is changed is a copy"


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_lossless_document_is_written_as_it_was_read(name: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[name])
    before = encode(document)
    tools = lossless.read(document, CATALOGS[name])
    assert exactly(lossless.write(tools, CATALOGS[name])) == exactly(document)
    assert exactly(lossless.write(tools, CATALOGS[name])) == exactly(document), "writing uses nothing up"
    assert encode(document) == before, "the document belongs to whoever gave it"


@settings(max_examples=examples(60))
@given(MCP, st.text(max_size=9))
def test_lossless_changed_description_wins_over_the_remainder(document: Any, text: str) -> None:
    catalog = CATALOGS["mcp@2026-07-28"]
    (tool,) = lossless.read(document, catalog)
    written = lossless.write((msgspec.structs.replace(tool, description=text),), catalog)
    assert exactly({**written, "description": None}) == exactly({**document, "description": None})
    assert written["description"] == text


@settings(max_examples=examples(60))
@given(MACHINE | HUB, st.data())
def test_lossless_toolkit_can_be_written_without_some_of_its_tools(document: Any, data: st.DataObject) -> None:
    name = "machine" if isinstance(document.get("capabilities"), list) else "hub"
    catalog = CATALOGS[name]
    tools = lossless.read(document, catalog)
    chosen = data.draw(st.lists(st.sampled_from(range(len(tools))), min_size=1, unique=True))
    written = lossless.write(tuple(tools[index] for index in chosen), catalog)
    holder, listed = written, document
    for key in catalog.tools_path(document):
        holder, listed = holder[key], listed[key]
    assert exactly(holder) == exactly([listed[index] for index in chosen])
    assert {key: written[key] for key in written if key.startswith("x-")} == {
        key: document[key] for key in document if key.startswith("x-")
    }
