"""Which output schema a revision is shown."""

import pytest

from tests.unit.parts import tool_named
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
def test_nothing_is_shown_of_nothing_and_of_plain_text(revision: Revision) -> None:
    for output in (Output("none"), Output("schema", {"type": "string"})):
        assert shown(output, revision) == OutputForm(None, structured=False)


@all_revisions
def test_an_unstated_output_has_no_schema_but_may_be_structured(revision: Revision) -> None:
    assert shown(Output(), revision) == OutputForm(None, structured=True)


@all_revisions
def test_an_object_is_shown_as_it_is(revision: Revision) -> None:
    assert shown(Output("schema", OBJECT), revision) == OutputForm(OBJECT, structured=True)


@pytest.mark.parametrize("schema", [ARRAY, {"type": "integer"}, {}, {"anyOf": [OBJECT, {"type": "null"}]}], ids=str)
def test_the_newest_revision_takes_any_schema(schema: JsonObject) -> None:
    assert shown(Output("schema", schema), REVISION_2026_07_28) == OutputForm(schema, structured=True)


@older
def test_older_revisions_are_shown_a_wrapper(revision: Revision) -> None:
    found = shown(Output("schema", ARRAY), revision)
    assert found == OutputForm(ARRAY, structured=True, wrapped=True)
    assert found.published == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        "required": ["result"],
        "$defs": {"A": {"type": "integer"}},
    }


@older
def test_the_dialect_of_the_schema_stays_on_top(revision: Revision) -> None:
    draft7 = "http://json-schema.org/draft-07/schema#"
    found = shown(Output("schema", {"$schema": draft7, "type": "integer"}), revision).published
    assert found == {
        "$schema": draft7,
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }


@older
def test_a_union_is_wrapped_even_if_it_may_be_an_object(revision: Revision) -> None:
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
def test_references_still_lead_to_what_they_meant(revision: Revision, schema: JsonObject) -> None:
    plain, published = Validator(schema), shown(Output("schema", schema), revision).published
    assert published is not None
    wrapped = Validator(published)
    values: list[Json] = [[], [1], [[]], [[1]], ["x"], [1, 2], [1, "x"], [[["x"]]], 3]
    for value in values:
        assert wrapped.accepts({"result": value}) == plain.accepts(value), value


@all_revisions
def test_what_is_published_unwrapped_is_the_schema_itself(revision: Revision) -> None:
    assert shown(Output("schema", OBJECT), revision).published is OBJECT
    assert shown(Output(), revision).published is None
