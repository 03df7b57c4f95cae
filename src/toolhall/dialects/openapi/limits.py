"""What the wire refuses whatever a tool's schema says, written into the schema, so that the description is true.

Strict JSON has no U+0000, no integer of more than 20 digits and no key of more than 256 characters (`dialects/strict`).
"""

from toolhall.dialects.strict import MAX_DIGITS, MAX_KEY
from toolhall.model.json import Json, JsonObject

_MOST = 10**MAX_DIGITS - 1
_TEXT = r"^[^\u0000]*$"
_SPEAKS_FOR_ITSELF = ("enum", "const", "pattern", "format")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items",
    "additionalProperties",
    "contains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "if",
    "then",
    "else",
)
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def limited(schema: Json) -> Json:
    """The schema with the limits of the wire, where it says nothing itself."""
    if not isinstance(schema, dict):
        return schema
    found: JsonObject = dict(schema)
    for key in _LISTS:
        if isinstance(found.get(key), list):
            found[key] = [limited(part) for part in found[key]]
    for key in _SINGLE:
        if key in found:
            found[key] = limited(found[key])
    for key in _NAMED:
        if isinstance(found.get(key), dict):
            found[key] = {name: limited(part) for name, part in found[key].items()}
    return found | _limits(found)


def _limits(schema: JsonObject) -> JsonObject:
    if schema.keys() & set(_SPEAKS_FOR_ITSELF):
        return {}
    kind = schema.get("type")
    kinds = set(kind) if isinstance(kind, list) else {kind}
    limits: JsonObject = {}
    if "string" in kinds:
        limits["pattern"] = _TEXT
    if "integer" in kinds and "number" not in kinds:  # a number may be larger if it is not written as an integer
        limits |= {} if schema.keys() & {"minimum", "exclusiveMinimum"} else {"minimum": -_MOST}
        limits |= {} if schema.keys() & {"maximum", "exclusiveMaximum"} else {"maximum": _MOST}
    if "object" in kinds and schema.get("additionalProperties") is not False and "propertyNames" not in schema:
        limits["propertyNames"] = {"pattern": _TEXT, "maxLength": MAX_KEY}
    return limits
