"""Forms that a client can show to a person: one object whose fields are plain values."""

from typing import Any

from toolhall.model.json import JsonObject
from toolhall.schema.headers import looks_secret
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


def refuse_secrets(schema: JsonObject) -> None:
    """A form passes through the client and its logs: nobody may be asked for a password in one."""
    for name in schema.get("properties", {}):
        if looks_secret(name):
            raise TypeError(f"field '{name}' asks for a secret; send the person to a page with ctx.visit instead")


def _field(name: str, field: JsonObject) -> JsonObject:
    if "enum" in field and all(isinstance(choice, str | None) for choice in field["enum"]):
        # msgspec leaves the type of an enum unsaid; a field that may be left empty need not be filled in
        return {**_said(field), "type": "string", "enum": [choice for choice in field["enum"] if choice is not None]}
    options = [part for part in field.get("anyOf", []) if part.get("type") != "null"]
    if len(options) == 1:
        return _field(name, {**{key: part for key, part in field.items() if key != "anyOf"}, **options[0]})
    if field.get("type") in _PLAIN or _is_choice_list(field):
        return _said(field)
    raise TypeError(
        f"field '{name}' cannot be shown in a form: use str, int, float, bool, Literal or a list of Literal"
    )


def _said(field: JsonObject) -> JsonObject:
    """Without a default of null, which says no more than leaving the field out."""
    return {key: part for key, part in field.items() if key != "default" or part is not None}


def _is_choice_list(field: JsonObject) -> bool:
    return field.get("type") == "array" and "enum" in field.get("items", {})
