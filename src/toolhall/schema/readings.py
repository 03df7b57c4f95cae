"""The ways in which the arguments of one call can be read: as they were sent, and as the tool's function gets them."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from toolhall.model.errors import BadArguments
from toolhall.model.json import Json, JsonObject
from toolhall.schema.defaults import UNKNOWN, with_defaults
from toolhall.schema.types import is_path, is_pydantic

Bind: TypeAlias = Callable[[JsonObject], JsonObject]


def readings(schema: JsonObject, arguments: JsonObject, bind: Bind | None) -> Iterator[JsonObject]:
    """One, or two where they differ; raises BadArguments for what the function would refuse.

    A schema does not tell what a function's types make of what was left out, or that two texts are one UUID.
    """
    yield with_defaults(schema, arguments)
    if bind is not None:
        got = _got(bind, arguments)
        if repr(got) != repr(arguments):  # 1 is not true, though Python says they are equal
            yield with_defaults(schema, got)


def _got(bind: Bind, arguments: JsonObject) -> JsonObject:
    """What the function gets, as JSON; UNKNOWN where that cannot be told."""
    try:
        bound = bind(arguments)
    except BadArguments:
        raise
    except Exception:  # noqa: BLE001 - types run code of their own
        return dict.fromkeys(arguments, UNKNOWN)
    return {name: _written(value) for name, value in bound.items()}


def _written(value: object) -> Json:
    try:
        plain = msgspec.to_builtins(
            value, builtin_types=(type(UNKNOWN),), str_keys=True, enc_hook=_hook, order="deterministic"
        )
        return _listed(plain)
    except Exception:  # noqa: BLE001 - types run code of their own
        return UNKNOWN


def _hook(value: Any) -> object:
    """A model by the names of its schema: how it writes itself, and what it leaves out then, is for its readers."""
    if is_path(type(value)):
        return str(value)
    if not is_pydantic(type(value)):
        return UNKNOWN
    fields = type(value).model_fields
    if getattr(type(value), "__pydantic_root_model__", False):
        return value.root
    named = {field.validation_alias or name: getattr(value, name) for name, field in fields.items()}
    return {**(value.model_extra or {}), **named} if all(isinstance(name, str) for name in named) else UNKNOWN


def _listed(value: Json) -> Json:
    """JSON has lists only."""
    match value:
        case dict():
            return {name: _listed(each) for name, each in value.items()}
        case list() | tuple():
            return [_listed(each) for each in value]
        case _:
            return value
