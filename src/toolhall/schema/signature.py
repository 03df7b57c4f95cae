"""Reads a function's signature: what it takes as JSON Schema, how arguments become its parameters, what it returns."""

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from toolhall.model.content import CONTENT_TYPES, Reply
from toolhall.model.json import JsonObject
from toolhall.model.tool import Output
from toolhall.schema.binding import binder
from toolhall.schema.types import Mode, OldModel, schemas_of, to_json
from toolhall.schema.validator import Validator


class BadSignature(TypeError):
    """A function that cannot be a tool; the message names the parameter and the fix."""


class Signature(msgspec.Struct, frozen=True):
    """What a tool's function takes and gives."""

    input: JsonObject
    output: Output
    bind: Callable[[JsonObject], JsonObject]


def read_signature(function: Callable[..., Any], hidden: int, returns: Any = None) -> Signature:
    """The signature without its first `hidden` parameters; `returns` overrides the return annotation."""
    hints = get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[hidden:]
    for parameter in parameters:
        _check_parameter(parameter, hints)
    returned = hints.get("return", inspect.Signature.empty) if returns is None else returns
    return Signature(_input_schema(parameters, hints), output_of(returned), binder(parameters, hints))


def _check_parameter(parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise BadSignature(f"parameter '{name}': a tool cannot take *args or **kwargs; name every parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise BadSignature(f"parameter '{name}' is positional-only; remove the '/' from the signature")
    if name not in hints:
        raise BadSignature(f"parameter '{name}' has no type; annotate it, for example '{name}: str'")


def _input_schema(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> JsonObject:
    for parameter in parameters:
        _schemas_of(f"parameter '{parameter.name}'", [hints[parameter.name]])
    # Together, so that two types of one name get definitions of different names.
    schemas = _schemas_of("the parameters", [hints[parameter.name] for parameter in parameters])
    definitions: JsonObject = {}
    properties: JsonObject = {}
    for parameter, schema in zip(parameters, schemas, strict=True):
        definitions |= schema.pop("$defs", {})
        properties[parameter.name] = schema | _default(parameter, schema | {"$defs": definitions})
    # Always with `properties`: clients read them without asking whether they are there.
    result: JsonObject = {"type": "object", "properties": properties}
    required = [p.name for p in parameters if p.default is p.empty]
    if required:
        result["required"] = required
    result["additionalProperties"] = False  # an argument that nobody declared is a mistake or an attack
    return result | ({"$defs": definitions} if definitions else {})


def _schemas_of(what: str, hints: list[Any], mode: Mode = "validation") -> list[JsonObject]:
    try:
        return schemas_of(hints, mode)
    except OldModel as error:
        raise BadSignature(f"{what}: {error}") from None
    except (TypeError, NotImplementedError) as error:
        lines = str(error).splitlines()
        text = lines[-1] if lines[0].endswith(":") else lines[0]  # the rest speaks of msgspec's own hooks
        raise BadSignature(f"{what}: {text}; use a type that JSON can express, such as str or a dataclass") from None


def _default(parameter: inspect.Parameter, schema: JsonObject) -> JsonObject:
    if parameter.default is parameter.empty:
        return {}
    try:
        default = msgspec.json.decode(to_json(parameter.default))
    except (TypeError, ValueError, NotImplementedError):
        raise BadSignature(
            f"parameter '{parameter.name}': its default cannot be written as JSON; use None and fill it in inside"
        ) from None
    if not Validator(schema).accepts(default):
        raise BadSignature(f"parameter '{parameter.name}': its default does not fit its type; change one of them")
    return {"default": default}


def output_of(hint: Any) -> Output:
    """What a return annotation promises; blocks of content promise nothing that a schema could say."""
    if hint is inspect.Signature.empty or _is_content(hint):
        return Output()
    if hint is None or hint is type(None):
        return Output("none")
    return Output("schema", _schemas_of("the return type", [hint], "serialization")[0])


def _is_content(hint: Any) -> bool:
    if hint is Reply or hint in CONTENT_TYPES:
        return True
    arguments = [argument for argument in get_args(hint) if argument is not Ellipsis]
    return get_origin(hint) is not dict and any(_is_content(argument) for argument in arguments)
