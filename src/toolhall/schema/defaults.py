"""The arguments as a tool sees them: what was left out is what its schema says, as far as that can be known."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.references import REFERENCES, References

MOST_STEPS = 5_000  # schemas looked at for one call
MOST_DEPTH = 100

_Judges: TypeAlias = Iterable[tuple[Json, bool]]  # schemas of one value, and whether each of them surely applies


class _Unknown:
    """Stands where a tool would see something, and nobody can tell what: no JSON value is equal to it."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The arguments with every default, at any depth; UNKNOWN where only a branch that may not apply names one."""
    if not _names_defaults(schema):
        return arguments
    filled: JsonObject = _Filling(schema).filled(arguments, [(schema, True)], 0)
    return filled


class _Filling:
    """Fills in one call's arguments; a schema whose defaults go on without end is cut off, and UNKNOWN from there."""

    def __init__(self, root: JsonObject) -> None:
        self._references = References(root)
        self._steps = 0

    def filled(self, value: Json, judges: _Judges, depth: int) -> Json:
        """The value with what was left out of it."""
        if not isinstance(value, dict | list):
            return value
        if self._steps > MOST_STEPS or depth > MOST_DEPTH:
            return UNKNOWN
        every = self._every(judges, value)
        if isinstance(value, list):
            return [self.filled(each, _of_item(every, place), depth + 1) for place, each in enumerate(value)]
        whole = self._left_out(value, every) | value
        return {name: self.filled(each, _of_member(every, name), depth + 1) for name, each in whole.items()}

    def _left_out(self, value: JsonObject, judges: list[tuple[JsonObject, bool]]) -> JsonObject:
        names = chain.from_iterable(_map(schema, "properties") for schema, _ in judges)
        found: JsonObject = {}
        for name in names:
            if name in value or name in found:
                continue
            members = self._every(_of_member(judges, name), UNKNOWN)
            said = [(member["default"], sure) for member, sure in members if "default" in member]
            if said:
                agreed = all(sure for _, sure in said) and len({encode(default) for default, _ in said}) == 1
                found[name] = said[0][0] if agreed else UNKNOWN
        return found

    def _every(self, judges: _Judges, value: Json) -> list[tuple[JsonObject, bool]]:
        """These schemas and all that judge the same value with them, each once."""
        found: dict[int, tuple[JsonObject, bool]] = {}
        pending = list(judges)
        while pending:
            schema, sure = pending.pop()
            if not isinstance(schema, dict) or (id(schema) in found and found[id(schema)][1] >= sure):
                continue
            self._steps += 1
            found[id(schema)] = schema, sure
            pending.extend(self._beside(schema, sure, value))
        return list(found.values())

    def _beside(self, schema: JsonObject, sure: bool, value: Json) -> Iterator[tuple[Json, bool]]:
        """What else judges a value that this schema judges."""
        for keyword in REFERENCES:
            if keyword in schema:
                yield self._target(schema[keyword]), sure and keyword == "$ref"
        for each in _list(schema, "allOf"):
            yield each, sure
        for keyword in ("anyOf", "oneOf"):
            fitting = [each for each in _list(schema, keyword) if self._fits(each, value)]
            for each in fitting:
                yield each, sure and len(fitting) == 1
        for keyword in ("if", "then", "else"):
            yield schema.get(keyword), False
        for keyword in ("dependentSchemas", "dependencies"):
            for each in _map(schema, keyword).values():
                yield each, False

    def _fits(self, branch: Json, value: Json) -> bool:
        """Whether a value of this type can be meant: one that is null or an object is the branch for objects."""
        if isinstance(branch, dict) and "$ref" in branch:
            branch = self._target(branch["$ref"])
        types = branch.get("type") if isinstance(branch, dict) else None
        if value is UNKNOWN or types is None:
            return branch is not False
        return ("object" if isinstance(value, dict) else "array") in (types if isinstance(types, list) else [types])

    def _target(self, reference: Json) -> Json:
        path = self._references.find(reference) if isinstance(reference, str) else None
        return None if path is None else self._references.at(path)


def _of_member(judges: Iterable[tuple[JsonObject, bool]], name: str) -> Iterator[tuple[Json, bool]]:
    """What judges the member of an object."""
    for schema, sure in judges:
        members, patterns = _map(schema, "properties"), _map(schema, "patternProperties")
        if name in members:
            yield members[name], sure
        else:
            yield schema.get("additionalProperties"), sure and not patterns
        for pattern in patterns.values():  # it may be slow to find out whether one matches
            yield pattern, False
        yield schema.get("unevaluatedProperties"), False


def _of_item(judges: Iterable[tuple[JsonObject, bool]], place: int) -> Iterator[tuple[Json, bool]]:
    """What judges the item of a list; before 2020-12, `items` could be what `prefixItems` is now."""
    for schema, sure in judges:
        items = schema.get("items")
        first, others = (items, schema.get("additionalItems")) if isinstance(items, list) else ((), items)
        first = _list(schema, "prefixItems") or first
        yield first[place] if place < len(first) else others, sure
        yield schema.get("contains"), False
        yield schema.get("unevaluatedItems"), False


def _map(schema: JsonObject, keyword: str) -> JsonObject:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def _list(schema: JsonObject, keyword: str) -> list[Json]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def _names_defaults(schema: JsonObject) -> bool:
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
