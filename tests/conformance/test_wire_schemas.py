"""Definitions that no client should be shown are refused when the tool is registered, and say why."""

from typing import Any

import pytest

from toolhall import Icon, Toolhall, tool
from toolhall.dialects.mcp.errors import TABLE, ProtocolError, translate_error
from toolhall.model import errors

DIALECTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
]


def register(schema: dict[str, Any], **options: Any) -> None:
    """Register a tool with this input schema."""

    @tool(input=schema, **options)
    async def anything(**arguments: Any) -> Any:
        """Take anything."""
        return arguments

    with Toolhall(anything):
        pass


def refusal_reason(schema: dict[str, Any], **options: Any) -> str:
    """The reason for which a tool with this schema is refused."""
    with pytest.raises((ValueError, TypeError)) as caught:
        register(schema, **options)
    return str(caught.value)


@pytest.mark.requirement("L-27", "M-13")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_schema_dialect_known_is_accepted(dialect: str) -> None:
    register({"$schema": dialect, "type": "object"})


@pytest.mark.requirement("L-27", "M-13")
@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-03/schema#", "https://example.com/mine", 7, ""])
def test_schema_dialect_unknown_is_refused(dialect: object) -> None:
    assert "dialect" in refusal_reason({"$schema": dialect, "type": "object"})


@pytest.mark.requirement("L-27", "M-13")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "text"}}},
        {"type": "object", "properties": {"a": {"minimum": "one"}}},
        {"type": "object", "properties": [1]},
        {"type": "object", "required": "a"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": 7}},
    ],
)
def test_input_schema_invalid_is_refused(schema: dict[str, Any]) -> None:
    assert refusal_reason(schema)


@pytest.mark.requirement("L-25", "M-20")
@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"type": "array"}, {"type": ["object", "null"]}, {}, {"properties": {}}]
)
def test_input_schema_not_of_type_object_is_refused(schema: dict[str, Any]) -> None:
    assert "object" in refusal_reason(schema)


@pytest.mark.requirement("M-14")
@pytest.mark.parametrize(
    "reference",
    [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/x",
        "file:///etc/passwd",
        "other.json",
        "//example.com/x",
        "urn:x:y",
    ],
)
def test_schema_reference_to_another_document_is_refused(reference: str) -> None:
    assert "reference" in refusal_reason({"type": "object", "properties": {"a": {"$ref": reference}}})
    assert "reference" in refusal_reason({"type": "object", "properties": {"a": {"$dynamicRef": reference}}})
    assert refusal_reason(
        {"type": "object", "$defs": {"x": {"$id": reference}}, "properties": {"a": {"$ref": "#/$defs/x"}}}
    )


@pytest.mark.requirement("M-14")
def test_schema_reference_to_a_missing_definition_is_refused() -> None:
    assert "nowhere" in refusal_reason({"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}})


def nested(levels: int) -> dict[str, Any]:
    """A schema this deep."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.requirement("M-15")
def test_schema_too_deep_too_large_or_recursive_is_refused() -> None:
    assert "deep" in refusal_reason(nested(100))
    assert "subschemas" in refusal_reason({"type": "object", "properties": {f"p{n}": {} for n in range(3_000)}})
    assert "bytes" in refusal_reason({"type": "object", "description": "x" * 100_000})
    doubled: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 30):
        doubled[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}, {"$ref": f"#/$defs/d{level - 1}"}]}
    assert refusal_reason({"type": "object", "$defs": doubled, "properties": {"a": {"$ref": "#/$defs/d29"}}})
    loop = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    assert refusal_reason({"type": "object", "$defs": loop, "properties": {"x": {"$ref": "#/$defs/a"}}})


def marked(schema: dict[str, Any]) -> dict[str, Any]:
    """An input schema whose one property is this."""
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.requirement("M-34")
@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_header_parameter_of_a_scalar_type_is_accepted(kind: str) -> None:
    register(marked({"type": kind, "x-mcp-header": "Region"}))
    register(marked({"type": "object", "properties": {"b": {"type": kind, "x-mcp-header": "X-1.2_3"}}}))


@pytest.mark.requirement("M-34")
@pytest.mark.parametrize("header", ["", "with space", "a:b", "ünï", "a\r\nb", "a\n", 7, None, "(x)"])
def test_header_parameter_with_an_invalid_header_name_is_refused(header: object) -> None:
    assert "x-mcp-header" in refusal_reason(marked({"type": "string", "x-mcp-header": header}))


@pytest.mark.requirement("M-34")
@pytest.mark.parametrize("kind", ["number", "array", "object", "null", ["string", "null"], None])
def test_header_parameter_of_another_type_is_refused(kind: object) -> None:
    schema = {"x-mcp-header": "Region"} | ({} if kind is None else {"type": kind})
    assert "x-mcp-header" in refusal_reason(marked(schema))


@pytest.mark.requirement("M-34")
@pytest.mark.parametrize(
    "where", ["items", "anyOf", "allOf", "oneOf", "not", "if", "then", "$defs", "additionalProperties"]
)
def test_header_parameter_not_reached_by_properties_is_refused(where: str) -> None:
    inner = {"type": "string", "x-mcp-header": "Region"}
    held = [inner] if where.endswith("Of") else {"x": inner} if where == "$defs" else inner
    outer = {"type": "object", "properties": {"a": {where: held}}}
    assert "x-mcp-header" in refusal_reason(outer)


@pytest.mark.requirement("M-34")
def test_header_parameters_that_share_a_header_are_refused() -> None:
    one, two = {"type": "string", "x-mcp-header": "Region"}, {"type": "string", "x-mcp-header": "REGION"}
    assert "twice" in refusal_reason({"type": "object", "properties": {"a": one, "b": two}})


@pytest.mark.requirement("M-35")
@pytest.mark.parametrize("name", ["password", "api_key", "access_token", "client_secret", "Authorization"])
def test_header_parameter_named_like_a_secret_is_refused(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string", "x-mcp-header": "Region"}}}
    assert "secret" in refusal_reason(schema)


@pytest.mark.requirement("L-26", "M-20")
@pytest.mark.parametrize("name", ["", "with space", "a,b", "a/b", "ünï", "x" * 129, "a\n"])
def test_tool_name_outside_the_mcp_character_set_is_refused(name: str) -> None:
    assert refusal_reason({"type": "object"}, name=name)


@pytest.mark.requirement("L-26", "M-20")
def test_tool_names_equal_but_for_case_are_refused() -> None:
    @tool(name="same")
    async def one() -> str:
        """One."""
        return "one"

    @tool(name="Same")
    async def two() -> str:
        """Two."""
        return "two"

    for pair in ((one, one), (one, two)):
        with pytest.raises(ValueError, match=r"(?i)same"):
            Toolhall(*pair)


@pytest.mark.requirement("M-21")
@pytest.mark.parametrize(
    "source", ["javascript:alert(1)", "file:///etc/passwd", "http://example.com/a.png", "icon.png", ""]
)
def test_icon_source_other_than_https_or_data_is_refused(source: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        register({"type": "object"}, icons=[Icon(src=source)])


@pytest.mark.requirement("M-8", "J-4")
def test_error_table_codes_are_defined_or_outside_the_reserved_range() -> None:
    reserved = set(range(-32099, -31999)) - {-32020, -32021, -32022}
    defined = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
    made: dict[type, errors.ToolhallError] = {
        errors.BadArguments: errors.BadArguments([errors.Problem("/x", "wrong")]),
        errors.Limited: errors.Limited(1.0),
        errors.Unsupported: errors.Unsupported("sampling"),
    }
    for kind in TABLE:
        said = translate_error(made[kind] if kind in made else kind())
        if isinstance(said, ProtocolError):
            assert said.code not in reserved
            assert said.code in defined or not -32768 <= said.code <= -32000, f"{kind.__name__}: {said.code}"
