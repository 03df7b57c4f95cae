"""`x-mcp-header`: which parameters may be repeated in headers (MCP 2026-07-28, requirement M-34)."""

import pytest

from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import HeaderParameter
from toolhall.schema.annotations import header_parameters
from toolhall.schema.cost import BadSchema


def schema_of(**properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties}


def marked(header: Json, **keywords: Json) -> JsonObject:
    return {"type": "string", "x-mcp-header": header, **keywords}


def test_header_parameters_without_keyword_is_empty() -> None:
    assert header_parameters(schema_of(a={"type": "string"})) == ()


def test_header_parameters_of_plain_properties(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["string", "integer", "boolean"]
    for kind in rows:
        with subtests.test(repr(kind)):
            assert header_parameters(schema_of(region=marked("Region", type=kind))) == (
                HeaderParameter("region", ("region",)),
            )


def test_header_parameters_of_nested_properties() -> None:
    inner = schema_of(region=marked("Region"))
    schema = schema_of(**{"a/b": inner, "plain": {"type": "number"}})
    assert header_parameters(schema) == (HeaderParameter("region", ("a/b", "region")),)


def test_header_parameters_several() -> None:
    found = header_parameters(schema_of(a=marked("A"), b=marked("B")))
    assert set(found) == {HeaderParameter("a", ("a",)), HeaderParameter("b", ("b",))}


def test_header_name_must_be_a_token(subtests: pytest.Subtests) -> None:
    rows: list[Json] = ["", "a b", "a:b", "ä", "a\n", "x" * 65, 3, None, ["a"], True, "a(b)"]
    for header in rows:
        match = "/properties/a/x-mcp-header: must be a header name"
        with subtests.test(repr(header)), pytest.raises(BadSchema, match=match):
            header_parameters(schema_of(a=marked(header)))


def test_header_parameter_type_must_be_primitive(subtests: pytest.Subtests) -> None:
    rows: list[Json] = ["number", "object", "array", "null", ["string", "null"], None]
    for kind in rows:
        match = "the property's type must be string, integer or boolean"
        with subtests.test(repr(kind)), pytest.raises(BadSchema, match=match):
            header_parameters(schema_of(a=marked("A", type=kind)))


def test_header_parameter_without_type_is_refused() -> None:
    with pytest.raises(BadSchema, match="the property's type must be string, integer or boolean"):
        header_parameters(schema_of(a={"enum": ["x"], "x-mcp-header": "A"}))


def test_header_name_duplicate_in_other_case_is_refused() -> None:
    with pytest.raises(BadSchema, match="is used twice"):
        header_parameters(schema_of(a=marked("Region"), b=marked("rEGION")))


MARKED = marked("A")
ELSEWHERE: dict[str, JsonObject] = {
    "the root": {"type": "object", "x-mcp-header": "A"},
    "items": schema_of(a={"type": "array", "items": MARKED}),
    "additionalProperties": {"additionalProperties": MARKED},
    "patternProperties": {"patternProperties": {"a": MARKED}},
    "allOf": {"allOf": [schema_of(a=MARKED)]},
    "anyOf": schema_of(a={"anyOf": [MARKED, {"type": "null"}]}),
    "then": {"if": {}, "then": schema_of(a=MARKED)},
    "not": {"not": schema_of(a=MARKED)},
    "$defs": {"$defs": {"a": MARKED}, "properties": {"a": {"$ref": "#/$defs/a"}}},
    "dependentSchemas": {"dependentSchemas": {"a": schema_of(a=MARKED)}},
}


def test_header_parameter_outside_properties_is_refused(subtests: pytest.Subtests) -> None:
    for place, schema in ELSEWHERE.items():
        with (
            subtests.test(repr(place)),
            pytest.raises(
                BadSchema, match="only a property reached through `properties` alone can be sent as a header"
            ),
        ):
            header_parameters(schema)


def test_header_parameter_with_secret_name_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["password", "api_key", "apiKey", "access_token", "client_secret", "Authorization", "credential"]
    for name in rows:
        with subtests.test(repr(name)):
            with pytest.raises(BadSchema, match="looks like a secret"):
                header_parameters(schema_of(**{name: marked("A")}))
            with pytest.raises(BadSchema, match="looks like a secret"):
                header_parameters(schema_of(a=marked(name)))


def test_header_parameter_with_harmless_name_is_accepted(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["passenger", "compass", "region", "passport_country"]
    for name in rows:
        with subtests.test(repr(name)):
            assert header_parameters(schema_of(**{name: marked("A")}))


def test_all_header_problems_are_listed() -> None:
    with pytest.raises(BadSchema) as caught:
        header_parameters(schema_of(a=marked("bad name"), b=marked("B", type="number")))
    assert len(caught.value.problems) == 2
