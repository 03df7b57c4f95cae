"""Machine Context parameters: a flat list with six types, to JSON Schema and back."""

from toolhall.dialects.findings import Reading
from toolhall.model.json import Json, JsonObject

TYPES = ("string", "number", "boolean", "object", "array", "any")


def read_parameters(reading: Reading, parameters: Json, path: str) -> JsonObject:
    """The input schema that a list of parameters stands for."""
    properties: JsonObject = {}
    required: list[str] = []
    listed = reading.items([] if parameters is None else parameters, path)
    reading.unique(listed, path, "parameters")
    for index, each in enumerate(listed):
        place = f"{path}/{index}"
        parameter = reading.object(each, place)
        name = reading.text(parameter, "name", place) or ""
        properties[name] = _property(reading, parameter, place)
        if _is_required(reading, parameter, place):
            required.append(name)
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema


def _property(reading: Reading, parameter: JsonObject, place: str) -> JsonObject:
    kind = parameter.get("type")
    if kind not in TYPES:
        reading.fault(f"{place}/type", "type", f"use one of {', '.join(TYPES)}")
    schema: JsonObject = {} if kind == "any" else {"type": kind}
    schema["description"] = reading.text(parameter, "description", place)
    if "default" in parameter:
        schema["default"] = parameter["default"]
    return schema


def _is_required(reading: Reading, parameter: JsonObject, place: str) -> bool:
    required = parameter.get("required", False)
    if not isinstance(required, bool):
        reading.fault(f"{place}/required", "not-boolean", "write true or false")
    return required is True


def write_parameters(schema: JsonObject) -> list[JsonObject]:
    """The parameters of an input schema, as far as six types can say them."""
    properties, required = schema.get("properties"), schema.get("required")
    named = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    # JSON Schema knows a property without a name, a list of parameters does not.
    return [_parameter(name, part, name in needed) for name, part in named.items() if name]


def _parameter(name: str, schema: Json, required: bool) -> JsonObject:
    schema = schema if isinstance(schema, dict) else {}
    parameter: JsonObject = {
        "name": name,
        "description": _described(schema, name),
        "type": _type(schema.get("type")),
        "required": required,
    }
    if "default" in schema:
        parameter["default"] = schema["default"]
    return parameter


def _described(schema: JsonObject, name: str) -> str:
    description = schema.get("description") or schema.get("title")
    return description if description and isinstance(description, str) else name


def _type(kind: Json) -> str:
    if kind == "integer":
        return "number"
    return kind if kind in TYPES else "any"
