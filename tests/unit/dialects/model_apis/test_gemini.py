"""Gemini function declarations."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.tables import each_row
from tests.unit.dialects.model_apis.api_checks import GEMINI_NAME, accepts, as_json_schema, check_gemini, check_losses
from tests.unit.dialects.model_apis.sample_tools import FIND, FORECAST, MOVE, NOTHING, SAMPLES, TREE, corpora, tool
from tests.unit.schema.random_schemas import closed_choices, fitting, roots
from toolhall.dialects.base import Loss
from toolhall.dialects.model_apis import gemini
from toolhall.dialects.model_apis.gemini import TARGET
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.adapt import adapt_schema

NEARLY_ANYTHING = [
    {"type": "string", "nullable": True},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object"},
]
ANY_LIST = {"type": "array", "items": {"anyOf": NEARLY_ANYTHING}}
ANYTHING = {"anyOf": [*NEARLY_ANYTHING, ANY_LIST]}


def made(part: Json) -> JsonObject:
    result: JsonObject = adapt_schema({"type": "object", "properties": {"a": part}}, TARGET).schema["properties"]["a"]
    return result


def test_gemini_declaration() -> None:
    (document,) = gemini.write((FORECAST,)).documents
    assert document == {
        "name": "Weather_forecast",
        "description": "Forecast the weather for a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name", "minLength": 1},
                "days": {"type": "integer", "default": 3, "minimum": 1, "maximum": 14},
                "unit": {"type": "string", "enum": ["celsius"]},
            },
            "required": ["city"],
        },
    }


def test_gemini_losses_are_complete() -> None:
    written = gemini.write((MOVE,))
    assert written.documents[0]["parameters"]["properties"] == {
        "to": {"type": "string", "nullable": True, "title": "To", "description": "Format: uri."},
        "mode": {"type": "string", "enum": ["copy", "link"]},
        "size": {"anyOf": [{"type": "integer", "description": "How much."}, {"type": "string"}]},
        "level": {"type": "integer", "nullable": True, "description": "One of: 1, 2."},
        "labels": {"type": "object", "description": 'Any other property: {"type":"string"}.'},
        "parts": ANY_LIST,
        "anything": ANYTHING,
    }
    assert written.losses == [
        Loss("/inputSchema/properties/to/anyOf/0/format", "gemini cannot express this; it is in the description"),
        Loss("/inputSchema/properties/to/default", "gemini cannot express this"),
        Loss("/inputSchema/properties/mode/oneOf/0/title", "gemini cannot describe one value of a list"),
        Loss("/inputSchema/properties/level/enum", "gemini cannot express this; it is in the description"),
        Loss(
            "/inputSchema/properties/labels/additionalProperties",
            "gemini cannot express this; it is in the description",
        ),
        Loss("/inputSchema/properties/parts", "gemini needs types here: lists in this list cannot be expressed"),
        Loss("/inputSchema/properties/anything", "gemini needs types here: lists in this list cannot be expressed"),
    ]


def test_gemini_tool_without_parameters() -> None:
    written = gemini.write((NOTHING,))
    assert written.documents == [{"name": "System_get_timestamp", "description": "System_get_timestamp"}]
    assert [loss.path for loss in written.losses] == ["/outputSchema"]


def test_gemini_open_object_has_parameters() -> None:
    (document,) = gemini.write((tool({"type": "object", "additionalProperties": True}),)).documents
    assert document["parameters"] == {"type": "object"}


def test_gemini_recursion_is_cut() -> None:
    (document,) = gemini.write((TREE,)).documents
    tree = document["parameters"]["properties"]["tree"]
    assert tree["properties"]["branches"] == {"type": "array", "items": {"type": "object"}}


def test_gemini_root_alternatives_become_one_object() -> None:
    (document,) = gemini.write((FIND,)).documents
    assert document["parameters"]["properties"]["by"] == {"type": "string", "enum": ["id", "mail"]}
    assert document["description"].endswith("Give exactly one of these: by and id, or by and mail.")


@each_row(
    ("part", "expected"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": "null"}, {"type": "string", "nullable": True}),
        ({"type": ["number", "integer"]}, {"type": "number"}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        ({"enum": ["a", ""]}, {"type": "string", "description": 'One of: "a", "".'}),
        ({"type": "string", "enum": ["a", 1]}, {"type": "string", "enum": ["a"]}),
        ({"type": "number", "exclusiveMinimum": 1.5},
         {"type": "number", "minimum": 1.5, "description": "Greater than 1.5."}),
        ({"type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4},
         {"type": "integer", "minimum": 2, "maximum": 3}),
        ({"type": "integer", "format": "int64"}, {"type": "integer", "format": "int64"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"properties": {"b": {"type": "string"}}},
         {"type": "object", "properties": {"b": {"type": "string"}}}),
        ({"type": "object", "properties": {"b": False}, "required": ["c"]},
         {"type": "object", "description": 'Also required: "c".'}),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2.0},
         {"type": "array", "items": {"type": "string"}, "minItems": 2, "description": "All items differ."}),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
         {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "minItems": 2, "maxItems": 2,
          "description": 'The first items, in order: {"type":"integer"}, {"type":"string"}.'}),
        ({"allOf": [{"type": "string"}, {"minLength": 1}], "description": "D."},
         {"type": "string", "minLength": 1, "description": "D."}),
        ({"anyOf": [{"type": "string"}, {"anyOf": [{"type": "boolean"}, {"type": "null"}]}], "default": "x"},
         {"anyOf": [{"type": "string", "description": "Default: x."}, {"type": "boolean", "nullable": True}]}),
        ({"type": "object", "properties": {"b": {}, "c": {}}, "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
         {"type": "object", "properties": {"b": ANYTHING, "c": ANYTHING},
          "description": "Give at least one of these: b, or c."}),
        ({"type": "string", "examples": ["a", "b"], "deprecated": True, "x-mine": 1},
         {"type": "string", "description": 'Examples: "a", "b". Deprecated.'}),
    ],
)  # fmt: skip
def test_gemini_schema_by_keyword(part: JsonObject, expected: JsonObject) -> None:
    found = made(part)
    check_gemini(found)
    assert found == expected


def test_gemini_names_start_with_a_letter() -> None:
    written = gemini.write((tool({}, "1st"), tool({}, "-x"), tool({}, "a.b"), tool({}, "ok-1")))
    names = [document["name"] for document in written.documents]
    assert all(GEMINI_NAME.fullmatch(name) and "." not in name for name in names)
    assert names[3] == "ok-1"
    assert names[0].startswith("_1st_")


many = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@many
@given(st.data(), roots() | closed_choices())
def test_gemini_schema_accepts_what_the_original_does(data: st.DataObject, schema: JsonObject) -> None:
    """But for lists right inside lists that may hold anything: Gemini cannot say that."""
    written = gemini.write((tool(schema),))
    parameters = written.documents[0].get("parameters", {"type": "object"})
    check_gemini(parameters)
    check_losses(tool(schema), written.losses)
    before, after = accepts(schema), accepts(as_json_schema(parameters))
    for _ in range(3):
        value = fitting(data.draw, schema, schema)
        assert lists_in_lists(value) or after.is_valid(value) or not before.is_valid(value)


def lists_in_lists(value: Json) -> bool:
    inner = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    return any((isinstance(value, list) and isinstance(each, list)) or lists_in_lists(each) for each in inner)


@each_row("of", SAMPLES)
def test_gemini_accepts_samples(of: Tool) -> None:
    written = gemini.write((of,))
    check_gemini(written.documents[0].get("parameters", {"type": "object"}))
    check_losses(of, written.losses)


def test_gemini_accepts_corpora() -> None:
    for of in corpora() or pytest.skip("no corpora here"):
        (document,) = (written := gemini.write((of,))).documents
        assert GEMINI_NAME.fullmatch(document["name"])
        assert document["description"]
        check_gemini(document.get("parameters", {"type": "object"}))
        check_losses(of, written.losses)
