"""Where a schema holds other schemas."""

from toolhall.model.json import escape_pointer
from toolhall.schema.keywords import Subschema, subschemas


def test_escape_pointer() -> None:
    assert escape_pointer("a/b~c") == "a~1b~0c"


def test_subschemas_of_the_same_value_have_no_slot() -> None:
    schema = {"not": {}, "if": True, "allOf": [{}], "dependentSchemas": {"a": {}}}
    assert {(child.pointer, child.slot, child.applies) for child in subschemas(schema, "#")} == {
        ("#/not", None, True),
        ("#/if", None, True),
        ("#/allOf/0", None, True),
        ("#/dependentSchemas/a", None, True),
    }


def test_subschemas_of_a_part_have_a_slot() -> None:
    schema = {
        "properties": {"a/b": {}},
        "patternProperties": {"^x": True},
        "additionalProperties": False,
        "prefixItems": [{}, {}],
        "items": {},
    }
    assert {(child.pointer, child.slot) for child in subschemas(schema, "")} == {
        ("/properties/a~1b", "properties/a/b"),
        ("/patternProperties/^x", "patternProperties/^x"),
        ("/additionalProperties", "additionalProperties"),
        ("/prefixItems/0", "items/0"),
        ("/prefixItems/1", "items/1"),
        ("/items", "items"),
    }


def test_subschemas_of_definitions_do_not_apply() -> None:
    assert list(subschemas({"$defs": {"a": {"type": "string"}}}, "")) == [
        Subschema({"type": "string"}, "/$defs/a", None, applies=False)
    ]


def test_subschemas_ignores_data() -> None:
    schema = {
        "enum": [{}],
        "const": {},
        "default": {},
        "examples": [{}],
        "dependencies": {"a": ["b"]},
        "allOf": "x",
        "properties": 3,
    }
    assert list(subschemas(schema, "")) == []
