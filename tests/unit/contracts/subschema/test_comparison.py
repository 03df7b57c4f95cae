"""Incompatibilities between two schemas, keyword by keyword."""

from typing import Any

from tests.tables import each_row
from toolhall.contracts.subschema.comparison import find_narrowings, find_widenings

Schema = dict[str, Any]


def of(**members: Any) -> Schema:
    return {"type": "object", "properties": members}


def whats(old: Any, new: Any) -> list[str]:
    return [f"{gap.path}: {gap.what}" for gap in find_narrowings(old, new) if gap.about != "undeclared"]


def text(**keywords: Any) -> Schema:
    return {"type": "string", **keywords}


def whole(**keywords: Any) -> Schema:
    return {"type": "integer", **keywords}


def items(**keywords: Any) -> Schema:
    return {"type": "array", **keywords}


TREE = {"properties": {"x": {"$ref": "#/$defs/t"}}, "$defs": {"t": of(of={"$ref": "#/$defs/t"}, at={"type": "number"})}}

# A wider schema, a narrower one, and where the narrower one says so.
NARROWER: list[tuple[Schema, Any, str]] = [
    ({"type": ["string", "null"]}, text(), "/type: null"),
    ({"type": "number"}, whole(), "/type: numbers that are not whole"),
    ({}, text(), "/type: null, true and false, lists, objects, numbers"),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, "/enum: 'b'"),
    (text(), {"enum": ["a"]}, "/enum: texts that are not listed"),
    ({"enum": [1, True]}, {"const": True}, "/const: 1"),
    ({"type": ["boolean", "null"]}, {"type": "boolean"}, "/type: null"),
    ({"type": "boolean"}, {"const": False}, "/const: true"),
    (whole(), whole(minimum=3), "/minimum: numbers below 3"),
    (whole(minimum=3), whole(exclusiveMinimum=3), "/exclusiveMinimum: numbers that are not above 3"),
    (whole(maximum=9), whole(maximum=8), "/maximum: numbers above 8"),
    ({"type": "number", "maximum": 9}, {"type": "number", "exclusiveMaximum": 9}, "/exclusiveMaximum: "),
    (whole(multipleOf=2), whole(multipleOf=4), "/multipleOf: numbers that are no multiple of 4"),
    (text(), text(minLength=1), "/minLength: texts of fewer than 1 characters"),
    (text(maxLength=9), text(maxLength=8), "/maxLength: texts of more than 8 characters"),
    (text(), text(pattern="^a"), "/pattern: texts that do not match '^a'"),
    (text(pattern="a"), text(pattern="^a"), "/pattern: it is not known whether all texts match '^a'"),
    (text(), text(format="date"), "/format: texts that are no 'date'"),
    (text(), text(contentEncoding="base64"), "/contentEncoding: texts that are not encoded as 'base64'"),
    (items(), items(items=text()), "/items/type: "),
    (items(items=text()), items(items=text(), minItems=1), "/minItems: lists of fewer than 1 items"),
    (items(maxItems=3), items(maxItems=2), "/maxItems: lists of more than 2 items"),
    (items(), items(uniqueItems=True), "/uniqueItems: lists that hold equal items"),
    (items(), items(contains=text()), "/contains: at least 1 of the items must be such"),
    (items(contains=text()), items(contains=text(), maxContains=2), "/maxContains: at most 2 items may be such"),
    (items(items=text()), items(prefixItems=[whole()]), "/prefixItems/0/type: texts"),
    (items(), items(unevaluatedItems=False), "/unevaluatedItems: which items it is about"),
    (of(a=text()), {**of(a=text()), "required": ["a"]}, "/required: objects without 'a'"),
    (of(a=text()), {**of(), "additionalProperties": False}, "/properties/a: the member 'a'"),
    (of(a=text()), {**of(), "unevaluatedProperties": False}, "/properties/a: the member 'a'"),
    (of(a=text()), {**of(a=text()), "propertyNames": {"maxLength": 0}}, "/properties/a: the member 'a'"),
    (of(a=text()), {**of(a=text()), "minProperties": 1}, "/minProperties: objects of fewer than 1 members"),
    (of(a=text(), b=text()), {**of(a=text(), b=text()), "maxProperties": 1}, "/maxProperties: "),
    (of(a=text(), b=text()), {**of(a=text(), b=text()), "dependentRequired": {"a": ["b"]}}, "/dependentRequired/a: "),
    (of(a=text()), {**of(a=text()), "dependentSchemas": {"a": {"required": ["b"]}}}, "/dependentSchemas/a/required: "),
    (of(a=text()), {**of(a=text()), "patternProperties": {"^a": whole()}}, "/patternProperties/^a/type: texts"),
    (of(a={"type": "object"}), of(a={**of(), "additionalProperties": False}), "/properties/a/additionalProperties: "),
    (
        {"additionalProperties": text()},
        {"additionalProperties": text(maxLength=3)},
        "/additionalProperties/maxLength: ",
    ),
    ({"anyOf": [text(), whole()]}, {"anyOf": [text()]}, "/anyOf: whole numbers"),
    (
        {"anyOf": [of(a=text()), {"type": "null"}]},
        {"anyOf": [of(a=whole()), {"type": "null"}]},
        "/anyOf/0/properties/a",
    ),
    (text(), {"oneOf": [text(), {"maxLength": 3}]}, "/oneOf: a value may fit more than one of these"),
    (text(), {"allOf": [text(), {"maxLength": 3}]}, "/allOf/1/maxLength: texts of more than 3 characters"),
    (text(), {"not": {"const": "a"}}, "/not: some values are excluded"),
    (text(), {"if": {"minLength": 3}, "then": {"pattern": "^a"}}, "/then/pattern: "),
    (text(), {"if": {"minLength": 3}, "else": {"pattern": "^a"}}, "/else/pattern: "),
    (text(), {"$ref": "#/$defs/x", "$defs": {"x": whole()}}, "/$defs/x/type: texts"),
    (text(), {"$ref": "https://example.com/else"}, "/$ref: this reference cannot be resolved, or this is no schema"),
    (TREE, {**TREE, "$defs": {"t": of(of={"$ref": "#/$defs/t"}, at=whole())}}, "/$defs/t/properties/at/type: "),
    ({"items": [text()]}, {"$schema": "http://json-schema.org/draft-07/schema#", "items": [whole()]}, "/prefixItems/0"),
    (text(), False, ": any value"),
]
SAME: list[tuple[Any, Any]] = [
    (text(), {"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": text()}}),
    ({"type": ["string", "null"]}, {"anyOf": [text(), {"type": "null"}]}),
    ({"enum": [1, 2]}, {"oneOf": [{"const": 2.0}, {"const": 1, "title": "One"}]}),
    (whole(minimum=1), whole(exclusiveMinimum=0)),
    (whole(maximum=2), whole(exclusiveMaximum=2.5, maximum=2)),
    ({"type": "boolean"}, {"enum": [True, False]}),
    (of(a=text()), {"allOf": [of(a=text()), {"type": "object"}]}),
    (TREE, {"properties": {"x": {"$ref": "#/$defs/u"}}, "$defs": {"u": TREE["$defs"]["t"], "t": TREE["$defs"]["t"]}}),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [text()], "additionalItems": whole()},
        {"prefixItems": [text()], "items": whole()},
    ),
    ({"if": text(), "then": {"minLength": 2}}, {"if": text(), "then": {"minLength": 2}, "title": "T"}),
    ({"not": {"$ref": "#/$defs/x"}, "$defs": {"x": text()}}, {"not": {"$ref": "#/$defs/y"}, "$defs": {"y": text()}}),
    (True, {}),
    (False, {"not": {}}),
]
WIDER = [
    (text(format="uri"), text(format="uri-reference")),
    (whole(multipleOf=4), whole(multipleOf=2)),
    (items(prefixItems=[text()], items=False), items(items=text())),
    ({**of(a=text()), "required": ["a"]}, of(a=text())),
    ({**of(a=text()), "additionalProperties": False}, of(a={"type": ["string", "null"]}, b=whole())),
    (of(a=text(), b=text()), {"type": "object"}),
    ({"anyOf": [text(), whole()]}, {"anyOf": [{"type": "boolean"}, whole(), text()]}),
    (text(), {"if": whole(), "then": {"minimum": 3}}),
    (text(), {"not": whole()}),
]


@each_row(("wide", "narrow", "said"), NARROWER)
def test_comparison_narrower_schema_is_incompatible_at_path(wide: Any, narrow: Any, said: str) -> None:
    found = whats(inside(wide), inside(narrow))
    place = said if said.startswith("/$defs") else f"/properties/it{said}"
    assert any(each.startswith(place) for each in found), found


def inside(schema: Any) -> Schema:
    """The schema of an argument; what it names and the draft it is in belong to the whole."""
    return {"type": "object", "properties": {"it": schema}, **names(schema)}


def names(schema: Any) -> Schema:
    return {key: schema[key] for key in ("$defs", "$schema") if isinstance(schema, dict) and key in schema}


@each_row(("wide", "narrow", "said"), NARROWER)
def test_comparison_narrowing_reversed_is_widening(wide: Any, narrow: Any, said: str) -> None:
    assert find_widenings(inside(narrow), inside(wide))


@each_row(("one", "other"), SAME)
def test_comparison_equivalent_schemas_are_compatible(one: Any, other: Any) -> None:
    assert not find_narrowings(inside(one), inside(other))
    assert not find_narrowings(inside(other), inside(one))


@each_row(("narrow", "wide"), WIDER)
def test_comparison_wider_schema_is_compatible(narrow: Any, wide: Any) -> None:
    assert whats(inside(narrow), inside(wide)) == []
    assert find_widenings(inside(narrow), inside(wide))


def test_comparison_new_member_is_compatible() -> None:
    for closing in ({}, {"additionalProperties": True}, {"additionalProperties": False}):
        old, new = {**of(a=text()), **closing}, {**of(a=text(), b=whole()), **closing}
        assert whats(old, new) == []
        assert [gap.what for gap in find_widenings(old, new)] == ["the member 'b'"]


def test_comparison_pattern_or_map_declares_members() -> None:
    for promise in ({"patternProperties": {"^b": text()}}, {"additionalProperties": text()}):
        old = {"type": "object", **promise}
        assert whats(old, {**old, "properties": {"b": whole()}}) == ["/properties/b/type: texts"]


def test_comparison_undeclared_member_is_incompatible_even_if_accepted() -> None:
    (gap,) = find_narrowings(of(a=text(), b=text()), of(a=text()))
    assert (gap.path, gap.about) == ("/properties/b", "member")
    assert not find_narrowings(of(a=of(b=text())), of(a={"type": "object"})), "a free-form object takes it"


def test_comparison_member_dropped_from_alternative_is_incompatible() -> None:
    def either(*rest: str) -> Schema:
        first = of(kind={"const": 1}, **{name: text() for name in rest})
        return of(
            x={"anyOf": [{**first, "required": ["kind"]}, {**of(kind={"const": 2}, b=text()), "required": ["kind"]}]}
        )

    assert whats(either("a", "b"), either("a", "b")) == []
    assert whats(either("a", "b"), either("a")) == ["/properties/x/anyOf/0/properties/b: the member 'b'"]


def test_comparison_members_of_alternatives_are_declared_at_all_depths() -> None:
    old = {"anyOf": [of(x=of(p=text())), of(y=text())]}
    assert whats(old, of(x=of(p=whole()), y=text()))


def test_comparison_closed_object_is_undeclared_only() -> None:
    (gap,) = find_narrowings(of(a=text()), {**of(a=text()), "additionalProperties": False})
    assert gap.about == "undeclared"


def test_comparison_over_budget_is_unproven() -> None:
    many = {"allOf": [{"anyOf": [{"maxLength": n}, {"minimum": n}, {"maxItems": n}]} for n in range(20)]}
    (gap,) = find_narrowings(of(a=many), of(a={**many, "pattern": "^a"}))
    assert (gap.proven, gap.what) == (False, "there is too much to compare")


def test_comparison_cost_does_not_double_with_depth() -> None:
    levels: Schema = {f"d{n}": of(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(25)}
    old = {"$ref": "#/$defs/d0", "$defs": {**levels, "d25": text()}}
    new = {"$ref": "#/$defs/d0", "$defs": {**levels, "d25": text(maxLength=3)}}
    assert whats(old, new) == ["/$defs/d25/maxLength: texts of more than 3 characters"]


@each_row(
    "junk",
    [
        {"type": 5, "properties": [1], "required": "a", "enum": {}, "anyOf": 3, "items": 7, "$ref": 9},
        {"properties": {"a": 7, "b": None}, "allOf": [1, None, "x"], "$ref": {}},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}]},
        {"pattern": "(", "patternProperties": {"(?=a)": {"type": "string"}}},
        7,
        None,
    ],
)
def test_comparison_invalid_schema_does_not_raise(junk: Any) -> None:
    assert find_narrowings(text(), junk) is not None
    assert find_narrowings(junk, text()) is not None
