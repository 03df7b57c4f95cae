"""Converts Python types to JSON Schema, and values to JSON and back, including pydantic models.

msgspec does the work; this module adds descriptions and bounds of other notations (pydantic's Field, annotated-types),
pydantic models and paths. The schemas avoid what real clients cannot read: references are inlined unless they are
recursive, and there is no `items: false` behind `prefixItems`.
"""

import dataclasses
import datetime
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.schema.keywords import subschemas

MAX_INLINED = 500
_DEFS_PREFIX = "#/$defs/"
_KEYWORD_BY_ATTRIBUTE = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
}
_LENGTH_KEYWORDS = {"min_length": ("minLength", "minItems"), "max_length": ("maxLength", "maxItems")}
_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_TEXTS = ("title", "description", "examples")
_SMALL_MEMBERS = 4
_SMALL_TEXT = 1_000
_NUMBERS = frozenset({int, float, bool, type(None)})
_FIRST_BUFFER = 4_096
_BUFFER_GROWTH = 16
SchemaMode: TypeAlias = Literal["validation", "serialization"]  # pydantic: aliases and defaults differ between the two


def schemas_of(hints: Sequence[Any], mode: SchemaMode = "validation") -> list[JsonObject]:
    """One self-contained schema per type; raises TypeError for a type that JSON cannot express."""
    try:
        schemas, components = msgspec.json.schema_components(
            [to_msgspec_type(hint) for hint in hints],
            schema_hook=functools.partial(_schema_hook, mode),
            ref_template="#/$defs/{name}",
        )
    except KeyError as error:  # msgspec identifies types by module and name
        raise TypeError(f"there are two different types {error}; rename one of them") from None
    annotate_fields(list(hints), components)
    definitions: JsonObject = {}
    for name, component in components.items():
        definitions[name] = hoist_definitions(component, definitions)
    inlined = [
        inline_references({**hoist_definitions(schema, definitions), "$defs": definitions}) for schema in schemas
    ]
    return [drop_closing_items(schema) for schema in inlined]


def to_json(value: object) -> bytes:
    """Encode any value that a tool may return as JSON."""
    return _encoder.encode(value)


def to_json_within(value: object, limit: int) -> bytes | None:
    """Encode a value as JSON; None if that takes more than `limit` bytes, without encoding the rest.

    msgspec has no size limit, but it cannot resize a buffer that has a memoryview: it raises BufferError at the end of
    the buffer, however much of the value is left. Small buffers are tried first, because each is zeroed when it is
    allocated.
    """
    if type(value) is dict and len(value) <= _SMALL_MEMBERS:  # the usual result of a tool
        for part in value.values():
            if type(part) not in _NUMBERS and (type(part) is not str or len(part) > _SMALL_TEXT):
                break
        else:  # too small for the buffer to be worthwhile
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
    """A function that converts JSON to a value of this type; it raises msgspec.ValidationError.

    It uses a compiled decoder: `msgspec.convert` inspects the type on every call and takes five times as long.
    """
    decode = bytes_decoder_of(hint)
    return lambda value: decode(encode(value))


def bytes_decoder_of(hint: Any) -> Callable[[bytes], Any]:
    """A function that decodes JSON bytes to a value of this type; it raises msgspec.ValidationError."""
    return msgspec.json.Decoder(to_msgspec_type(hint), dec_hook=_decode_hook).decode


def to_msgspec_type(hint: Any) -> Any:
    """The type for msgspec: descriptions and bounds of any common notation become `Meta`."""
    if hint is datetime.datetime:  # msgspec omits the format, because it also accepts times without a zone
        return Annotated[hint, msgspec.Meta(extra_json_schema={"format": "date-time"})]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _with_metas(to_msgspec_type(arguments[0]), arguments[1:])
    if not arguments or origin is None or _is_literal(origin):
        return hint
    converted = tuple(to_msgspec_type(argument) for argument in arguments)
    if converted == arguments:
        return hint
    return Union[converted] if origin in (Union, types.UnionType) else origin[converted]  # noqa: UP007 - built at run time


def _is_literal(origin: Any) -> bool:
    return str(origin) == "typing.Literal"


def _with_metas(base: Any, notes: tuple[Any, ...]) -> Any:
    for note in notes:
        for meta in _metas_of_note(note):
            base = Annotated[base, meta]
    return base


def _metas_of_note(note: Any) -> list[msgspec.Meta]:
    """The Metas of one annotation: a string, msgspec's Meta, an annotated-types bound or a pydantic Field."""
    if isinstance(note, msgspec.Meta):
        return [note]
    if isinstance(note, str):
        return [msgspec.Meta(description=note)]
    fields: dict[str, Any] = {
        key: value
        for key in (*_BOUNDS, *_TEXTS)
        if isinstance(value := getattr(note, key, None), int | float | str | list)
    }
    extra = getattr(note, "json_schema_extra", None)
    if isinstance(extra, dict):
        fields["extra_json_schema"] = extra
    metas = [msgspec.Meta(**fields)] if fields else []
    for inner in getattr(note, "metadata", ()):
        metas.extend(_metas_of_note(inner))
    return metas


def is_pydantic_model(hint: Any) -> bool:
    """Whether this is a pydantic 2 model, without importing pydantic."""
    return isinstance(hint, type) and hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate")


class PydanticV1Model(TypeError):
    """A model of pydantic 1, or of `pydantic.v1`; the message names the fix."""


def _is_pydantic_v1(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "__fields__") and hasattr(hint, "parse_obj")


def is_path_type(hint: Any) -> bool:
    """Whether this is `pathlib.Path` or a related class, without importing pathlib."""
    return isinstance(hint, type) and hasattr(hint, "__fspath__") and hasattr(hint, "joinpath")


def _decode_path(kind: Any, value: Json) -> Any:
    if not isinstance(value, str):
        raise TypeError("a path is a string")
    if "\0" in value:  # no operating system allows it
        raise ValueError("a path cannot contain a NUL character")
    return kind(value)


def _schema_hook(mode: SchemaMode, hint: Any) -> JsonObject:
    if is_pydantic_model(hint):
        schema: JsonObject = hint.model_json_schema(ref_template="#/$defs/{model}", mode=mode)
        return schema
    if _is_pydantic_v1(hint):
        fix = "derive it from BaseModel of pydantic 2: pip install 'toolhall[pydantic]'"
        raise PydanticV1Model(f"{hint.__name__} is a model of pydantic 1; {fix}")
    if is_path_type(hint):
        return {"type": "string", "format": "path"}
    raise NotImplementedError  # msgspec then names the type in a TypeError


def _decode_hook(hint: Any, value: Json) -> Any:
    if is_pydantic_model(hint):
        return hint.model_validate(value)
    if is_path_type(hint):
        return _decode_path(hint, value)
    raise NotImplementedError


def _encode_hook(value: Any) -> Json:
    if is_pydantic_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if is_path_type(type(value)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


def annotate_fields(hints: list[Any], definitions: JsonObject) -> None:
    """Add descriptions and bounds from annotations to the definitions of all classes reachable from these types."""
    for kind in _reachable_classes(hints):
        properties = definitions.get(kind.__name__, {}).get("properties", {})
        for name, hint in get_type_hints(kind, include_extras=True).items():
            schema = properties.get(_wire_name(kind, name))
            if isinstance(schema, dict):
                for keyword, value in _field_keywords(hint, schema).items():
                    schema.setdefault(keyword, value)


def _reachable_classes(hints: list[Any]) -> list[type]:
    """All classes with fields that are reachable from these types."""
    classes: dict[type, None] = {}
    pending = list(hints)
    while pending:
        hint = pending.pop()
        pending.extend(get_args(hint))
        if isinstance(hint, type) and hint not in classes and has_fields(hint):
            classes[hint] = None
            pending.extend(get_type_hints(hint, include_extras=True).values())
    return list(classes)


def has_fields(hint: type) -> bool:
    """Whether a class is a dataclass, a TypedDict or a msgspec Struct."""
    return dataclasses.is_dataclass(hint) or is_typeddict(hint) or issubclass(hint, msgspec.Struct)


def field_hints(kind: type) -> dict[str, Any]:
    """The types of a class's fields, by their JSON names."""
    return {_wire_name(kind, name): hint for name, hint in get_type_hints(kind, include_extras=True).items()}


def _wire_name(kind: type, name: str) -> str:
    if not issubclass(kind, msgspec.Struct):
        return name
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)).get(name, name)


def _field_keywords(hint: Any, schema: JsonObject) -> JsonObject:
    """The JSON Schema keywords that a field's annotations express."""
    keywords: JsonObject = {}
    base, notes = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    if base is datetime.datetime:
        keywords["format"] = "date-time"
    for note in _flatten_notes(notes):
        if isinstance(note, str):
            keywords["description"] = note
            continue
        for attribute, keyword in _KEYWORD_BY_ATTRIBUTE.items():
            value = getattr(note, attribute, None)
            if isinstance(value, int | float | str) and not callable(value):
                keywords[keyword] = value
        for attribute, (for_string, for_array) in _LENGTH_KEYWORDS.items():
            if isinstance(value := getattr(note, attribute, None), int):
                keywords[for_array if schema.get("type") == "array" else for_string] = value
    return keywords


def _flatten_notes(notes: tuple[Any, ...]) -> Iterator[Any]:
    """Every annotation, and those inside a pydantic Field; not Meta, which msgspec has read itself."""
    for note in notes:
        if isinstance(note, msgspec.Meta):
            continue
        yield note
        yield from getattr(note, "metadata", ())


def inline_references(schema: JsonObject) -> JsonObject:
    """The schema with references inlined; only recursive definitions stay in `$defs`."""
    definitions = schema.get("$defs", {})
    recursive = {name for name in definitions if _is_recursive(name, definitions)}
    budget = [MAX_INLINED]
    result = _inline_part({key: part for key, part in schema.items() if key != "$defs"}, definitions, recursive, budget)
    if budget[0] <= 0:  # more than MAX_INLINED: the result would be too large, so the references stay
        return schema
    if recursive:
        result["$defs"] = {
            name: _inline_part(part, definitions, recursive, budget)
            for name, part in definitions.items()
            if name in recursive
        }
    return result  # type: ignore[no-any-return]  # an object in, an object out


def drop_closing_items(schema: JsonObject) -> JsonObject:
    """Remove `items: false`, in place, where `maxItems` allows no items behind `prefixItems`.

    Several clients read `items` as an object, and fail on the whole tool list if it is a boolean.
    """
    pending: list[Json] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if part.get("items") is False and is_closed_tuple(part):
                del part["items"]
            pending.extend(child.schema for child in subschemas(part, ""))
    return schema


def is_closed_tuple(schema: JsonObject) -> bool:
    """Whether `maxItems` allows no items behind `prefixItems`, so that `items` never applies."""
    prefix, max_items = schema.get("prefixItems"), schema.get("maxItems")
    return isinstance(prefix, list) and isinstance(max_items, int | float) and max_items <= len(prefix)


def hoist_definitions(part: Json, definitions: JsonObject) -> Json:
    """Move the `$defs` of embedded schemas (whose references start at their own root) up to `definitions`."""
    match part:
        case {"$defs": dict(inner), **rest}:
            names = {name: _free_name(name, value, definitions) for name, value in inner.items()}
            for name, value in inner.items():
                definitions[names[name]] = _rename_references(value, names)
            return hoist_definitions(_rename_references(rest, names), definitions)
        case dict():
            return {key: hoist_definitions(value, definitions) for key, value in part.items()}
        case list():
            return [hoist_definitions(value, definitions) for value in part]
        case _:
            return part


def _free_name(name: str, part: Json, definitions: JsonObject) -> str:
    unused, count = name, 2
    while unused in definitions and definitions[unused] != part:
        unused, count = f"{name}_{count}", count + 1
    return unused


def _rename_references(part: Json, names: dict[str, str]) -> Json:
    match part:
        case {"$ref": str(reference), **rest} if reference.removeprefix(_DEFS_PREFIX) in names:
            return {
                "$ref": f"{_DEFS_PREFIX}{names[reference.removeprefix(_DEFS_PREFIX)]}",
                **_rename_references(rest, names),
            }
        case dict():
            return {key: _rename_references(value, names) for key, value in part.items()}
        case list():
            return [_rename_references(value, names) for value in part]
        case _:
            return part


def _referenced_names(part: Json) -> set[str]:
    match part:
        case dict():
            names = {part["$ref"].removeprefix(_DEFS_PREFIX)} if isinstance(part.get("$ref"), str) else set()
            return names.union(*(_referenced_names(value) for value in part.values()))
        case list():
            return set().union(*(_referenced_names(value) for value in part))
        case _:
            return set()


def _is_recursive(name: str, definitions: JsonObject) -> bool:
    pending, seen = [name], set[str]()
    while pending:
        for target in _referenced_names(definitions.get(pending.pop(), {})):
            if target == name:
                return True
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return False


def _inline_part(part: Json, definitions: JsonObject, recursive: set[str], budget: list[int]) -> Json:
    if budget[0] <= 0:
        return part
    match part:
        case {"$ref": str(reference), **rest} if (name := reference.removeprefix(_DEFS_PREFIX)) in definitions:
            if name in recursive:
                return {"$ref": f"{_DEFS_PREFIX}{escape_pointer(name)}", **rest}
            budget[0] -= 1
            return {**_inline_part(definitions[name], definitions, recursive, budget), **rest}
        case dict():
            return {key: _inline_part(value, definitions, recursive, budget) for key, value in part.items()}
        case list():
            return [_inline_part(value, definitions, recursive, budget) for value in part]
        case _:
            return part


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)
