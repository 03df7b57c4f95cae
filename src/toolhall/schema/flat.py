"""Forms that a client can show to a person: one object whose fields are plain values."""

from typing import Any

from toolhall.model.json import JsonObject
from toolhall.schema.types import schemas_of

_PLAIN = ("string", "number", "integer", "boolean")


def flat_form(form: Any) -> JsonObject:
    """The schema of a form; raises TypeError where a field is not a string, number, boolean or choice."""
    schema = schemas_of([form])[0]
    if schema.get("type") != "object":
        raise TypeError(f"{form!r} is not a form: use a dataclass, a msgspec.Struct or a TypedDict with plain fields")
    fields = {name: _field(name, field) for name, field in schema.get("properties", {}).items()}
    result: JsonObject = {"type": "object", "properties": fields}
    if schema.get("required"):
        result["required"] = schema["required"]
    return result


def _field(name: str, field: JsonObject) -> JsonObject:
    if "enum" in field:  # msgspec leaves the type of an enum unsaid
        return {"type": "string", **field}
    options = [part for part in field.get("anyOf", []) if part.get("type") != "null"]
    if len(options) == 1:
        return {**{key: part for key, part in field.items() if key not in ("anyOf", "default")}, **options[0]}
    if field.get("type") in _PLAIN or _is_choice_list(field):
        return field
    raise TypeError(
        f"field '{name}' cannot be shown in a form: use str, int, float, bool, Literal or a list of Literal"
    )


def _is_choice_list(field: JsonObject) -> bool:
    return field.get("type") == "array" and "enum" in field.get("items", {})
