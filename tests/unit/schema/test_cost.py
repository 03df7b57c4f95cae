"""Schemas that are refused before anyone validates with them (threats F8, F9 and F10)."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.builders import nested
from toolhall.model.json import JsonObject
from toolhall.schema.cost import BadSchema, measure_cost, supported_draft
from toolhall.schema.validator import Validator


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server
        with pytest.raises(BlockingIOError):
            server.accept()


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


REMOTE: list[Callable[[str], JsonObject]] = [
    lambda host: {"$ref": f"http://{host}/a.json"},
    lambda host: {"$ref": f"https://{host}/a.json"},
    lambda host: {"$ref": f"HTTP://{host}/a.json"},
    lambda host: {"$ref": f"//{host}/a.json"},
    lambda _: {"$ref": "file:///etc/passwd"},
    lambda _: {"$ref": "a.json"},
    lambda host: {"$id": f"http://{host}/", "$ref": "a.json"},
    lambda host: {"$id": f"http://{host}/", "$ref": f"http://{host}/b.json#/$defs/a"},
    lambda host: {"$dynamicRef": f"http://{host}/a.json#anchor"},
    lambda host: {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": f"http://{host}/a.json"},
    lambda host: {"$schema": f"http://{host}/schema"},
    lambda host: {"$schema": "http://json-schema.org/draft-04/schema#", "$ref": f"http://{host}/a.json"},
    lambda host: {"properties": {"a": {"$id": f"http://{host}/a", "$ref": "#/b"}}},
    lambda host: {"properties": {"a": {"$schema": f"http://{host}/schema"}}},
    lambda host: {"$defs": {"unused": {"$ref": f"http://{host}/a.json"}}},
    lambda host: {"$ref": {"not": f"http://{host}/a.json"}},
    lambda _: {"$ref": ""},
    lambda _: {"$ref": None},
]


@pytest.mark.parametrize("make", REMOTE, ids=lambda make: str(make("host")))
def test_external_reference_is_refused_without_fetching(
    make: Callable[[str], JsonObject], listener: socket.socket
) -> None:
    with pytest.raises(BadSchema):
        Validator(make(address(listener)))


ONLY_LOOKS: dict[str, Callable[[str], JsonObject]] = {
    "root id": lambda host: {"$id": f"http://{host}/a.json", "$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
    "unknown keyword": lambda host: {"x-example": {"$ref": f"http://{host}/a.json"}, "type": "integer"},
    "default": lambda host: {"default": {"$ref": f"http://{host}/a.json"}, "type": "integer"},
    "enum": lambda host: {"enum": [{"$ref": f"http://{host}/a.json"}, 1]},
    "comment": lambda host: {"$comment": f"http://{host}/", "type": "integer"},
}


@pytest.mark.parametrize("name", ONLY_LOOKS)
def test_reference_inside_data_is_ignored(name: str, listener: socket.socket) -> None:
    validator = Validator(ONLY_LOOKS[name](address(listener)))
    assert validator.accepts(1)
    assert not validator.accepts("one")


REMOTE_REF: JsonObject = {"$ref": "https://example.org/a.json"}
PLACES: dict[str, JsonObject] = {
    **{key: {key: REMOTE_REF} for key in ("not", "if", "then", "else", "items", "contains", "propertyNames")},
    **{key: {key: REMOTE_REF} for key in ("additionalProperties", "unevaluatedItems", "unevaluatedProperties")},
    **{key: {key: REMOTE_REF} for key in ("additionalItems", "contentSchema")},
    **{key: {key: [True, REMOTE_REF]} for key in ("allOf", "anyOf", "oneOf", "prefixItems")},
    "items as list": {"items": [True, REMOTE_REF]},
    **{
        key: {key: {"a": REMOTE_REF}} for key in ("properties", "patternProperties", "dependentSchemas", "dependencies")
    },
    **{key: {key: {"a": REMOTE_REF}} for key in ("$defs", "definitions")},
}


@pytest.mark.parametrize("place", PLACES)
def test_external_reference_is_refused_in_every_keyword(place: str) -> None:
    with pytest.raises(BadSchema, match=r"/\$ref: only references inside the document") as caught:
        measure_cost({"properties": {"outer": PLACES[place]}})
    assert caught.value.problems[0].path.startswith("/properties/outer/")


@pytest.mark.parametrize(
    "reference", ["#/nowhere", "#/$defs/b", "#nowhere", "#/properties", "#/$defs/a/enum/0", "#/%24defs/a"]
)
def test_reference_without_target_is_refused(reference: str) -> None:
    schema = {"$ref": reference, "$defs": {"a": {"enum": [{"type": "integer"}]}}}
    with pytest.raises(BadSchema, match="this reference leads nowhere; define it under"):
        measure_cost(schema)


@pytest.mark.parametrize("reference", ["#/$defs/a", "#named", "#/$defs/b~1c~0d"])
def test_local_reference_is_accepted(reference: str) -> None:
    schema = {
        "$ref": reference,
        "$defs": {"a": {"type": "integer"}, "b": {"$anchor": "named", "type": "integer"}, "b/c~d": {"type": "integer"}},
    }
    validator = Validator(schema)
    assert validator.accepts(1)
    assert not validator.accepts("one")


def test_duplicate_anchor_is_refused() -> None:
    schema = {"$ref": "#x", "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x", "type": "integer"}}}
    with pytest.raises(BadSchema, match="another subschema has this anchor too"):
        measure_cost(schema)


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        ({}, "2020-12"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "2020-12"),
        ({"$schema": "https://json-schema.org/draft/2019-09/schema#"}, "2019-09"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "draft-07"),
    ],
)
def test_supported_draft_of_known_drafts(schema: JsonObject, draft: str) -> None:
    assert supported_draft(schema) == draft


@pytest.mark.parametrize(
    "declared", ["", "http://json-schema.org/draft-04/schema#", "https://example.org", 7, None, ["x"]]
)
def test_supported_draft_unknown_is_refused(declared: Any) -> None:
    with pytest.raises(BadSchema, match="this JSON Schema dialect is not supported; use one of"):
        measure_cost({"$schema": declared})


def test_validator_applies_the_rules_of_the_draft() -> None:
    # In draft 7 `items` may be a list and stands for positions; since 2020-12 that is `prefixItems`.
    draft7 = Validator({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]})
    assert draft7.accepts([1, "two"])
    assert not draft7.accepts(["one"])
    assert not Validator({"prefixItems": [{"type": "integer"}]}).accepts(["one"])


PATTERNS = [
    r"(?=a)",
    r"(?!a)",
    r"(?<=a)b",
    r"(?<!a)b",
    r"(a)\1",
    r"(?P<x>a)(?P=x)",
    r"[",
    r"(",
    r"a{2,1}",
    r"(?>a)",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_backtracking_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadSchema) as caught:
        Validator({"properties": {"a": {"pattern": pattern}}})
    (problem,) = caught.value.problems
    assert problem.path == "/properties/a/pattern"
    assert problem.reason == "this pattern cannot be used: write it short, without look-around and back references"
    with pytest.raises(BadSchema):
        Validator({"patternProperties": {pattern: {}}})


def test_pattern_with_huge_repetition_is_refused() -> None:
    with pytest.raises(BadSchema, match="this pattern cannot be used: write it short"):
        Validator({"pattern": "((a{100}){100}){100}"})


def pattern(text: str) -> JsonObject:
    return {"pattern": text}


def pattern_of_names(text: str) -> JsonObject:
    return {"patternProperties": {text: {}}}


@pytest.mark.parametrize("make", [pattern, pattern_of_names])
def test_pattern_length_is_limited(make: Callable[[str], JsonObject]) -> None:
    measure_cost(make("a" * 512))
    with pytest.raises(BadSchema, match="a pattern has more than 512 characters; shorten it"):
        measure_cost(make("a" * 513))


def cpu_seconds(action: Callable[[], object]) -> float:
    """The least of three, because a busy machine also makes caches cold."""
    times: list[float] = []
    for _ in range(3):
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^([a-zA-Z0-9])(([\\-.]|[_]+)?([a-zA-Z0-9]+))*$"]
)
def test_pattern_takes_linear_time(pattern: str) -> None:
    validator = Validator({"pattern": pattern})
    hostile = "a" * 20_000 + "!"
    assert not validator.accepts(hostile)
    assert cpu_seconds(lambda: validator.accepts(hostile)) < 0.02


def doubling(levels: int, keyword: str = "allOf") -> JsonObject:
    """A schema of few lines that one value meets 2**levels times."""
    definitions: JsonObject = {"d0": {"type": "string"}}
    for level in range(1, levels + 1):
        definitions[f"d{level}"] = {keyword: [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$ref": f"#/$defs/d{levels}", "$defs": definitions}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("levels", [16, 20, 24, 32, 40])
def test_exponential_schema_is_refused_quickly(levels: int, keyword: str) -> None:
    schema = doubling(levels, keyword)

    def refuse() -> None:
        with pytest.raises(BadSchema, match="one value would be checked more than 50000 times"):
            measure_cost(schema)

    assert cpu_seconds(refuse) < 0.05


def test_exponential_schema_through_parts_is_refused() -> None:
    definitions: JsonObject = {"d0": {"type": "string"}}
    for level in range(1, 20):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"properties": {"a": below}, "patternProperties": {"^a$": below}}
    with pytest.raises(BadSchema, match="one value would be checked more than"):
        measure_cost({"$ref": "#/$defs/d19", "$defs": definitions})


def test_small_doubling_is_accepted() -> None:
    checks = 1  # of d0; each level above makes one of its own, and meets two references with all that is below
    for _ in range(4):
        checks = 1 + 2 * (1 + checks)
    assert measure_cost(doubling(4)).visits == 1 + checks
    assert Validator(doubling(10)).accepts("text")


def test_schema_size_is_limited() -> None:
    measure_cost({"description": "x" * 65_000})
    with pytest.raises(BadSchema, match="the schema has 66018 bytes; at most 65536 are allowed"):
        measure_cost({"description": "x" * 66_000})


def test_schema_depth_is_limited() -> None:
    Validator(nested(31, "not", {}))
    with pytest.raises(BadSchema, match="the schema is nested more than 32 levels deep"):
        measure_cost(nested(32, "not", {}))


@pytest.mark.parametrize("key", ["not", "items", "const", "default", "additionalProperties"])
@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_extreme_depth_is_refused_without_crash(key: str, depth: int) -> None:
    with pytest.raises(BadSchema, match="the schema is nested more than 32 levels deep"):
        measure_cost({key: nested(depth, "not", True)})


def test_number_of_subschemas_is_limited() -> None:
    measure_cost({"properties": {f"p{number}": True for number in range(1_999)}})
    with pytest.raises(BadSchema, match="the schema has more than 2000 subschemas"):
        measure_cost({"properties": {f"p{number}": True for number in range(2_000)}})


@pytest.mark.parametrize("wrong", [3, "string", None, [], 1.5])
def test_subschema_of_other_type_is_refused(wrong: Any) -> None:
    with pytest.raises(BadSchema, match="/not: a schema is an object, true or false"):
        measure_cost({"not": wrong})
    with pytest.raises(BadSchema, match="/allOf/1: a schema is an object, true or false"):
        measure_cost({"allOf": [{}, wrong]})


@pytest.mark.parametrize(
    "schema", [{"type": "text"}, {"minimum": "1"}, {"required": "a"}, {"properties": {"a": 3}}, {"allOf": {}}]
)
def test_schema_invalid_in_its_draft_is_refused(schema: JsonObject) -> None:
    with pytest.raises(BadSchema):
        Validator(schema)


def test_schema_that_is_not_json_is_refused() -> None:
    with pytest.raises(BadSchema, match="the schema is not JSON"):
        measure_cost({"default": object()})


def test_all_schema_problems_are_listed() -> None:
    with pytest.raises(BadSchema) as caught:
        measure_cost(
            {"properties": {"a": {"$ref": "http://example.org"}, "b": {"$id": "x"}, "c": {"pattern": "a" * 600}}}
        )
    assert {problem.path for problem in caught.value.problems} == {
        "/properties/a/$ref",
        "/properties/b/$id",
        "/properties/c",
    }
