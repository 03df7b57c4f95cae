"""OpenAI function tools that are not strict, for both APIs."""

import msgspec
import pytest

from tests.tables import each_row
from tests.unit.dialects.model_apis.api_checks import NAME, check_losses, check_openai
from tests.unit.dialects.model_apis.sample_tools import FIND, FORECAST, MOVE, NOTHING, OLD, SAMPLES, TREE, corpora, tool
from toolhall.dialects.base import Loss
from toolhall.dialects.model_apis.openai import CHAT, RESPONSES
from toolhall.model.json import JsonObject
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool


def function(of: Tool) -> JsonObject:
    (document,) = CHAT.write((of,)).documents
    assert document.keys() == {"type", "function"}
    result: JsonObject = document["function"]
    return result


def test_openai_chat_definition() -> None:
    assert CHAT.write((FORECAST,)).documents == [
        {
            "type": "function",
            "function": {
                "name": "Weather_forecast",
                "description": "Forecast the weather for a city.",
                "parameters": FORECAST.input,
            },
        }
    ]


def test_openai_responses_definition_is_not_strict() -> None:
    (document,) = RESPONSES.write((FORECAST,)).documents
    assert document == {
        "type": "function",
        "name": "Weather_forecast",
        "description": "Forecast the weather for a city.",
        "parameters": FORECAST.input,
        "strict": False,
    }


def test_openai_inexpressible_members_are_losses() -> None:
    assert [loss.path for loss in CHAT.write((FORECAST,)).losses] == [
        "/title", "/outputSchema", "/annotations", "/icons", "/level", "/requirements", "/_meta", "/tags",
        "/toolkit/description", "/version",
    ]  # fmt: skip
    assert CHAT.write((MOVE,)).losses == []


def test_openai_several_tools_prefix_losses() -> None:
    assert CHAT.write((MOVE, NOTHING)).losses == [
        Loss("/1/outputSchema", "openai does not describe what a tool returns")
    ]


def test_openai_arrays_have_items() -> None:
    assert function(MOVE)["parameters"]["properties"]["parts"] == {"type": "array", "items": {}}


def test_openai_recursion_is_kept() -> None:
    parameters = function(TREE)["parameters"]
    tree = parameters["$defs"]["Tree"]
    assert tree["properties"] == {
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "branches": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    }
    assert parameters["properties"]["tree"] == {**tree, "description": "The whole tree."}


def test_openai_root_alternatives_become_one_object() -> None:
    written = CHAT.write((FIND,))
    found = written.documents[0]["function"]
    assert found["description"] == "Find a person.\n\nGive exactly one of these: by and id, or by and mail."
    assert found["parameters"] == {
        "type": "object",
        "properties": {
            "limit": {"type": "integer"},
            "by": {"enum": ["id", "mail"]},
            "id": {"type": "integer"},
            "mail": {"type": "string"},
        },
        "required": ["by"],
    }
    assert written.losses == [Loss("/inputSchema/oneOf", "alternatives at the top level are merged into one object")]


@each_row(
    ("root", "expected"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": ["object"]}, {"type": "object", "properties": {}}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "required": ["x"]}}},
         {"type": "object", "properties": {}, "required": ["x"]}),
        ({"allOf": [{"properties": {"a": {}}}, {"required": ["a"]}]},
         {"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        ({"not": {"required": ["a"]}, "enum": [{}]}, {"type": "object", "properties": {}}),
        ({"$ref": "#"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}, "additionalProperties": False, "anyOf": [{"properties": {"b": {}}}]},
         {"type": "object", "properties": {"a": {}}, "additionalProperties": False}),
    ],
)  # fmt: skip
def test_openai_root_is_one_object(root: JsonObject, expected: JsonObject) -> None:
    assert function(tool(root))["parameters"] == expected


def test_openai_older_drafts_are_upgraded() -> None:
    written = CHAT.write((OLD,))
    assert written.documents[0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "number"}],
                "items": {"not": {}},
            },
            "definitions": {"type": "string", "title": "Word"},
        },
        "dependentRequired": {"pair": ["definitions"]},
    }
    assert written.losses == [Loss("/inputSchema/$schema", "written in JSON Schema 2020-12")]


def test_openai_title_replaces_missing_description() -> None:
    titled = msgspec.structs.replace(NOTHING, title="The time")
    assert function(titled)["description"] == "The time"
    assert "description" not in function(NOTHING)


def named(*names: str) -> list[str]:
    written = CHAT.write(tuple(tool({}, name) for name in names))
    return [document["function"]["name"] for document in written.documents]


def test_openai_long_names_are_shortened_deterministically() -> None:
    long, dotted = "x" * 65, "math.sum"
    shortened, plain = named(long, dotted)
    assert shortened.startswith("x" * 55 + "_")
    assert len(shortened) == 64
    assert plain.startswith("math_sum_")
    assert len(plain) == len("math_sum_") + 8
    assert named(dotted, long) == [plain, shortened]
    assert named("math_sum", dotted, "math sum") == ["math_sum", plain, named("math sum")[0]]
    assert all(NAME.fullmatch(each) for each in named("ü", "", "-", "a" * 64, long, dotted))


def test_openai_changed_name_is_a_loss() -> None:
    written = CHAT.write((tool({}, "math.sum"),))
    assert [loss.path for loss in written.losses] == ["/name"]
    assert written.documents[0]["function"]["name"] in written.losses[0].reason


def test_openai_names_are_unique() -> None:
    versions = [Tool(id=ToolId("K", "t", version), name="K_t", input={}) for version in ("1.0.0", "2.0.0", "2.0.0")]
    names = [document["function"]["name"] for document in CHAT.write(tuple(versions)).documents]
    assert names[0] == "K_t"
    assert len(set(names)) == 3


@each_row("of", SAMPLES)
def test_openai_accepts_samples(of: Tool) -> None:
    check_openai(function(of)["parameters"])
    check_losses(of, CHAT.write((of,)).losses)


def test_openai_accepts_corpora() -> None:
    for of in corpora() or pytest.skip("no corpora here"):
        (document,) = (written := RESPONSES.write((of,))).documents
        assert NAME.fullmatch(document["name"])
        check_openai(document["parameters"])
        check_losses(of, written.losses)
