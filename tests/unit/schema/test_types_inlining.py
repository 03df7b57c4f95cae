"""References replaced by what they refer to."""

from toolhall.model.json import JsonObject
from toolhall.schema.types import MAX_INLINED, hoist_definitions, inline_references


def test_inline_replaces_reference_and_drops_definition() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    assert inline_references(schema) == {"properties": {"a": {"type": "string"}}}


def test_inline_siblings_override_the_target() -> None:
    schema = {"$ref": "#/$defs/A", "description": "mine", "$defs": {"A": {"type": "string", "description": "its"}}}
    assert inline_references(schema) == {"type": "string", "description": "mine"}


def test_inline_replaces_nested_references() -> None:
    schema = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "null"}}}
    assert inline_references(schema) == {"items": {"items": {"type": "null"}}}


def test_inline_keeps_recursive_definition() -> None:
    tree = {"properties": {"parts": {"items": {"$ref": "#/$defs/Tree"}}, "leaf": {"$ref": "#/$defs/Leaf"}}}
    schema = {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, "Leaf": {"type": "string"}}}
    assert inline_references(schema) == {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"properties": {"parts": {"items": {"$ref": "#/$defs/Tree"}}, "leaf": {"type": "string"}}}},
    }


def test_inline_keeps_mutually_recursive_definitions() -> None:
    definitions = {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}}
    schema = {"$ref": "#/$defs/A", "$defs": definitions}
    assert inline_references(schema) == schema


def test_inline_exponential_schema_keeps_references() -> None:
    definitions: JsonObject = {"d0": {"type": "string"}}
    for level in range(1, 12):
        definitions[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    schema = {"$ref": "#/$defs/d11", "$defs": definitions}
    assert inline_references(schema) is schema


def test_inline_up_to_the_limit() -> None:
    references = [{"$ref": "#/$defs/A"}] * (MAX_INLINED - 1)
    assert inline_references({"anyOf": references, "$defs": {"A": {}}}) == {"anyOf": [{}] * (MAX_INLINED - 1)}


def test_hoist_moves_embedded_definitions() -> None:
    definitions: JsonObject = {}
    embedded = {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "null"}}}
    assert hoist_definitions({"items": embedded}, definitions) == {"items": {"$ref": "#/$defs/A"}}
    assert definitions == {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "null"}}


def test_hoist_renames_on_name_clash() -> None:
    definitions: JsonObject = {"A": {"type": "string"}}
    embedded = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "null"}}}
    assert hoist_definitions(embedded, definitions) == {"items": {"$ref": "#/$defs/A_2"}}
    assert definitions == {"A": {"type": "string"}, "A_2": {"type": "null"}}


def test_hoist_renames_on_second_name_clash() -> None:
    definitions: JsonObject = {"A": {"type": "string"}, "A_2": {"type": "null"}}
    embedded = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "integer"}}}
    assert hoist_definitions(embedded, definitions) == {"items": {"$ref": "#/$defs/A_3"}}


def test_hoist_equal_definitions_are_merged() -> None:
    definitions: JsonObject = {"A": {"type": "string"}}
    embedded = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}}
    assert hoist_definitions(embedded, definitions) == {"items": {"$ref": "#/$defs/A"}}
    assert definitions == {"A": {"type": "string"}}
