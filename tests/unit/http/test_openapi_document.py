"""`GET /openapi.json`: the hall's own operations and every tool's, as the wire really takes them."""

import jsonschema_rs

from tests.harness.asgi_client import send_json
from toolhall import Toolhall, tool
from toolhall.dialects.openapi.builders import with_wire_limits
from toolhall.dialects.strict_json import MAX_DIGITS


@tool
def repeat(text: str, times: int = 1) -> str:
    """Repeat a text."""
    return text * times


async def test_openapi_lists_hall_and_tool_operations() -> None:
    with Toolhall(repeat) as hall:
        status, document = await send_json(hall, "/openapi.json")
    assert status == 200
    paths = document["paths"]
    assert [path for path in paths if not path.startswith("/api/")] == [
        "/tools/test_openapi_document/repeat",
        "/",
        "/tools",
        "/tasks",
        "/tasks/{id}",
        "/tasks/{id}/input",
        "/health",
        "/health/live",
        "/health/ready",
        "/resources",
        "/resources/read",
        "/prompts",
        "/prompts/{name}",
        "/complete",
    ]
    tags = {tag["name"] for tag in document["tags"]}
    assert all(set(operation["tags"]) <= tags for item in paths.values() for operation in item.values())


async def test_openapi_after_removal_omits_tool() -> None:
    with Toolhall(repeat) as hall:
        await send_json(hall, "/openapi.json")
        hall.remove("repeat")
        _, document = await send_json(hall, "/openapi.json")
    assert "/tools/test_openapi_document/repeat" not in document["paths"]


async def test_openapi_input_schemas_state_wire_limits() -> None:
    with Toolhall(repeat) as hall:
        _, document = await send_json(hall, "/openapi.json")
    judge = jsonschema_rs.validator_for(document["components"]["schemas"]["repeat.input"])
    assert judge.is_valid({"text": "a\n", "times": 10**MAX_DIGITS - 1})
    assert not judge.is_valid({"text": "a\0"})
    assert not judge.is_valid({"text": "a", "times": 10**MAX_DIGITS})


def test_wire_limits_keep_stated_limits() -> None:
    own = {"type": "string", "pattern": "^a$"}
    assert with_wire_limits(own) == own
    assert with_wire_limits({"type": "string", "enum": ["a"]}) == {"type": "string", "enum": ["a"]}
    assert with_wire_limits({"type": "integer", "minimum": 0})["minimum"] == 0
    assert with_wire_limits({"type": "number"}) == {"type": "number"}
    assert with_wire_limits(True) is True


def test_wire_limits_apply_to_subschemas() -> None:
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"a": text, "b": {"type": "array", "items": text}, "c": {"anyOf": [text, {"type": "null"}]}},
        "additionalProperties": text,
    }
    judge = jsonschema_rs.validator_for(with_wire_limits(schema))
    assert judge.is_valid({"a": "x", "b": ["x"], "c": None, "d": "x"})
    for wrong in ({"a": "\0"}, {"b": ["\0"]}, {"c": "\0"}, {"d": "\0"}, {"\0": "x"}, {"k" * 257: "x"}):
        assert not judge.is_valid(wrong)
