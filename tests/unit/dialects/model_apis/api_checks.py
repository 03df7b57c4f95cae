"""Independent checks of what each model API accepts."""

import re
from collections.abc import Iterator

import jsonschema_rs

from toolhall.dialects.base import Loss
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
GEMINI_KEYS = {
    "string": {"enum", "format", "minLength", "maxLength", "pattern"},
    "integer": {"format", "minimum", "maximum"},
    "number": {"format", "minimum", "maximum"},
    "boolean": set[str](),
    "array": {"items", "minItems", "maxItems"},
    "object": {"properties", "required", "minProperties", "maxProperties"},
}
STRICT_KEYS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref", "$defs", "title",
    "description", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minItems", "maxItems",
}  # fmt: skip


def accepts(schema: Json) -> jsonschema_rs.Draft202012Validator:
    """A validator of JSON Schema 2020-12, for which formats are mere hints."""
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=False)


def check_root(schema: JsonObject) -> None:
    """One plain object at the top, in valid JSON Schema 2020-12."""
    jsonschema_rs.meta.validate(schema)
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref"}


def check_anthropic(schema: JsonObject) -> None:
    check_root(schema)
    assert all(ANTHROPIC_KEY.fullmatch(key) for key in schema["properties"])
    assert not list(holders(schema, "$ref"))


def check_openai(schema: JsonObject) -> None:
    check_root(schema)
    accepts(schema)  # every reference leads somewhere
    for part in subschemas(schema):
        kinds = [part.get("type")] if isinstance(part.get("type"), str) else part.get("type", [])
        assert "array" not in kinds or "items" in part


def check_strict(schema: JsonObject) -> None:
    check_root(schema)
    accepts(schema)
    for part in subschemas(schema):
        assert part.keys() <= STRICT_KEYS, part
        assert "$ref" not in part or part.keys() == {"$ref"}
        assert part.keys() & {"type", "anyOf", "$ref"}, part
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
        if part.get("type") == "array":
            assert "items" in part


def check_gemini(schema: JsonObject) -> None:
    if "anyOf" in schema:
        assert schema.keys() == {"anyOf"}, "nothing may stand beside anyOf"
        assert len(schema["anyOf"]) > 1
        for part in schema["anyOf"]:
            check_gemini(part)
        return
    kind = schema["type"]
    assert schema.keys() <= {"type", "title", "description", "default", "nullable"} | GEMINI_KEYS[kind], schema
    assert all(isinstance(value, str) and value for value in schema.get("enum", ["x"]))
    assert schema.get("enum") != []
    assert schema.get("format", "date-time") in ("date-time", "int32", "int64", "float", "double")
    if kind == "array":
        check_gemini(schema["items"])
    if kind == "object":
        assert schema.get("properties") != {}, "an empty list of members is refused"
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()
        for part in schema.get("properties", {}).values():
            check_gemini(part)


def as_json_schema(schema: JsonObject) -> JsonObject:
    """Gemini's schema as JSON Schema: the same but for `nullable`."""
    plain = {key: part for key, part in schema.items() if key != "nullable"}
    if "properties" in plain:
        plain["properties"] = {key: as_json_schema(part) for key, part in plain["properties"].items()}
    if "items" in plain:
        plain["items"] = as_json_schema(plain["items"])
    if "anyOf" in plain:
        plain["anyOf"] = [as_json_schema(part) for part in plain["anyOf"]]
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") else plain


def check_losses(tool: Tool, losses: list[Loss]) -> None:
    """Each points at something that is there, once, and says why."""
    assert len({(loss.path, loss.reason) for loss in losses}) == len(losses)
    for loss in losses:
        assert loss.reason
        if loss.path.startswith("/inputSchema"):
            found: Json = tool.input
            for part in loss.path.split("/")[2:]:
                key = part.replace("~1", "/").replace("~0", "~")
                found = found[int(key)] if isinstance(found, list) else found[key]


def holders(part: Json, key: str) -> Iterator[JsonObject]:
    """Every schema with this keyword."""
    return (schema for schema in subschemas(part) if key in schema)


def subschemas(schema: Json) -> Iterator[JsonObject]:
    """A schema and all that it holds."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
        for part in schema.get(key, {}).values():
            yield from subschemas(part)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for part in schema.get(key, []):
            yield from subschemas(part)
    for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        yield from subschemas(schema.get(key))
