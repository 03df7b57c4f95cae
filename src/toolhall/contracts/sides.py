"""The two sides of a JSON Schema: the words that a model reads, and the rules that a value is judged by.

Every part of a schema is on at least one side, so nothing can change unseen. Choices (`enum`, `const`, `default`) are
on both, and so is every keyword that is not JSON Schema's own: whoever writes one may mean anything by it.
"""

from collections.abc import Callable

from toolhall.contracts.canonical import canonical
from toolhall.model.json import Json, JsonObject
from toolhall.schema.bounds import DRAFTS
from toolhall.schema.drafts import NEWEST
from toolhall.schema.inline import is_closed_tuple
from toolhall.schema.keywords import LIST, MAP, ONE
from toolhall.schema.references import DEFINITIONS, REFERENCES

_WORDS = frozenset({"title", "description", "examples", "example", "$comment"})
_RULES = frozenset({
    "type", "required", "dependentRequired", "pattern", "format", "uniqueItems", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
    "maxProperties", "minContains", "maxContains", "contentEncoding", "contentMediaType", "readOnly", "writeOnly",
    "deprecated", "$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", *REFERENCES,
})  # fmt: skip
_ONE = ONE | {"additionalItems"}
_LIST = LIST | {"items"}  # before 2020-12 a list of schemas stood there too
_MAP = MAP | {"dependencies", *DEFINITIONS}


def words(schema: Json) -> JsonObject:
    """What a schema says in words and choices, each where it says it; nothing where it says nothing."""
    said: JsonObject = {}
    for key, value in schema.items() if isinstance(schema, dict) else ():
        held = _schemas(key, value)
        if held is None:
            said |= {} if key in _RULES else {key: value}
        elif found := {name: inner for name, part in held.items() if (inner := words(part))}:
            said[key] = found
    return said


def rules(schema: Json, *, literally: bool = False) -> Json:
    """What a schema demands; `{}` demands as little as `true`, and lists without an order have none.

    A tuple that `maxItems` closes has `items: false`, whether or not its author wrote so; `literally`, it has what its
    author wrote, as in digests that were made before both spellings counted as one, and in drafts without tuples.
    """
    if not isinstance(schema, dict):
        return schema
    kept: JsonObject = {}
    literally = literally or ("$schema" in schema and not _says_nothing("$schema", schema["$schema"]))
    for key, value in schema.items():
        if key not in _WORDS and not _says_nothing(key, value):
            kept[key] = _plain(key, value, literally=literally)
    if "prefixItems" in kept and "items" not in kept and not literally and is_closed_tuple(schema):
        kept["items"] = False
    return kept or True


def _schemas(key: str, value: Json) -> dict[str, Json] | None:
    """The schemas that a keyword holds, by name or number; None for one that holds none."""
    if key in _MAP and isinstance(value, dict):
        return value
    if key in _LIST and isinstance(value, list):
        return {str(number): part for number, part in enumerate(value)}
    return {"": value} if key in _ONE and isinstance(value, dict | bool) else None


def _plain(key: str, value: Json, *, literally: bool) -> Json:
    if key in _MAP and isinstance(value, dict):
        read = _set if key == "dependencies" else rules
        return {name: read(part, literally=literally) for name, part in value.items()}
    if key in _LIST and isinstance(value, list):
        return [rules(part, literally=literally) for part in value]
    if key in _ONE:
        return rules(value, literally=literally)
    return _UNORDERED[key](value) if key in _UNORDERED else value


def _says_nothing(key: str, value: Json) -> bool:
    if key == "$schema":
        return isinstance(value, str) and DRAFTS.get(value.rstrip("#")) == NEWEST
    return value in ({}, []) and (key in _MAP or key in ("required", "dependentRequired"))


def _set(value: Json, *, literally: bool = False) -> Json:
    """A list in an order that says nothing; a schema that may stand in its place, as one."""
    if not isinstance(value, list):
        return rules(value, literally=literally)
    return [part for _, part in sorted({canonical(part): part for part in value}.items())]


def _type(value: Json) -> Json:
    kinds = _set(value)
    return kinds[0] if isinstance(kinds, list) and len(kinds) == 1 else kinds


def _sets(value: Json) -> Json:
    return {name: _set(part) for name, part in value.items()} if isinstance(value, dict) else value


_UNORDERED: dict[str, Callable[[Json], Json]] = {
    "type": _type,
    "required": _set,
    "enum": _set,
    "dependentRequired": _sets,
}
