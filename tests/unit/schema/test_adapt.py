"""Reshaping for targets that accept less: nothing that was accepted is refused, and every loss is reported."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.dialects.model_apis.api_checks import (
    accepts,
    check_anthropic,
    check_gemini,
    check_losses,
    check_openai,
    check_strict,
)
from tests.unit.dialects.model_apis.sample_tools import tool
from tests.unit.schema.random_schemas import closed_choices, fitting, garbage, old_roots, roots
from toolhall.dialects.model_apis.anthropic import TARGET as ANTHROPIC
from toolhall.dialects.model_apis.function import schema_losses
from toolhall.dialects.model_apis.gemini import TARGET as GEMINI
from toolhall.dialects.model_apis.openai import LOOSE_TARGET
from toolhall.dialects.model_apis.openai_strict import TARGET as STRICT
from toolhall.dialects.model_apis.openai_strict import NotStrict, strict_parameters
from toolhall.dialects.openapi.catalog import TARGET as OPENAPI
from toolhall.model.json import Json, JsonObject
from toolhall.schema.adapt import (
    MAX_INLINED_REFERENCES,
    PLAIN_SCHEMA,
    SchemaLoss,
    SchemaTarget,
    adapt_schema,
    has_references,
    without_references,
)
from toolhall.schema.merge import are_disjoint, intersect, unite

TARGETS = [LOOSE_TARGET, ANTHROPIC, OPENAPI, PLAIN_SCHEMA]
each_target = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
many = settings(max_examples=examples(100), suppress_health_check=SLOW)
some = settings(max_examples=examples(40), suppress_health_check=SLOW)

NODE: JsonObject = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


def shaped(schema: JsonObject, target: SchemaTarget = PLAIN_SCHEMA) -> JsonObject:
    return adapt_schema(schema, target).schema


def lost(schema: JsonObject, target: SchemaTarget = PLAIN_SCHEMA) -> list[str]:
    return [each.path for each in adapt_schema(schema, target).losses]


# --- nothing that was accepted is refused -----------------------------------------------------------------------------


@each_target
@many
@given(st.data(), roots())
def test_adapted_schema_accepts_what_the_source_accepts(
    target: SchemaTarget, data: st.DataObject, schema: JsonObject
) -> None:
    reshaped = adapt_schema(schema, target)
    jsonschema_rs.meta.validate(reshaped.schema)
    check_losses(tool(schema), list(schema_losses(reshaped)))
    before, after = accepts(schema), accepts(reshaped.schema)
    for _ in range(3):
        value = fitting(data.draw, schema, schema)
        if before.is_valid(value):
            assert after.is_valid(value)
        elif not any(each.widens for each in reshaped.losses):
            assert not after.is_valid(value), "what accepts more must be reported"


@many
@given(st.data(), closed_choices())
def test_root_alternatives_merged_accept_what_the_source_accepts(data: st.DataObject, schema: JsonObject) -> None:
    before, after = accepts(schema), accepts(shaped(schema, LOOSE_TARGET))
    for _ in range(3):
        value = fitting(data.draw, schema, schema)
        assert after.is_valid(value) or not before.is_valid(value)


@many
@given(st.data(), old_roots())
def test_upgraded_drafts_accept_the_same(data: st.DataObject, schema: JsonObject) -> None:
    reshaped = adapt_schema(schema, OPENAPI)
    jsonschema_rs.meta.validate(reshaped.schema)
    before = jsonschema_rs.Draft7Validator(schema, validate_formats=False)
    after = accepts(reshaped.schema)
    for _ in range(3):
        value = fitting(data.draw, schema, schema)
        assert after.is_valid(value) is before.is_valid(value)


JUDGES: dict[str, tuple[SchemaTarget, Callable[[JsonObject], object]]] = {
    "openai": (LOOSE_TARGET, check_openai),
    "anthropic": (ANTHROPIC, check_anthropic),
    "gemini": (GEMINI, check_gemini),
    "openapi": (OPENAPI, jsonschema_rs.meta.validate),
    "openai@strict": (STRICT, bool),
    "plain": (PLAIN_SCHEMA, jsonschema_rs.meta.validate),
}


@pytest.mark.parametrize("name", JUDGES)
@some
@example(schema={"not": [], "if": {}, "then": [], "allOf": [{"$schema": "#"}]})
@given(garbage())
def test_any_input_gives_a_valid_schema(name: str, schema: JsonObject) -> None:
    target, judge = JUDGES[name]
    reshaped = adapt_schema(schema, target)
    judge(reshaped.schema)
    check_losses(tool(schema), list(schema_losses(reshaped)))


@some
@given(garbage())
def test_any_input_is_strict_or_refused(schema: JsonObject) -> None:
    with suppress(NotStrict):
        check_strict(strict_parameters(schema).schema)


# --- references -------------------------------------------------------------------------------------------------------


def test_references_are_inlined() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "null"}}}
    assert without_references(schema) == {"properties": {"a": {"type": "null"}}}


def test_reference_siblings_are_merged() -> None:
    described = {"$ref": "#/$defs/A", "description": "mine"}
    narrowed = {"$ref": "#/$defs/A", "minLength": 5, "type": "string"}
    schema = {"properties": {"a": described, "b": narrowed}, "$defs": {"A": {"type": "string", "minLength": 3}}}
    assert shaped(schema)["properties"] == {
        "a": {"type": "string", "minLength": 3, "description": "mine"},
        "b": {"type": "string", "minLength": 5},
    }


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#/$defs/a~1b%25", {"const": 1}),
        ("#named", {"$anchor": "named", "const": 2}),
        ("#/properties/list/prefixItems/1", {"const": 3}),
        ("https://example.com/schema#named", {"const": 2}),
    ],
)
def test_references_of_every_form_are_resolved(reference: str, found: JsonObject) -> None:
    schema = {
        "$id": "https://example.com/schema",
        "properties": {"a": {"$ref": reference}, "list": {"prefixItems": [{}, {"const": 3}]}},
        "$defs": {"a/b%": {"const": 1}, "other": {"$anchor": "named", "const": 2}},
    }
    assert shaped(schema)["properties"]["a"] == {"const": found["const"]}


@pytest.mark.parametrize(
    "reference", ["#/$defs/none", "#none", "https://example.com/other", "other.json#/a", "#/$defs"]
)
def test_reference_without_target_allows_anything(reference: str) -> None:
    schema = {"properties": {"a": {"$ref": reference, "title": "A"}}, "required": ["a"]}
    assert shaped(schema)["properties"] == {"a": {"title": "A"}}
    assert lost(schema) == ["/properties/a/$ref"]


def test_dynamic_references_are_resolved_as_plain_ones() -> None:
    schema = {"properties": {"a": {"$dynamicRef": "#x"}}, "$defs": {"X": {"$dynamicAnchor": "x", "type": "null"}}}
    assert without_references(schema) == {"properties": {"a": {"type": "null"}}}


def test_recursion_is_cut_for_targets_without_references() -> None:
    schema = {"properties": {"node": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}}
    assert shaped(schema) == {
        "properties": {"node": {"type": "object", "properties": {"next": {"type": "object"}}}},
    }
    assert lost(schema) == ["/$defs/Node/properties/next/$ref"]


def test_recursion_is_kept_for_targets_with_references() -> None:
    schema = {"properties": {"node": {"$ref": "#/$defs/Node"}, "self": {"$ref": "#"}}, "$defs": {"Node": NODE}}
    result = adapt_schema(schema, OPENAPI, "#/components/schemas/x")
    assert result.losses == []
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/x/$defs/Node"}}}
    assert result.schema == {
        "properties": {"node": node, "self": {"$ref": "#/components/schemas/x"}},
        "$defs": {"Node": node},
    }


def test_definitions_of_the_same_name_stay_apart() -> None:
    loops = {key: {"$defs": {"N": {"items": {"$ref": f"#/$defs/{key}/$defs/N"}, "title": key}}} for key in "ab"}
    schema = {"properties": {key: {"$ref": f"#/$defs/{key}/$defs/N"} for key in "ab"}, "$defs": loops}
    assert {name: part["title"] for name, part in shaped(schema, OPENAPI)["$defs"].items()} == {"N": "a", "N_2": "b"}


@each_target
def test_exponential_schema_stays_small(target: SchemaTarget) -> None:
    levels: dict[str, Any] = {
        f"L{n}": {"properties": {k: {"$ref": f"#/$defs/L{n + 1}"} for k in "abcd"}} for n in range(30)
    }
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/L0"}},
        "$defs": {**levels, "L30": {"type": "string"}},
    }
    result = adapt_schema(schema, target)
    assert len(str(result.schema)) < 500 * MAX_INLINED_REFERENCES
    accepts(result.schema)


@each_target
def test_long_reference_chain_ends(target: SchemaTarget) -> None:
    chain: dict[str, Any] = {f"L{n}": {"properties": {"a": {"$ref": f"#/$defs/L{n + 1}"}}} for n in range(2_000)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/L0"}}, "$defs": {**chain, "L2000": {}}}
    adapt_schema(schema, target)


def test_members_named_like_keywords_are_kept() -> None:
    members: JsonObject = {"$ref": {"type": "string"}, "definitions": {"type": "object"}}
    schema = {"type": "object", "properties": members}
    assert not has_references(schema)
    assert without_references(schema) is schema
    referring = {
        "properties": {**members, "a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"enum": [{"$ref": 1}]}},
    }
    assert without_references(referring)["properties"] == {**members, "a": {"enum": [{"$ref": 1}]}}


# --- what is not quite a schema ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "mended", "path"),
    [
        ({"type": "float"}, {"type": "number"}, "/type"),
        ({"type": ["str", "none"]}, {"type": ["string", "null"]}, "/type"),
        ({"type": "any"}, {}, "/type"),
        ({"type": ["string", "any"]}, {}, "/type"),
        ({"required": True, "type": "string"}, {"type": "string"}, "/required"),
        ({"required": ["a", "a", 1]}, {"required": ["a"]}, "/required"),
        ({"enum": []}, {}, "/enum"),
        ({"description": None}, {}, "/description"),
        ({"minLength": -1}, {}, "/minLength"),
        ({"minimum": True}, {}, "/minimum"),
        ({"properties": []}, {}, "/properties"),
        ({"anyOf": []}, {}, "/anyOf"),
        ({"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}, None),
        (5, {}, ""),
        (None, {}, ""),
        (True, {}, None),
        (False, {"not": {}}, None),
    ],
)
def test_invalid_keyword_values_are_repaired_or_dropped(part: Json, mended: JsonObject, path: str | None) -> None:
    result = adapt_schema({"properties": {"a": part}}, PLAIN_SCHEMA)
    assert result.schema["properties"]["a"] == mended
    assert [each.path for each in result.losses] == ([] if path is None else [f"/properties/a{path}"])


def test_deep_schema_is_cut() -> None:
    schema: JsonObject = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    assert [each.reason for each in adapt_schema(schema, PLAIN_SCHEMA).losses] == ["nested too deeply to be described"]


def test_losses_are_reported_once() -> None:
    schema = {"properties": {key: {"$ref": "#/$defs/A"} for key in "abc"}, "$defs": {"A": {"type": "float"}}}
    reason = "the value of type is not valid JSON Schema; the nearest is written"
    assert adapt_schema(schema, PLAIN_SCHEMA).losses == [SchemaLoss("/$defs/A/type", "type", reason)]


# --- two schemas as one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ({"type": "number"}, {"type": ["integer", "string"]}, {"type": "integer"}),
        ({"type": "string"}, {"type": "null"}, None),
        ({"minimum": 1, "maxLength": 3}, {"minimum": 2, "maxLength": 5}, {"minimum": 2, "maxLength": 3}),
        ({"enum": [1, 2, True]}, {"const": 1}, {"enum": [1]}),
        ({"pattern": "a"}, {"pattern": "b"}, None),
        ({"required": ["a"]}, {"required": ["b", "a"]}, {"required": ["a", "b"]}),
        ({"description": "A."}, {"description": "B."}, {"description": "A. B."}),
        ({"items": {"type": "string"}}, {"items": {"minLength": 1}}, {"items": {"type": "string", "minLength": 1}}),
        ({"items": {"type": "string"}}, {"prefixItems": [{}]}, None),
        ({"if": {}, "then": {}}, {"else": {}}, None),
        ({"unevaluatedProperties": False}, {"properties": {}}, None),
        ({"properties": {"a": {"pattern": "a"}}}, {"properties": {"a": {"pattern": "b"}}},
         {"properties": {"a": {"allOf": [{"pattern": "a"}, {"pattern": "b"}]}}}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"properties": {"b": {}}},
         {"properties": {"a": {}}, "additionalProperties": False}),
        ({"additionalProperties": {"type": "string"}}, {"properties": {"b": {"minLength": 1}}},
         {"additionalProperties": {"type": "string"}, "properties": {"b": {"type": "string", "minLength": 1}}}),
    ],
)  # fmt: skip
def test_intersect_of_two_schemas(one: JsonObject, other: JsonObject, merged: JsonObject | None) -> None:
    assert intersect(one, other) == merged


def test_unite_of_schemas() -> None:
    assert unite([{"const": "a", "type": "string"}, {"enum": ["b", "a"], "type": "string"}]) == {
        "type": "string",
        "enum": ["a", "b"],
    }
    assert unite([{"type": "string"}, {"type": "string"}]) == {"type": "string"}
    assert unite([{"type": "string"}, {"const": 1}]) == {"anyOf": [{"type": "string"}, {"const": 1}]}


def test_are_disjoint_of_two_schemas() -> None:
    cat, dog = (
        {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in ("cat", "dog")
    )
    assert are_disjoint(cat, dog)
    assert not are_disjoint(cat, {**dog, "required": []})
    assert are_disjoint({"type": "string"}, {"type": ["null", "integer"]})
    assert not are_disjoint({"type": "integer"}, {"type": "number"})
    assert not are_disjoint({"enum": [1]}, {"enum": [1.0]})
    assert are_disjoint({"enum": [1]}, {"enum": [True]})
