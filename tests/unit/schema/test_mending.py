"""A schema that means one thing only is mended, with a note; one that means two is left as it is."""

from typing import Any

import pytest

from toolhall.model.json import JsonObject
from toolhall.schema.cost import BadSchema
from toolhall.schema.mending import mend_schema
from toolhall.schema.validator import Validator

DRAFT_07 = "http://json-schema.org/draft-07/schema#"


def mended(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """The schema, and where what was changed."""
    notes: list[str] = []
    return mend_schema(schema, lambda path, kind, _: notes.append(f"{path} {kind}")), notes


def prop(**schema: Any) -> JsonObject:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("written", "read", "notes"),
    [
        (
            prop(type="array", items=[{"type": "string"}]),
            prop(type="array", prefixItems=[{"type": "string"}]),
            ["draft"],
        ),
        (
            prop(type="array", items=[{}], additionalItems=False),
            prop(type="array", prefixItems=[{}], items=False),
            ["draft"],
        ),
        (prop(minimum=1, exclusiveMinimum=True), prop(exclusiveMinimum=1), ["draft"]),
        (prop(maximum=1, exclusiveMaximum=False), prop(maximum=1), ["draft"]),
        (
            prop(dependencies={"x": ["y"], "z": {"required": ["q"]}}),
            prop(dependentRequired={"x": ["y"]}, dependentSchemas={"z": {"required": ["q"]}}),
            ["draft"],
        ),
        (prop(type="string", description=None, enum=None), prop(type="string"), ["null", "null"]),
        (prop(required=["x", "x"]), prop(required=["x"]), ["required"]),
        (prop(type="FLOAT"), prop(type="number"), ["type"]),
        (prop(type=["str", "none"]), prop(type=["string", "null"]), ["type"]),
        (prop(type="any"), prop(), ["type"]),
        (prop(type="string", examples="x"), prop(type="string", examples=["x"]), ["annotation"]),
        (prop(type="string", title=3, deprecated="no"), prop(type="string"), ["annotation", "annotation"]),
        (prop(type="string", pattern="^(?!x)"), prop(type="string"), ["pattern"]),
        (prop(**{"$schema": DRAFT_07, "type": "string"}), prop(type="string"), ["draft"]),
        (prop(**{"$id": "x", "type": "string"}), prop(type="string"), ["draft"]),
        (
            {"type": "object", "properties": {"a": {"required": True}, "b": {"required": False}}},
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
            ["required", "required"],
        ),
    ],
)
def test_schema_that_means_one_thing_is_mended_with_a_note_for_each_change(
    written: JsonObject, read: JsonObject, notes: list[str]
) -> None:
    before = repr(written)
    found, noted = mended(written)
    assert found == read
    assert sorted(each.rpartition(" ")[2] for each in noted) == sorted(notes)
    assert repr(written) == before
    Validator(found)


@pytest.mark.parametrize("stated", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/schema"])
def test_schema_of_an_older_draft_is_read_as_draft_07(stated: str) -> None:
    """Its tuples and dependencies are known there, and stay as they were written."""
    tuples = {"type": "array", "items": [{"type": "string"}], "additionalItems": False}
    found, noted = mended({"$schema": stated, **prop(**tuples)})
    assert found == {"$schema": DRAFT_07, **prop(**tuples)}
    assert noted == ["/$schema draft"]
    assert not Validator(found).accepts({"a": ["x", 1]})


@pytest.mark.parametrize(
    "written",
    [
        prop(type="string", format="no-such-format"),
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/X"}}, "definitions": {"X": {"type": "string"}}},
        {"$schema": DRAFT_07, **prop(type="array", items=[{"type": "string"}])},
        prop(default=None, const=None),
    ],
)
def test_schema_that_is_usable_stays_as_it_is(written: JsonObject) -> None:
    assert mended(written) == (written, [])


@pytest.mark.parametrize(
    "written",
    [
        prop(type="tuple of str"),
        prop(**{"$ref": "https://example.com/schema.json"}),
        {"$schema": "https://example.com/dialect", "type": "object"},
        prop(minimum="1"),
    ],
)
def test_schema_that_means_two_things_is_left_to_be_refused(written: JsonObject) -> None:
    found, noted = mended(written)
    assert (found, noted) == (written, [])
    with pytest.raises(BadSchema):
        Validator(found)


def test_schema_nested_without_end_is_not_mended_further() -> None:
    deep: JsonObject = {"type": "FLOAT"}
    for _ in range(400):
        deep = {"properties": {"a": deep}}
    found, noted = mended(deep)
    assert noted == []
    with pytest.raises(BadSchema):
        Validator(found)
