"""What a schema calls secret."""

from typing import Any

import pytest

from toolhall.schema.annotations import NO_SECRET_FIELDS, SecretFields, secret_fields_of

PASSWORD = {"type": "string", "format": "password"}
HIDDEN = {"type": "string", "writeOnly": True}


def members(*names: str) -> SecretFields:
    return SecretFields(frozenset(names))


def test_secret_fields_of_marked_schemas(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, SecretFields]] = [
        (None, NO_SECRET_FIELDS),
        ({"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}, NO_SECRET_FIELDS),
        ({"properties": {"a": {"writeOnly": False}, "b": True}}, NO_SECRET_FIELDS),
        ({"properties": {"a": PASSWORD, "b": HIDDEN, "c": {}}}, members("a", "b")),
        ({"properties": {"a": {"properties": {"b/c": PASSWORD}}}}, members("b/c")),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, PASSWORD]}}}, members("a")),
        ({"properties": {"a": {"type": "array", "items": PASSWORD}}}, members("a")),
        ({"properties": {"a": {"prefixItems": [{}, HIDDEN]}}}, members("a")),
        ({"properties": {"a": {"additionalProperties": PASSWORD}}}, members("a")),
        ({"properties": {"a": {"patternProperties": {"^x": PASSWORD}}}}, members("a")),
        ({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": PASSWORD}}, members("a")),
        ({"properties": {"a": {"$ref": "#p"}}, "$defs": {"q": {"$anchor": "p", **PASSWORD}}}, members("a")),
        ({"properties": {"a": {}}, "$defs": {"unused": PASSWORD}}, NO_SECRET_FIELDS),
        ({"allOf": [{"if": {}, "then": {"properties": {"a": HIDDEN}}}]}, members("a")),
        (PASSWORD, SecretFields(whole=True)),
        ({"items": PASSWORD}, SecretFields(whole=True)),
        ({"additionalProperties": HIDDEN}, SecretFields(whole=True)),
    ]
    for schema, secrecy in rows:
        with subtests.test(repr((schema, secrecy))):
            assert secret_fields_of(schema) == secrecy


def test_secret_fields_of_recursive_schema() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}, "key": PASSWORD}}
    assert secret_fields_of({"$ref": "#/$defs/node", "$defs": {"node": node}}) == members("key")
