"""References replaced by what they refer to."""

from toolhall.model.json import JsonObject
from toolhall.schema.types import MAX_INLINED, hoist_definitions, inline_references


def test_a_reference_is_replaced_and_the_definition_goes() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
    assert inline_references(schema) == {"properties": {"a": {"type": "string"}}}


def test_what_stands_beside_a_reference_wins() -> None:
    schema = {"$ref": "#/$defs/A", "description": "mine", "$defs": {"A": {"type": "string", "description": "its"}}}
    assert inline_references(schema) == {"type": "string", "description": "mine"}


def test_references_inside_definitions_are_replaced_too() -> None:
    schema = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "null"}}}
    assert inline_references(schema) == {"items": {"items": {"type": "null"}}}


def test_a_definition_that_refers_to_itself_stays() -> None:
    tree = {"properties": {"parts": {"items": {"$ref": "#/$defs/Tree"}}, "leaf": {"$ref": "#/$defs/Leaf"}}}
    schema = {"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, "Leaf": {"type": "string"}}}
    assert inline_references(schema) == {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"properties": {"parts": {"items": {"$ref": "#/$defs/Tree"}}, "leaf": {"type": "string"}}}},
    }


def test_definitions_that_refer_to_each_other_stay() -> None:
    definitions = {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}}
    schema = {"$ref": "#/$defs/A", "$defs": definitions}
    assert inline_references(schema) == schema


def test_a_schema_that_would_blow_up_keeps_its_references() -> None:
    definitions: JsonObject = {"d0": {"type": "string"}}
    for level in range(1, 12):
        definitions[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    schema = {"$ref": "#/$defs/d11", "$defs": definitions}
    assert inline_references(schema) is schema


def test_as_many_as_allowed_are_inlined() -> None:
    references = [{"$ref": "#/$defs/A"}] * (MAX_INLINED - 1)
    assert inline_references({"anyOf": references, "$defs": {"A": {}}}) == {"anyOf": [{}] * (MAX_INLINED - 1)}


def test_embedded_definitions_move_to_the_top() -> None:
    definitions: JsonObject = {}
    embedded = {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "null"}}}
    assert hoist_definitions({"items": embedded}, definitions) == {"items": {"$ref": "#/$defs/A"}}
    assert definitions == {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": "null"}}


def test_an_embedded_definition_of_a_taken_name_gets_another() -> None:
    definitions: JsonObject = {"A": {"type": "string"}}
    embedded = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "null"}}}
    assert hoist_definitions(embedded, definitions) == {"items": {"$ref": "#/$defs/A_2"}}
    assert definitions == {"A": {"type": "string"}, "A_2": {"type": "null"}}


def test_a_third_of_that_name_gets_a_third() -> None:
    definitions: JsonObject = {"A": {"type": "string"}, "A_2": {"type": "null"}}
    embedded = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "integer"}}}
    assert hoist_definitions(embedded, definitions) == {"items": {"$ref": "#/$defs/A_3"}}


def test_the_same_definition_twice_is_kept_once() -> None:
    definitions: JsonObject = {"A": {"type": "string"}}
    embedded = {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"type": "string"}}}
    assert hoist_definitions(embedded, definitions) == {"items": {"$ref": "#/$defs/A"}}
    assert definitions == {"A": {"type": "string"}}
