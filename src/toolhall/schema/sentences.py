"""What a keyword says, as a short sentence for a description, where a target has no such keyword."""

from toolhall.model.json import Json, JsonObject, encode

LONGEST = 300
_SENTENCES = {
    "const": "Always {}.",
    "enum": "One of: {}.",
    "default": "Default: {}.",
    "examples": "Examples: {}.",
    "format": "Format: {}.",
    "pattern": "Pattern: {}.",
    "minLength": "Minimum length: {}.",
    "maxLength": "Maximum length: {}.",
    "minimum": "Minimum: {}.",
    "maximum": "Maximum: {}.",
    "exclusiveMinimum": "Greater than {}.",
    "exclusiveMaximum": "Less than {}.",
    "multipleOf": "A multiple of {}.",
    "minItems": "Minimum number of items: {}.",
    "maxItems": "Maximum number of items: {}.",
    "minProperties": "Minimum number of properties: {}.",
    "maxProperties": "Maximum number of properties: {}.",
    "required": "Also required: {}.",
    "additionalProperties": "Any other property: {}.",
    "dependentRequired": "Required together: {}.",
    "propertyNames": "Property names: {}.",
    "patternProperties": "Properties by pattern: {}.",
    "prefixItems": "The first items, in order: {}.",
    "not": "Not: {}.",
    "if": "If: {}.",
    "then": "Then: {}.",
    "else": "Else: {}.",
    "contains": "Contains: {}.",
}
_PLAIN = {"uniqueItems": "All items differ.", "deprecated": "Deprecated."}


def sentence(key: str, value: Json) -> str | None:
    """A sentence for a description; None where there is nothing to say, or too much."""
    if key in _PLAIN:
        return _PLAIN[key] if value else None
    if key in ("anyOf", "oneOf"):
        return choice(value, one=key == "oneOf")
    form = _SENTENCES.get(key)
    if form is None or value is False:
        return None
    text = form.format(_shown(value))
    return text if len(text) <= LONGEST else None


def choice(branches: list[Json], *, one: bool) -> str | None:
    """A sentence for alternatives that differ in what they require."""
    sets = list(dict.fromkeys(" and ".join(_required(branch)) for branch in branches))
    if not all(sets) or len(sets) == 1:
        return None
    text = f"Give {'exactly' if one else 'at least'} one of these: {', or '.join(sets)}."
    return text if len(text) <= LONGEST else None


def _required(branch: Json) -> list[str]:
    found = branch.get("required") if isinstance(branch, dict) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def described(schema: JsonObject, notes: list[str]) -> JsonObject:
    """The schema with sentences added to its description."""
    if not notes:
        return schema
    return {
        **schema,
        "description": " ".join([*([schema["description"]] if schema.get("description") else []), *notes]),
    }


def _shown(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(encode(each).decode() for each in value)
    return encode(value).decode()
