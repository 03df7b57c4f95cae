"""The output schema that each revision publishes."""

import pytest

from tests.tables import each_row
from tests.unit.builders import tool_named
from toolhall.dialects.mcp.catalog import OutputForm, output_form
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    REVISIONS,
    Revision,
)
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Output
from toolhall.schema.validator import Validator

OBJECT: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
ARRAY: JsonObject = {"type": "array", "items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "integer"}}}
all_revisions = pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
older = pytest.mark.parametrize(
    "revision", [REVISION_2025_06_18, REVISION_2025_11_25], ids=lambda revision: revision.name
)


def shown(output: Output, revision: Revision) -> OutputForm:
    return output_form(tool_named("pick", output=output), revision)


@all_revisions
def test_output_form_none_and_plain_text_have_no_schema(revision: Revision) -> None:
    for output in (Output("none"), Output("schema", {"type": "string"})):
        assert shown(output, revision) == OutputForm(None, structured=False)


@all_revisions
def test_output_form_unstated_is_structured_without_schema(revision: Revision) -> None:
    assert shown(Output(), revision) == OutputForm(None, structured=True)


@all_revisions
def test_output_form_object_is_unchanged(revision: Revision) -> None:
    assert shown(Output("schema", OBJECT), revision) == OutputForm(OBJECT, structured=True)


@each_row("schema", [ARRAY, {"type": "integer"}, {}, {"anyOf": [OBJECT, {"type": "null"}]}])
def test_output_form_newest_revision_allows_any_schema(schema: JsonObject) -> None:
    assert shown(Output("schema", schema), REVISION_2026_07_28) == OutputForm(schema, structured=True)


@older
def test_output_form_older_revisions_wrap(revision: Revision) -> None:
    found = shown(Output("schema", ARRAY), revision)
    assert found == OutputForm(ARRAY, structured=True, wrapped=True)
    assert found.published == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        "required": ["result"],
        "$defs": {"A": {"type": "integer"}},
    }


@older
def test_output_form_wrapper_keeps_root_keywords(revision: Revision) -> None:
    draft7 = "http://json-schema.org/draft-07/schema#"
    found = shown(Output("schema", {"$schema": draft7, "type": "integer"}), revision).published
    assert found == {
        "$schema": draft7,
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }


@older
def test_output_form_union_is_wrapped(revision: Revision) -> None:
    assert shown(Output("schema", {"anyOf": [OBJECT, {"type": "null"}]}), revision).wrapped


LISTS: list[JsonObject] = [
    {"type": "array", "items": {"$ref": "#"}},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"$ref": "#/prefixItems/0"}},
    {
        "$id": "https://example.org/a",
        "type": "array",
        "items": {"$ref": "#/$defs/A"},
        "$defs": {"A": {"items": {"$ref": "#"}}},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": {"$ref": "#/definitions/A"},
        "definitions": {"A": {"type": "integer"}},
    },
    {"type": "array", "items": {"$ref": "#named"}, "$defs": {"A": {"$anchor": "named", "type": "integer"}}},
]


@older
@pytest.mark.parametrize("schema", LISTS, ids=str)
def test_output_form_wrapper_rebases_references(revision: Revision, schema: JsonObject) -> None:
    plain, published = Validator(schema), shown(Output("schema", schema), revision).published
    assert published is not None
    wrapped = Validator(published)
    values: list[Json] = [[], [1], [[]], [[1]], ["x"], [1, 2], [1, "x"], [[["x"]]], 3]
    for value in values:
        assert wrapped.accepts({"result": value}) == plain.accepts(value), value


@all_revisions
def test_output_form_unwrapped_schema_is_same_object(revision: Revision) -> None:
    assert shown(Output("schema", OBJECT), revision).published is OBJECT
    assert shown(Output(), revision).published is None
