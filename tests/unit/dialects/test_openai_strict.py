"""OpenAI's strict functions: the same arguments as before, or a refusal with every reason."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dialects.judges import accepts, check_losses, check_strict
from tests.unit.dialects.sample_tools import FORECAST, NOTHING, TREE, corpora, tool
from tests.unit.schema.random_schemas import fitting, roots
from toolhall.dialects.catalog import Loss
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.openai.catalog import RESPONSES_STRICT, STRICT
from toolhall.dialects.openai.strict import NotStrict, strict_parameters
from toolhall.model.json import Json, JsonObject


def closed(members: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def strict(part: JsonObject) -> Json:
    """What becomes of a required member."""
    return strict_parameters(closed({"a": part}, "a")).schema["properties"]["a"]


def refusal(schema: JsonObject) -> list[tuple[str, str]]:
    with pytest.raises(NotStrict) as caught:
        strict_parameters(schema)
    return [(finding.path.removeprefix("/inputSchema"), finding.rule) for finding in caught.value.findings]


def test_both_shapes() -> None:
    parameters = TREE.input
    function: JsonObject = {"name": "plant", "description": "Plant a tree.", "strict": True}
    tree = {**parameters["$defs"]["Tree"]}
    tree["properties"] = {**tree["properties"], "name": {"type": "string", "pattern": "^[a-z]+$"}}
    function["parameters"] = {
        **parameters,
        "properties": {"tree": {**tree, "description": "The whole tree."}},
        "$defs": {"Tree": tree},
    }
    assert STRICT.write((TREE,)).documents == [{"type": "function", "function": function}]
    assert RESPONSES_STRICT.write((TREE,)).documents == [{"type": "function", **function}]
    assert STRICT.write((TREE,)).losses == []


def test_a_tool_without_parameters_is_strict() -> None:
    (document,) = STRICT.write((NOTHING,)).documents
    assert document["function"]["parameters"] == closed({})


def test_all_reasons_are_given_at_once() -> None:
    with pytest.raises(NotStrict) as caught:
        STRICT.write((FORECAST,))
    optional = "this may be left out, and strict mode would force a value; require it, or accept null"
    assert [str(finding).removeprefix("/inputSchema/properties") for finding in caught.value.findings] == [
        "/city/minLength: strict mode has no minLength: more arguments would be accepted [openai/strict-minLength]",
        f"/days: {optional} [openai/strict]",
        f"/unit: {optional} [openai/strict]",
    ]
    assert isinstance(caught.value, BadDocument)


def test_of_several_tools_every_refused_one_is_named() -> None:
    with pytest.raises(NotStrict) as caught:
        STRICT.write((NOTHING, tool({"type": "object"}), tool({"anyOf": [{}]})))
    assert {finding.path for finding in caught.value.findings} == {
        "/1/inputSchema",
        "/2/inputSchema/anyOf",
        "/2/inputSchema",
    }


def test_what_may_be_left_out_becomes_null_if_null_was_accepted() -> None:
    schema = closed({"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}})
    result = strict_parameters(schema)
    assert result.schema == {**schema, "required": ["a", "b"]}
    assert result.lost == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string"},
        {"type": ["string", "null"], "enum": ["a"]},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    ],
)
def test_what_may_be_left_out_and_not_be_null_is_refused(part: JsonObject) -> None:
    assert refusal(closed({"a": part})) == [("/properties/a", "openai/strict")]


@pytest.mark.parametrize(
    ("part", "made"),
    [
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"enum": [1, "a", None]}, {"type": ["integer", "string", "null"], "enum": [1, "a", None]}),
        ({"type": "integer", "enum": [1, "a"]}, {"type": "integer", "enum": [1]}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"allOf": [{"type": "string"}, {"pattern": "a"}]}, {"type": "string", "pattern": "a"}),
        ({"type": ["array", "null"], "items": {"type": "string"}},
         {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
        ({"type": "number", "anyOf": [{"minimum": 5}, {"maximum": 1}]},
         {"anyOf": [{"type": "number", "minimum": 5}, {"type": "number", "maximum": 1}]}),
        ({"type": "string", "minLength": 0, "items": {}}, {"type": "string"}),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        ({"type": "string", "format": "uri", "default": "x", "description": "D."},
         {"type": "string", "description": "D. Format: uri. Default: x."}),
    ],
)  # fmt: skip
def test_the_same_in_other_words(part: JsonObject, made: JsonObject) -> None:
    assert strict(part) == made


@pytest.mark.parametrize(
    ("part", "path", "keyword"),
    [
        ({}, "", ""),
        ({"properties": {}}, "", ""),
        ({"type": "object"}, "", "additionalProperties"),
        ({"type": "object", "additionalProperties": {}}, "/additionalProperties", "additionalProperties"),
        ({"type": "string", "maxLength": 3}, "/maxLength", "maxLength"),
        ({"type": "string", "pattern": "a(?=b)"}, "/pattern", "pattern"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "/uniqueItems", "uniqueItems"),
        ({"type": "array"}, "", ""),
        ({"type": "string", "not": {"const": "a"}}, "/not", "not"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "/oneOf", "oneOf"),
        ({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]}, "/allOf/1", ""),
        ({"enum": [{"a": 1}]}, "/enum", "enum"),
        ({"anyOf": [False]}, "/anyOf", "anyOf"),
        ({"type": "float"}, "/type", "type"),
        ({"$ref": "https://example.com"}, "/$ref", "$ref"),
    ],
)  # fmt: skip
def test_what_strict_mode_cannot_say_is_refused(part: JsonObject, path: str, keyword: str) -> None:
    rule = f"openai/strict-{keyword}" if keyword else "openai/strict"
    assert (f"/properties/a{path}", rule) in refusal(closed({"a": part}, "a"))


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_alternatives_at_the_top_level_are_refused(key: str) -> None:
    assert refusal({**closed({}), key: [{"required": ["a"]}]}) == [(f"/{key}", f"openai/strict-{key}")]


def test_recursion_is_kept_and_nothing_stands_beside_a_reference() -> None:
    node = closed({"next": {"anyOf": [{"$ref": "#", "description": "The next."}, {"type": "null"}]}}, "next")
    assert strict_parameters(node).schema["properties"]["next"] == {
        "anyOf": [{"anyOf": [{"$ref": "#"}], "description": "The next."}, {"type": "null"}]
    }


def test_recursion_may_end_with_null() -> None:
    node = closed({"next": {"oneOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}})
    schema = {**closed({"head": {"$ref": "#/$defs/Node"}}, "head"), "$defs": {"Node": node}}
    made = strict_parameters(schema).schema
    assert made["$defs"]["Node"]["properties"]["next"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    check_strict(made)


def test_defaults_go_into_the_description() -> None:
    part = {"type": ["integer", "null"], "default": 3, "description": "Days."}
    written = STRICT.write((tool(closed({"days": part})),))
    made = written.documents[0]["function"]["parameters"]["properties"]["days"]
    assert made == {"type": ["integer", "null"], "description": "Days. Default: 3."}
    reason = "strict mode has no place for this; it is in the description"
    assert written.losses == [Loss("/inputSchema/properties/days/default", reason)]


def nested(levels: int) -> JsonObject:
    schema = closed({})
    for _ in range(levels - 1):
        schema = closed({"a": schema}, "a")
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        nested(11),
        closed({f"m{n}": {"type": "null"} for n in range(5_001)}),
        closed({"a": {"enum": list(range(1_001))}}, "a"),
        closed({"a": {"enum": [f"{n:0100}" for n in range(251)]}}, "a"),
        closed({"x" * 120_001: {"type": "null"}}),
    ],
    ids=["levels", "members", "values", "long-list", "characters"],
)
def test_what_is_too_large_is_refused(schema: JsonObject) -> None:
    assert refusal(schema) == [("", "openai/strict-size")]


def test_ten_levels_are_not_too_many() -> None:
    check_strict(strict_parameters(nested(10)).schema)


def narrowed(part: Json) -> Json:
    """A schema without most of what strict mode refuses, so that not everything is refused."""
    if isinstance(part, list):
        return [narrowed(each) for each in part]
    if not isinstance(part, dict):
        return part
    dropped = ("minProperties", "dependentRequired", "uniqueItems", "prefixItems", "minLength", "maxLength", "not")
    made = {key: _inner(key, value) for key, value in part.items() if key not in dropped}
    if made.get("type") == "object":
        made |= {"additionalProperties": False, "required": list(made.get("properties", {}))}
    return {**made, "items": made.get("items", {"type": "string"})} if made.get("type") == "array" else made


def _inner(key: str, value: Json) -> Json:
    if key in ("properties", "$defs"):
        return {name: narrowed(part) for name, part in value.items()}
    return narrowed(value) if key in ("items", "anyOf", "oneOf", "allOf") else value


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), roots(), st.booleans())
def test_exactly_the_same_is_accepted(data: st.DataObject, schema: JsonObject, optional: bool) -> None:
    schema = narrowed(schema)
    members = schema.get("properties", {})
    if optional:
        del schema["required"]
    try:
        made = strict_parameters(schema).schema
    except NotStrict:
        return
    check_strict(made)
    before, after = accepts(schema), accepts(made)
    for _ in range(4):
        value = fitting(data.draw, schema, schema)
        if isinstance(value, dict):
            assert not after.is_valid(value) or before.is_valid(value)
            whole = {**dict.fromkeys(members), **value} if optional else value
            assert after.is_valid(whole) is before.is_valid(value)


def test_real_definitions_are_strict_or_refused() -> None:
    strict_ones = 0
    for of in corpora() or pytest.skip("no corpora here"):
        try:
            written = STRICT.write((of,))
        except NotStrict as refused:
            check_losses(of, [Loss(each.path, each.fix) for each in refused.findings])
        else:
            strict_ones += 1
            check_strict(written.documents[0]["function"]["parameters"])
    assert strict_ones
