"""Arguments as a tool will see them: schema defaults filled in, and what its function's types make of them."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

import msgspec

from toolhall.model.errors import BadArguments
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.keywords import REFERENCE_KEYWORDS
from toolhall.schema.references import ReferenceResolver
from toolhall.schema.types import is_path_type, is_pydantic_model

MAX_STEPS = 5_000  # schemas looked at for one call
MAX_DEPTH = 100
_Schemas: TypeAlias = Iterable[tuple[Json, bool]]  # schemas of one value, and whether each of them surely applies


class _Unknown:
    """Stands where a tool would see something, and nobody can tell what: no JSON value is equal to it."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The arguments with every default, at any depth; UNKNOWN where only a branch that may not apply names one."""
    if not _has_defaults(schema):
        return arguments
    filled: JsonObject = _DefaultFiller(schema).fill(arguments, [(schema, True)], 0)
    return filled


class _DefaultFiller:
    """Fills in one call's arguments; a schema whose defaults go on without end is cut off, and UNKNOWN from there."""

    def __init__(self, root: JsonObject) -> None:
        self._references = ReferenceResolver(root)
        self._steps = 0

    def fill(self, value: Json, schemas: _Schemas, depth: int) -> Json:
        """The value with what was left out of it."""
        if not isinstance(value, dict | list):
            return value
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            return UNKNOWN
        every = self._all_applicable(schemas, value)
        if isinstance(value, list):
            return [self.fill(each, _item_schemas(every, place), depth + 1) for place, each in enumerate(value)]
        whole = self._defaults_for(value, every) | value
        return {name: self.fill(each, _member_schemas(every, name), depth + 1) for name, each in whole.items()}

    def _defaults_for(self, value: JsonObject, schemas: list[tuple[JsonObject, bool]]) -> JsonObject:
        names = chain.from_iterable(_object_at(schema, "properties") for schema, _ in schemas)
        found: JsonObject = {}
        for name in names:
            if name in value or name in found:
                continue
            members = self._all_applicable(_member_schemas(schemas, name), UNKNOWN)
            said = [(member["default"], sure) for member, sure in members if "default" in member]
            if said:
                agreed = all(sure for _, sure in said) and len({encode(default) for default, _ in said}) == 1
                found[name] = said[0][0] if agreed else UNKNOWN
        return found

    def _all_applicable(self, schemas: _Schemas, value: Json) -> list[tuple[JsonObject, bool]]:
        """These schemas and all that judge the same value with them, each once."""
        found: dict[int, tuple[JsonObject, bool]] = {}
        pending = list(schemas)
        while pending:
            schema, sure = pending.pop()
            if not isinstance(schema, dict) or (id(schema) in found and found[id(schema)][1] >= sure):
                continue
            self._steps += 1
            found[id(schema)] = schema, sure
            pending.extend(self._also_applicable(schema, sure, value))
        return list(found.values())

    def _also_applicable(self, schema: JsonObject, sure: bool, value: Json) -> Iterator[tuple[Json, bool]]:
        """What else judges a value that this schema judges."""
        for keyword in REFERENCE_KEYWORDS:
            if keyword in schema:
                yield self._target(schema[keyword]), sure and keyword == "$ref"
        for each in _list_at(schema, "allOf"):
            yield each, sure
        for keyword in ("anyOf", "oneOf"):
            fitting = [each for each in _list_at(schema, keyword) if self._may_match(each, value)]
            for each in fitting:
                yield each, sure and len(fitting) == 1
        for keyword in ("if", "then", "else"):
            yield schema.get(keyword), False
        for keyword in ("dependentSchemas", "dependencies"):
            for each in _object_at(schema, keyword).values():
                yield each, False

    def _may_match(self, branch: Json, value: Json) -> bool:
        """Whether a value of this type can be meant: one that is null or an object is the branch for objects."""
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
    """What judges the member of an object."""
    for schema, sure in schemas:
        members, patterns = _object_at(schema, "properties"), _object_at(schema, "patternProperties")
        if name in members:
            yield members[name], sure
        else:
            yield schema.get("additionalProperties"), sure and not patterns
        for pattern in patterns.values():  # it may be slow to find out whether one matches
            yield pattern, False
        yield schema.get("unevaluatedProperties"), False


def _item_schemas(schemas: Iterable[tuple[JsonObject, bool]], index: int) -> Iterator[tuple[Json, bool]]:
    """What judges the item of a list; before 2020-12, `items` could be what `prefixItems` is now."""
    for schema, sure in schemas:
        items = schema.get("items")
        first, others = (items, schema.get("additionalItems")) if isinstance(items, list) else ((), items)
        first = _list_at(schema, "prefixItems") or first
        yield first[index] if index < len(first) else others, sure
        yield schema.get("contains"), False
        yield schema.get("unevaluatedItems"), False


def _object_at(schema: JsonObject, keyword: str) -> JsonObject:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _list_at(schema: JsonObject, keyword: str) -> list[Json]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _has_defaults(schema: JsonObject) -> bool:
    """Most tools have none, and are not slowed down."""
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


Bind: TypeAlias = Callable[[JsonObject], JsonObject]


def argument_readings(schema: JsonObject, arguments: JsonObject, bind: Bind | None) -> Iterator[JsonObject]:
    """One, or two where they differ; raises BadArguments for what the function would refuse.

    A schema does not tell what a function's types make of what was left out, or that two texts are one UUID.
    """
    yield with_defaults(schema, arguments)
    if bind is not None:
        got = _bound_as_json(bind, arguments)
        if repr(got) != repr(arguments):  # 1 is not true, though Python says they are equal
            yield with_defaults(schema, got)


def _bound_as_json(bind: Bind, arguments: JsonObject) -> JsonObject:
    """What the function gets, as JSON; UNKNOWN where that cannot be told."""
    try:
        bound = bind(arguments)
    except BadArguments:
        raise
    except Exception:  # noqa: BLE001 - types run code of their own
        return dict.fromkeys(arguments, UNKNOWN)
    return {name: _to_json_value(value) for name, value in bound.items()}


def _to_json_value(value: object) -> Json:
    try:
        plain = msgspec.to_builtins(
            value, builtin_types=(type(UNKNOWN),), str_keys=True, enc_hook=_encode_hook, order="deterministic"
        )
        return _tuples_to_lists(plain)
    except Exception:  # noqa: BLE001 - types run code of their own
        return UNKNOWN


def _encode_hook(value: Any) -> object:
    """A model by the names of its schema: how it writes itself, and what it leaves out then, is for its readers."""
    if is_path_type(type(value)):
        return str(value)
    if not is_pydantic_model(type(value)):
        return UNKNOWN
    fields = type(value).model_fields
    if getattr(type(value), "__pydantic_root_model__", False):
        return value.root
    named = {field.validation_alias or name: getattr(value, name) for name, field in fields.items()}
    return {**(value.model_extra or {}), **named} if all(isinstance(name, str) for name in named) else UNKNOWN


def _tuples_to_lists(value: Json) -> Json:
    """JSON has lists only."""
    match value:
        case dict():
            return {name: _tuples_to_lists(each) for name, each in value.items()}
        case list() | tuple():
            return [_tuples_to_lists(each) for each in value]
        case _:
            return value
