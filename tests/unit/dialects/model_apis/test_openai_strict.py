"""OpenAI's strict functions: exactly the same calls, or a refusal with every reason."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.tables import each_row
from tests.unit.dialects.model_apis.api_checks import accepts, check_losses, check_strict
from tests.unit.dialects.model_apis.sample_tools import FORECAST, NOTHING, TREE, corpora, tool
from tests.unit.schema.random_schemas import fitting, roots
from toolhall.dialects.base import Loss
from toolhall.dialects.model_apis.openai import RESPONSES_STRICT, STRICT
from toolhall.dialects.model_apis.openai_strict import NotStrict, drop_refused_nulls, strict_parameters
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.validator import Validator


def closed(members: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def strict(part: JsonObject) -> Json:
    """What becomes of a required member."""
    return strict_parameters(closed({"a": part}, "a")).schema["properties"]["a"]


def refusal(schema: JsonObject) -> list[tuple[str, str]]:
    with pytest.raises(NotStrict) as caught:
        strict_parameters(schema)
    return [(finding.path.removeprefix("/inputSchema"), finding.rule) for finding in caught.value.findings]


def test_strict_definition_for_both_apis() -> None:
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


def test_strict_tool_without_parameters() -> None:
    (document,) = STRICT.write((NOTHING,)).documents
    assert document["function"]["parameters"] == closed({})


def test_strict_unsupported_keyword_is_a_loss() -> None:
    written = STRICT.write((FORECAST,))
    left_out = "strict mode wants a value for every member: null stands for leaving this one out"
    members = written.documents[0]["function"]["parameters"]["properties"]
    assert "minLength" not in members["city"]
    assert "null" in members["days"]["type"]
    assert [Loss(f"/inputSchema/properties/{key}", left_out) in written.losses for key in members] == [
        False,
        True,
        True,
    ]
    assert any(loss.path == "/inputSchema/properties/city/minLength" for loss in written.losses)


def test_strict_refusal_has_all_reasons() -> None:
    schema = closed({"a": {}, "b": {"type": "object"}, "c": {"type": "string", "enum": [[]]}}, "a", "d")
    assert refusal(schema) == [
        ("/properties/a", "openai/strict"),
        ("/properties/b", "openai/strict-additionalProperties"),
        ("/properties/c/enum", "openai/strict-enum"),
        ("/required", "openai/strict-required"),
    ]


def test_strict_tuple_is_refused_once() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2, "maxItems": 2}
    with pytest.raises(NotStrict, match="strict mode has no tuples; use an object or a list") as caught:
        strict_parameters(closed({"a": pair}, "a"))
    assert "any type" not in str(caught.value)


def test_strict_refusal_names_every_tool() -> None:
    with pytest.raises(NotStrict) as caught:
        STRICT.write((NOTHING, tool({"type": "object"}), tool({"anyOf": [{}]})))
    assert {finding.path for finding in caught.value.findings} == {
        "/1/inputSchema",
        "/2/inputSchema/anyOf",
        "/2/inputSchema",
    }


def test_strict_optional_nullable_member_keeps_null() -> None:
    schema = closed({"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]}})
    result = strict_parameters(schema)
    assert result.schema == {**schema, "required": ["a", "b"]}
    assert result.losses == []


@each_row(
    ("part", "made"),
    [
        ({"type": "string", "description": "D."}, {"type": ["string", "null"], "description": "D."}),
        ({"type": ["string", "null"], "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"enum": ["a", "b"]}, {"type": ["string", "null"], "enum": ["a", "b", None]}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]},
         {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
        ({"type": "array", "items": {"type": "string"}, "description": "D."},
         {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "description": "D."}),
        ({"type": "integer", "default": 3}, {"type": ["integer", "null"], "description": "Default: 3."}),
    ],
)  # fmt: skip
def test_strict_optional_member_becomes_nullable(part: JsonObject, made: JsonObject) -> None:
    schema = closed({"a": part})
    assert strict_parameters(schema).schema["properties"]["a"] == made
    assert drop_refused_nulls({"a": None}, Validator(schema), 10) == {}


@each_row(
    ("schema", "sent", "meant"),
    [
        (closed({"a": {"type": "string"}}), {"a": "x"}, {"a": "x"}),
        (closed({"a": {"type": "string"}}), {"a": None}, {}),
        (closed({"a": {"type": ["string", "null"]}}), {"a": None}, {"a": None}),
        (closed({"a": {"type": "string"}}, "a"), {"a": None}, {}),  # which is then refused as missing
        (closed({"a/b~c": {"type": "string"}}), {"a/b~c": None}, {}),
        (closed({"a": closed({"b": {"type": "string"}})}), {"a": {"b": None}}, {"a": {}}),
        (closed({"a": {"type": "array", "items": closed({"b": {"type": "string"}})}}),
         {"a": [{"b": None}, {"b": "x"}, {"b": None}]}, {"a": [{}, {"b": "x"}, {}]}),
        (closed({"a": {"type": "array", "items": {"type": "string"}}}), {"a": [None]}, {"a": [None]}),
        (closed({"a": {"type": "string"}}), {"b": None, "a": 3}, {"a": 3}),
    ],
)  # fmt: skip
def test_strict_arguments_refused_nulls_are_dropped(schema: JsonObject, sent: JsonObject, meant: JsonObject) -> None:
    before = copy.deepcopy(sent)
    assert drop_refused_nulls(sent, Validator(schema), 100) == meant
    assert sent == before, "what was sent is not changed"


@each_row(
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
def test_strict_equivalent_schema_is_written(part: JsonObject, made: JsonObject) -> None:
    assert strict(part) == made


@each_row(
    ("part", "path", "keyword"),
    [
        ({}, "", ""),
        ({"properties": {}}, "", ""),
        ({"type": "object"}, "", "additionalProperties"),
        ({"type": "object", "additionalProperties": {}}, "/additionalProperties", "additionalProperties"),
        ({"type": "object", "properties": {"b": {"type": "null"}}, "patternProperties": {"^x": {}}},
         "", "additionalProperties"),
        ({"type": "array"}, "", ""),
        ({"type": "array", "prefixItems": [{"type": "null"}]}, "/prefixItems", "prefixItems"),
        ({"enum": [{"a": 1}]}, "/enum", "enum"),
        ({"anyOf": [False]}, "/anyOf", "anyOf"),
        ({"$ref": "https://example.com"}, "", ""),
    ],
)  # fmt: skip
def test_strict_inexpressible_schema_is_refused(part: JsonObject, path: str, keyword: str) -> None:
    rule = f"openai/strict-{keyword}" if keyword else "openai/strict"
    assert (f"/properties/a{path}", rule) in refusal(closed({"a": part}, "a"))


@each_row(
    ("part", "made", "lost"),
    [
        ({"type": "string", "maxLength": 3}, {"type": "string", "description": "Maximum length: 3."}, "/maxLength"),
        ({"type": "string", "pattern": "a(?=b)"}, {"type": "string"}, "/pattern"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True},
         {"type": "array", "items": {"type": "string"}}, "/uniqueItems"),
        ({"type": "string", "not": {"const": "a"}}, {"type": "string"}, "/not"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]},
         {"anyOf": [{"type": "integer"}, {"type": "number"}]}, "/oneOf"),
        ({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]},
         {"type": "string", "pattern": "a"}, "/allOf/1"),
        ({"type": "float"}, {"type": "number"}, "/type"),
        ({"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]},
         closed({"b": {"type": "null"}}, "b"), ""),
    ],
)  # fmt: skip
def test_strict_unchecked_keyword_is_described(part: JsonObject, made: JsonObject, lost: str) -> None:
    result = strict_parameters(closed({"a": part}, "a"))
    found = result.schema["properties"]["a"]
    assert {key: found[key] for key in found if key != "description" or key in made} == made
    assert f"/properties/a{lost}" in {each.path for each in result.losses}


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_strict_root_alternatives_are_refused(key: str) -> None:
    assert refusal({**closed({}), key: [{"required": ["a"]}]}) == [(f"/{key}", f"openai/strict-{key}")]


def test_strict_reference_has_no_siblings() -> None:
    node = closed({"next": {"anyOf": [{"$ref": "#", "description": "The next."}, {"type": "null"}]}}, "next")
    assert strict_parameters(node).schema["properties"]["next"] == {
        "anyOf": [{"anyOf": [{"$ref": "#"}], "description": "The next."}, {"type": "null"}]
    }


def test_strict_recursion_may_end_with_null() -> None:
    node = closed({"next": {"oneOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}})
    schema = {**closed({"head": {"$ref": "#/$defs/Node"}}, "head"), "$defs": {"Node": node}}
    made = strict_parameters(schema).schema
    assert made["$defs"]["Node"]["properties"]["next"] == {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}
    check_strict(made)


def test_strict_defaults_are_described() -> None:
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


@each_row(
    "schema",
    [
        nested(11),
        closed({f"m{n}": {"type": "null"} for n in range(5_001)}),
        closed({"a": {"enum": list(range(1_001))}}, "a"),
        closed({"a": {"enum": [f"{n:0100}" for n in range(251)]}}, "a"),
        closed({"x" * 120_001: {"type": "null"}}),
    ],
)
def test_strict_size_limits_are_enforced(schema: JsonObject) -> None:
    assert refusal(schema) == [("", "openai/strict-size")]


def test_strict_ten_levels_are_allowed() -> None:
    check_strict(strict_parameters(nested(10)).schema)


def narrowed(part: Json) -> Json:
    """A schema without most of what strict mode refuses, so that not everything is refused."""
    if isinstance(part, list):
        return [narrowed(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {key: _inner(key, value) for key, value in part.items() if key != "prefixItems"}
    if made.get("type") == "object":
        made |= {"additionalProperties": False}
    return {**made, "items": made.get("items", {"type": "string"})} if made.get("type") == "array" else made


def _inner(key: str, value: Json) -> Json:
    if key in ("properties", "$defs"):
        return {name: narrowed(part) for name, part in value.items()}
    return narrowed(value) if key in ("items", "anyOf", "oneOf", "allOf") else value


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), roots())
def test_strict_schema_accepts_exactly_the_calls(data: st.DataObject, schema: JsonObject) -> None:
    """What the schema accepts is accepted in its strict form, and read back as what it was."""
    schema = narrowed(schema)
    try:
        made = strict_parameters(schema).schema
    except NotStrict:
        return
    check_strict(made)
    before, after = Validator(schema), accepts(made)
    for _ in range(4):
        value = fitting(data.draw, schema, schema)
        if isinstance(value, dict) and before.accepts(value):
            sent = {**dict.fromkeys(made["properties"]), **value}
            read = drop_refused_nulls(sent, before, 1_000)
            assert before.accepts(read)
            nulls = {key for key, each in sent.items() if each is None and key not in value}
            assert {key: each for key, each in read.items() if key not in nulls} == value
            if all(_is_flat(each) for each in value.values()):  # deeper down, nulls would have to be filled in, too
                assert after.is_valid(sent)


def _is_flat(value: Json) -> bool:
    return not isinstance(value, dict | list)


def test_strict_covers_most_strict_corpora() -> None:
    """openai-agents 0.24 makes all but a few of these strict, and changes what most of them accept on the way."""
    tools = corpora() or pytest.skip("no corpora here")
    strict_ones = sum(_is_strict(of) for of in tools)
    assert strict_ones / len(tools) >= 0.8


def _is_strict(of: Tool) -> bool:
    try:
        STRICT.write((of,))
    except NotStrict:
        return False
    return True


def test_strict_corpora_are_valid_or_refused() -> None:
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
