"""Machine Context parameters: a flat list with six types, to JSON Schema and back."""

from toolhall.dialects.findings import Reading
from toolhall.model.json import Json, JsonObject

TYPES = ("string", "number", "boolean", "object", "array", "any")


def read_parameters(reading: Reading, parameters: Json, path: str) -> JsonObject:
    """The input schema that a list of parameters stands for."""
    properties: JsonObject = {}
    required: list[str] = []
    for index, listed in enumerate(reading.items([] if parameters is None else parameters, path)):
        place = f"{path}/{index}"
        parameter = reading.object(listed, place)
        name = reading.text(parameter, "name", place)
        if name is None:
            continue
        if name in properties:
            reading.fault(f"{place}/name", "twice", f"{name!r} is the name of two parameters; rename one")
        properties[name] = _property(reading, parameter, place)
        if _is_required(reading, parameter, place):
            required.append(name)
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema | ({"required": required} if required else {})


def _property(reading: Reading, parameter: JsonObject, place: str) -> JsonObject:
    kind = parameter.get("type")
    if kind not in TYPES:
        reading.fault(f"{place}/type", "type", f"use one of {', '.join(TYPES)}")
    schema: JsonObject = {} if kind == "any" else {"type": kind}
    description = reading.text(parameter, "description", place)
    if description is not None:
        schema["description"] = description
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
    return [_parameter(name, part, name in needed) for name, part in named.items()]


def _parameter(name: str, schema: Json, required: bool) -> JsonObject:
    schema = schema if isinstance(schema, dict) else {}
    parameter: JsonObject = {
        "name": name,
        "description": schema.get("description") or schema.get("title") or name,
        "type": _type(schema.get("type")),
        "required": required,
    }
    return parameter | ({"default": schema["default"]} if "default" in schema else {})


def _type(kind: Json) -> str:
    if kind == "integer":
        return "number"
    return kind if kind in TYPES else "any"
