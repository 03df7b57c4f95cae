"""Arguments as the tool will see them: with schema defaults (with_defaults), and as its function's types decode them.

Policies and approvals decide about arguments, so they must see the values that the tool gets, not only those that were
sent. Where a default or a decoded value is not certain, it is UNKNOWN, which no condition matches.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from toolhall.model.errors import BadArguments
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.keywords import REFERENCE_KEYWORDS, ReferenceResolver
from toolhall.schema.types import is_path_type, is_pydantic_model

MAX_STEPS = 5_000  # schemas visited for one call
MAX_DEPTH = 100
Bind: TypeAlias = Callable[[JsonObject], JsonObject]
_Schemas: TypeAlias = Iterable[tuple[Json, bool]]  # schemas of one value, and whether each certainly applies


class _Unknown:
    """The type of UNKNOWN: a value that the tool sees, but that is not certain; it equals no JSON value."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The arguments with every default, at any depth; UNKNOWN for a default of a branch that may not apply."""
    if not _has_defaults(schema):
        return arguments
    filled: JsonObject = _DefaultFiller(schema).fill(arguments, [(schema, True)], 0)
    return filled


def argument_readings(schema: JsonObject, arguments: JsonObject, bind: Bind | None) -> Iterator[JsonObject]:
    """The arguments as the schema reads them and, if that differs, as the function's types decode them.

    Types may add other defaults than the schema, and decode different texts to the same value (a UUID). Raises
    BadArguments for arguments that the function would refuse.
    """
    yield with_defaults(schema, arguments)
    if bind is not None:
        bound = _bound_as_json(bind, arguments)
        if repr(bound) != repr(arguments):  # not ==, because 1 == True in Python
            yield with_defaults(schema, bound)


class _DefaultFiller:
    """Adds defaults to one call's arguments; beyond MAX_STEPS and MAX_DEPTH (endless defaults) values are UNKNOWN."""

    def __init__(self, root: JsonObject) -> None:
        self._references = ReferenceResolver(root)
        self._steps = 0

    def fill(self, value: Json, schemas: _Schemas, depth: int) -> Json:
        """The value with defaults for its missing members."""
        if not isinstance(value, dict | list):
            return value
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            return UNKNOWN
        applicable = self._all_applicable(schemas, value)
        if isinstance(value, list):
            return [self.fill(each, _item_schemas(applicable, index), depth + 1) for index, each in enumerate(value)]
        filled = self._defaults_for(value, applicable) | value
        return {name: self.fill(each, _member_schemas(applicable, name), depth + 1) for name, each in filled.items()}

    def _defaults_for(self, value: JsonObject, schemas: list[tuple[JsonObject, bool]]) -> JsonObject:
        names = chain.from_iterable(_object_at(schema, "properties") for schema, _ in schemas)
        defaults: JsonObject = {}
        for name in names:
            if name in value or name in defaults:
                continue
            members = self._all_applicable(_member_schemas(schemas, name), UNKNOWN)
            stated = [(member["default"], certain) for member, certain in members if "default" in member]
            if stated:
                agreed = all(certain for _, certain in stated) and len({encode(each) for each, _ in stated}) == 1
                defaults[name] = stated[0][0] if agreed else UNKNOWN
        return defaults

    def _all_applicable(self, schemas: _Schemas, value: Json) -> list[tuple[JsonObject, bool]]:
        """These schemas and all others that apply to the same value, each once."""
        applicable: dict[int, tuple[JsonObject, bool]] = {}
        pending = list(schemas)
        while pending:
            schema, certain = pending.pop()
            if not isinstance(schema, dict) or (id(schema) in applicable and applicable[id(schema)][1] >= certain):
                continue
            self._steps += 1
            applicable[id(schema)] = schema, certain
            pending.extend(self._also_applicable(schema, certain, value))
        return list(applicable.values())

    def _also_applicable(self, schema: JsonObject, certain: bool, value: Json) -> Iterator[tuple[Json, bool]]:
        """The schemas that apply to a value if this schema does."""
        for keyword in REFERENCE_KEYWORDS:
            if keyword in schema:
                yield self._target(schema[keyword]), certain and keyword == "$ref"
        for each in _list_at(schema, "allOf"):
            yield each, certain
        for keyword in ("anyOf", "oneOf"):
            possible = [each for each in _list_at(schema, keyword) if self._may_match(each, value)]
            for each in possible:
                yield each, certain and len(possible) == 1
        for keyword in ("if", "then", "else"):
            yield schema.get(keyword), False
        for keyword in ("dependentSchemas", "dependencies"):
            for each in _object_at(schema, keyword).values():
                yield each, False

    def _may_match(self, branch: Json, value: Json) -> bool:
        """Whether a branch may apply to a value of this type (an object or a list)."""
        if isinstance(branch, dict) and "$ref" in branch:
            branch = self._target(branch["$ref"])
        types = branch.get("type") if isinstance(branch, dict) else None
        if value is UNKNOWN or types is None:
            return branch is not False
        return ("object" if isinstance(value, dict) else "array") in (types if isinstance(types, list) else [types])

    def _target(self, reference: Json) -> Json:
        path = self._references.resolve(reference) if isinstance(reference, str) else None
        return None if path is None else self._references.value_at(path)


def _member_schemas(schemas: Iterable[tuple[JsonObject, bool]], name: str) -> Iterator[tuple[Json, bool]]:
    """The schemas that apply to a member of an object."""
    for schema, certain in schemas:
        members, patterns = _object_at(schema, "properties"), _object_at(schema, "patternProperties")
        if name in members:
            yield members[name], certain
        else:
            yield schema.get("additionalProperties"), certain and not patterns
        for pattern in patterns.values():  # matching the name could be slow
            yield pattern, False
        yield schema.get("unevaluatedProperties"), False


def _item_schemas(schemas: Iterable[tuple[JsonObject, bool]], index: int) -> Iterator[tuple[Json, bool]]:
    """The schemas that apply to an item of a list; before 2020-12, `items` could be what `prefixItems` is now."""
    for schema, certain in schemas:
        items = schema.get("items")
        prefix, others = (items, schema.get("additionalItems")) if isinstance(items, list) else ((), items)
        prefix = _list_at(schema, "prefixItems") or prefix
        yield prefix[index] if index < len(prefix) else others, certain
        yield schema.get("contains"), False
        yield schema.get("unevaluatedItems"), False


def _object_at(schema: JsonObject, keyword: str) -> JsonObject:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _list_at(schema: JsonObject, keyword: str) -> list[Json]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _has_defaults(schema: JsonObject) -> bool:
    """Whether a schema has any default: a fast check, because most schemas have none."""
    pending: list[Json] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if "default" in part:
                return True
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return False


def _bound_as_json(bind: Bind, arguments: JsonObject) -> JsonObject:
    """The arguments that the function gets, as JSON; UNKNOWN where they cannot be encoded."""
    try:
        bound = bind(arguments)
    except BadArguments:
        raise
    except Exception:  # noqa: BLE001 - types run code of their own
        return dict.fromkeys(arguments, UNKNOWN)
    return {name: _to_json_value(value) for name, value in bound.items()}


def _to_json_value(value: object) -> Json:
    try:
        builtins = msgspec.to_builtins(
            value, builtin_types=(type(UNKNOWN),), str_keys=True, enc_hook=_encode_hook, order="deterministic"
        )
        return _tuples_to_lists(builtins)
    except Exception:  # noqa: BLE001 - types run code of their own
        return UNKNOWN


def _encode_hook(value: Any) -> object:
    """A pydantic model by the field names of its input schema; its own serializers may rename or omit fields."""
    if is_path_type(type(value)):
        return str(value)
    if not is_pydantic_model(type(value)):
        return UNKNOWN
    fields = type(value).model_fields
    if getattr(type(value), "__pydantic_root_model__", False):
        return value.root
    members = {field.validation_alias or name: getattr(value, name) for name, field in fields.items()}
    return {**(value.model_extra or {}), **members} if all(isinstance(name, str) for name in members) else UNKNOWN


def _tuples_to_lists(value: Json) -> Json:
    """The value with lists for tuples, as in JSON."""
    match value:
        case dict():
            return {name: _tuples_to_lists(each) for name, each in value.items()}
        case list() | tuple():
            return [_tuples_to_lists(each) for each in value]
        case _:
            return value
