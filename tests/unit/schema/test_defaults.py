"""What a tool sees of what was left out, at any depth; and that nobody claims to know what may be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import nested
from toolhall.schema.defaults import MAX_STEPS, UNKNOWN, with_defaults

MODE: dict[str, Any] = {"type": "object", "properties": {"mode": {"type": "string", "default": "delete"}}}
NULL = {"type": "null"}
DEFINED = {"$defs": {"Mode": MODE, "word": {"default": "delete"}}}


def about(member: Any, **beside: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"o": member}, **DEFINED, **beside}


def test_with_defaults_fills_certain_defaults(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], Any, Any]] = [
        (about(MODE), {"o": {}}, {"o": {"mode": "delete"}}),
        (about(MODE), {"o": {"mode": "x"}}, {"o": {"mode": "x"}}),
        (about(MODE), {}, {}),
        (about(MODE | {"default": {}}), {}, {"o": {"mode": "delete"}}),
        (about({"$ref": "#/$defs/Mode"}), {"o": {}}, {"o": {"mode": "delete"}}),
        (about({"$ref": "#/$defs/word"}), {}, {"o": "delete"}),
        (about({"allOf": [{"$ref": "#/$defs/Mode"}, {"type": "object"}]}), {"o": {}}, {"o": {"mode": "delete"}}),
        (about({}, allOf=[about(MODE)]), {"o": {}}, {"o": {"mode": "delete"}}),
        (about({"items": MODE}), {"o": [{}, {"mode": "x"}]}, {"o": [{"mode": "delete"}, {"mode": "x"}]}),
        (about({"prefixItems": [{}, MODE]}), {"o": [{}, {}]}, {"o": [{}, {"mode": "delete"}]}),
        (about({"prefixItems": [{}], "items": MODE}), {"o": [{}, {}]}, {"o": [{}, {"mode": "delete"}]}),
        (about({"items": [{}], "additionalItems": MODE}), {"o": [{}, {}]}, {"o": [{}, {"mode": "delete"}]}),
        (about({"additionalProperties": MODE}), {"o": {"a": {}}}, {"o": {"a": {"mode": "delete"}}}),
        (about({"anyOf": [MODE, NULL]}), {"o": {}}, {"o": {"mode": "delete"}}),
        (about({"anyOf": [{"$ref": "#/$defs/Mode"}, NULL], "default": None}), {}, {"o": None}),
        (about(True), {"o": {}}, {"o": {}}),
    ]
    for schema, arguments, seen in rows:
        with subtests.test(repr((schema, arguments, seen))):
            assert with_defaults(schema, arguments) == seen


def test_with_defaults_uncertain_default_is_unknown(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [
        {"anyOf": [MODE, {"type": "object"}]},
        {"oneOf": [MODE, {}]},
        {"if": {"minProperties": 1}, "then": MODE},
        {"if": {"minProperties": 1}, "else": {"$ref": "#/$defs/Mode"}},
        {"dependentSchemas": {"x": MODE}},
        {"$dynamicRef": "#/$defs/Mode"},
        {**MODE, "allOf": [{"properties": {"mode": {"default": "keep"}}}]},
        {**MODE, "anyOf": [{"properties": {"mode": {"default": "keep"}}}, {}]},
        {"properties": {"mode": {"anyOf": [{"default": "delete"}, {"default": "keep"}]}}},
    ]
    for member in rows:
        with subtests.test(repr(member)):
            assert with_defaults(about(member), {"o": {}}) == {"o": {"mode": UNKNOWN}}
            assert with_defaults(about(member), {"o": {"mode": "x"}}) == {"o": {"mode": "x"}}


def test_with_defaults_does_not_match_patterns() -> None:
    schema = about({"patternProperties": {"(a+)+$": MODE}})
    assert with_defaults(schema, {"o": {"a": {}}}) == {"o": {"a": {"mode": UNKNOWN}}}


def test_with_defaults_endless_defaults_are_cut_off(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["a", "ab", "abcdefgh"]
    for names in rows:
        with subtests.test(repr(names)):
            endless = {"properties": {name: {"$ref": "#", "default": {}} for name in names}}
            seen = with_defaults(endless, {})
            assert "UNKNOWN" in repr(seen)
            assert repr(seen).count("{") <= 10 * MAX_STEPS


def test_with_defaults_too_deep_is_unknown() -> None:
    schema = {"properties": {"a": {"$ref": "#"}, "mode": {"default": "delete"}}}
    seen = with_defaults(schema, nested(200))
    assert (seen["mode"], seen["a"]["mode"]) == ("delete", "delete")
    assert "UNKNOWN" in repr(seen)


def test_with_defaults_schema_without_defaults_returns_arguments() -> None:
    arguments = nested(500)
    assert with_defaults({"properties": {"a": {"$ref": "#"}}}, arguments) is arguments


odd: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["#", "#/$defs/x", "object"]),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["properties", "items", "anyOf", "allOf", "$ref", "default", "type", "a", "prefixItems", "if"]
            ),
            parts,
            max_size=4,
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["properties", "allOf", "$ref", "$defs", "anyOf"]), odd), odd)
def test_with_defaults_never_changes_sent_values(schema: Any, sent: Any) -> None:
    assert with_defaults(schema, {"a": 1, "b": "x"}).items() >= {("a", 1), ("b", "x")}
    assert "a" in with_defaults(schema, {"a": sent})
