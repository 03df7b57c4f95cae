"""Turns a Python type into JSON Schema, and values into JSON and back, pydantic models included."""

import datetime
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.fields import annotate_fields
from toolhall.schema.inline import drop_closing_items, hoist, inline

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_TEXTS = ("title", "description", "examples")
_FEW = 4
_SHORT = 1_000
_NUMBERS = frozenset({int, float, bool, type(None)})
_FIRST_BUFFER = 4_096
_BUFFER_GROWTH = 16
Mode: TypeAlias = Literal["validation", "serialization"]  # pydantic: aliases and defaults differ between the two


def schemas_of(hints: Sequence[Any], mode: Mode = "validation") -> list[JsonObject]:
    """One self-contained schema per type, of what is taken or given; raises TypeError where JSON cannot express it."""
    try:
        schemas, components = msgspec.json.schema_components(
            [prepared(hint) for hint in hints],
            schema_hook=functools.partial(_schema_hook, mode),
            ref_template="#/$defs/{name}",
        )
    except KeyError as error:  # msgspec tells types apart by module and name
        raise TypeError(f"there are two different types {error}; rename one of them") from None
    annotate_fields(list(hints), components)
    definitions: JsonObject = {}
    for name, component in components.items():
        definitions[name] = hoist(component, definitions)
    inlined = [inline({**hoist(schema, definitions), "$defs": definitions}) for schema in schemas]
    return [drop_closing_items(schema) for schema in inlined]


def to_json(value: object) -> bytes:
    """Any value an author may return, as JSON bytes."""
    return _encoder.encode(value)


def to_json_within(value: object, limit: int) -> bytes | None:
    """The same, as long as that takes at most `limit` bytes; None once it would take more.

    msgspec cannot count while it writes, but it cannot enlarge a buffer that has a view on it either: it stops with
    BufferError where the buffer ends, however much of the value is left. Small buffers are tried first, because each
    is filled with zeros before it is written to.
    """
    if type(value) is dict and len(value) <= _FEW:  # what most tools return
        for part in value.values():
            if type(part) not in _NUMBERS and (type(part) is not str or len(part) > _SHORT):
                break
        else:  # too small to be worth counting
            encoded = _encoder.encode(value)
            return encoded if len(encoded) <= limit else None
    size = _FIRST_BUFFER
    while True:
        size = min(size, limit)
        buffer = bytearray(size)
        view = memoryview(buffer)
        try:
            _encoder.encode_into(value, buffer)
        except BufferError:
            if size == limit:
                return None
            size *= _BUFFER_GROWTH
        else:
            return bytes(buffer) if len(buffer) <= limit else None
        finally:
            del view


def decoder_of(hint: Any) -> Callable[[Json], Any]:
    """A function that turns checked JSON into a value of this type; raises msgspec.ValidationError.

    A decoder is compiled once; `msgspec.convert` would look the type up on every call and take five times as long.
    """
    decode = msgspec.json.Decoder(prepared(hint), dec_hook=_decode_hook).decode
    return lambda value: decode(encode(value))


def prepared(hint: Any) -> Any:
    """The same type in msgspec's words: descriptions and bounds of any common notation become `Meta`."""
    if hint is datetime.datetime:  # msgspec leaves the format unsaid, because it also takes times without a zone
        return Annotated[hint, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(prepared(arguments[0]), arguments[1:])
    if not arguments or origin is None or _is_literal(origin):
        return hint
    changed = tuple(prepared(argument) for argument in arguments)
    if changed == arguments:
        return hint
    return Union[changed] if origin in (Union, types.UnionType) else origin[changed]  # noqa: UP007 - built at run time


def _is_literal(origin: Any) -> bool:
    return str(origin) == "typing.Literal"


def _annotated(base: Any, notes: tuple[Any, ...]) -> Any:
    for note in notes:
        for meta in _metas(note):
            base = Annotated[base, meta]
    return base


def _metas(note: Any) -> list[msgspec.Meta]:
    """A plain string, msgspec's Meta, an annotated-types bound or a pydantic Field, as Metas."""
    if isinstance(note, msgspec.Meta):
        return [note]
    if isinstance(note, str):
        return [msgspec.Meta(description=note)]
    found: dict[str, Any] = {
        key: value
        for key in (*_BOUNDS, *_TEXTS)
        if isinstance(value := getattr(note, key, None), int | float | str | list)
    }
    extra = getattr(note, "json_schema_extra", None)
    if isinstance(extra, dict):
        found["extra_json_schema"] = extra
    metas = [msgspec.Meta(**found)] if found else []
    for inner in getattr(note, "metadata", ()):
        metas.extend(_metas(inner))
    return metas


def is_pydantic(hint: Any) -> bool:
    """Whether this is a pydantic model, told without importing pydantic."""
    return isinstance(hint, type) and hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate")


class OldModel(TypeError):
    """A model of pydantic 1, or of `pydantic.v1`; the message names the fix."""


def _is_old_model(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "__fields__") and hasattr(hint, "parse_obj")


def is_path(hint: Any) -> bool:
    """Whether this is `pathlib.Path` or one of its kin, told without importing what can read files."""
    return isinstance(hint, type) and hasattr(hint, "__fspath__") and hasattr(hint, "joinpath")


def _path(kind: Any, value: Json) -> Any:
    if not isinstance(value, str):
        raise TypeError("a path is a string")
    if "\0" in value:  # no system has such a path, and every use would fail
        raise ValueError("a path holds no NUL character")
    return kind(value)


def _schema_hook(mode: Mode, hint: Any) -> JsonObject:
    if is_pydantic(hint):
        schema: JsonObject = hint.model_json_schema(ref_template="#/$defs/{model}", mode=mode)
        return schema
    if _is_old_model(hint):
        fix = "derive it from BaseModel of pydantic 2: pip install 'toolhall[pydantic]'"
        raise OldModel(f"{hint.__name__} is a model of pydantic 1; {fix}")
    if is_path(hint):
        return {"type": "string", "format": "path"}
    raise NotImplementedError  # msgspec then names the type in a TypeError


def _decode_hook(hint: Any, value: Json) -> Any:
    if is_pydantic(hint):
        return hint.model_validate(value)
    if is_path(hint):
        return _path(hint, value)
    raise NotImplementedError


def _encode_hook(value: Any) -> Json:
    if is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if is_path(type(value)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)
