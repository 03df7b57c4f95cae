"""What a schema calls secret."""

from typing import Any

import pytest

from toolhall.schema.secrecy import OPEN, Secrecy, secrecy_of

PASSWORD = {"type": "string", "format": "password"}
HIDDEN = {"type": "string", "writeOnly": True}


def members(*names: str) -> Secrecy:
    return Secrecy(frozenset(names))


@pytest.mark.parametrize(
    ("schema", "secrecy"),
    [
        (None, OPEN),
        ({"type": "object", "properties": {"a": {"type": "string", "format": "date"}}}, OPEN),
        ({"properties": {"a": {"writeOnly": False}, "b": True}}, OPEN),
        ({"properties": {"a": PASSWORD, "b": HIDDEN, "c": {}}}, members("a", "b")),
        ({"properties": {"a": {"properties": {"b/c": PASSWORD}}}}, members("b/c")),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, PASSWORD]}}}, members("a")),
        ({"properties": {"a": {"type": "array", "items": PASSWORD}}}, members("a")),
        ({"properties": {"a": {"prefixItems": [{}, HIDDEN]}}}, members("a")),
        ({"properties": {"a": {"additionalProperties": PASSWORD}}}, members("a")),
        ({"properties": {"a": {"patternProperties": {"^x": PASSWORD}}}}, members("a")),
        ({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": PASSWORD}}, members("a")),
        ({"properties": {"a": {"$ref": "#p"}}, "$defs": {"q": {"$anchor": "p", **PASSWORD}}}, members("a")),
        ({"properties": {"a": {}}, "$defs": {"unused": PASSWORD}}, OPEN),
        ({"allOf": [{"if": {}, "then": {"properties": {"a": HIDDEN}}}]}, members("a")),
        (PASSWORD, Secrecy(whole=True)),
        ({"items": PASSWORD}, Secrecy(whole=True)),
        ({"additionalProperties": HIDDEN}, Secrecy(whole=True)),
    ],
)
def test_what_is_secret(schema: Any, secrecy: Secrecy) -> None:
    assert secrecy_of(schema) == secrecy


def test_a_schema_that_holds_itself() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/node"}, "key": PASSWORD}}
    assert secrecy_of({"$ref": "#/$defs/node", "$defs": {"node": node}}) == members("key")
