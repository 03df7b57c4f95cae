"""Whether two parts of two documents judge alike, word by word: for places where more and less turn around."""

from toolhall.contracts.narrowing.document import BROKEN, JUDGING, Node, Part
from toolhall.contracts.narrowing.judge import frozen
from toolhall.contracts.narrowing.rule import Comparing
from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import LIST, MAP, ONE

_UNORDERED = frozenset({"type", "required", "enum"})
# Keywords that are read together with others; where only the names of those count, they stand in the second list.
_TOGETHER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "if": (("if", "then", "else"), ()),
    "contains": (("contains", "minContains", "maxContains"), ()),
    "additionalProperties": (("additionalProperties",), ("properties", "patternProperties")),
    "items": (("items",), ("prefixItems",)),
}
_ABOUT_THE_REST = frozenset({"unevaluatedProperties", "unevaluatedItems"})
Pairs = frozenset[tuple[str, str]]


def alike(comparing: Comparing, one: Part, other: Part, above: Pairs = frozenset()) -> bool:
    """Whether a part of the source and one of the target say the same, whatever is written about it."""
    comparing.budget.spend()
    pair = (one.pointer, other.pointer)
    if pair in above:
        return True  # nothing on the way here told them apart
    mine, theirs = comparing.source.sound(one.schema), comparing.target.sound(other.schema)
    return _same(
        comparing, Node(mine, one.pointer, one.pointer), Node(theirs, other.pointer, other.pointer), above | {pair}
    )


def kept(comparing: Comparing, one: Node, other: Node, key: str) -> bool:
    """Whether what a node of the target says by a keyword is said by a node of the source too."""
    if key in _ABOUT_THE_REST:
        return _same(comparing, one, other, frozenset())
    words, names = _TOGETHER.get(key, ((key,), ()))
    return (
        all((word in one.schema) == (word in other.schema) for word in words)
        and all(_names(one.schema, word) == _names(other.schema, word) for word in names)
        and all(_same_under(comparing, one, other, word, frozenset()) for word in words if word in one.schema)
    )


def _names(schema: JsonObject, key: str) -> object:
    held = schema.get(key, ())
    return frozenset(held) if isinstance(held, dict) else len(held)


def _same(comparing: Comparing, one: Node, other: Node, above: Pairs) -> bool:
    if one.schema is BROKEN or other.schema is BROKEN:
        return False
    keys = JUDGING & one.schema.keys()
    return keys == JUDGING & other.schema.keys() and all(_same_under(comparing, one, other, key, above) for key in keys)


def _same_under(comparing: Comparing, one: Node, other: Node, key: str, above: Pairs) -> bool:
    mine, theirs = one.schema[key], other.schema[key]
    if key == "$ref":
        source, target = comparing.source.referred(mine), comparing.target.referred(theirs)
        return source is not None and target is not None and alike(comparing, source, target, above)
    if key in ONE:
        return alike(comparing, one.part(key), other.part(key), above)
    if key in LIST:
        return len(mine) == len(theirs) and all(
            alike(comparing, one.part(key, index), other.part(key, index), above) for index in range(len(mine))
        )
    if key in MAP:
        return mine.keys() == theirs.keys() and all(
            alike(comparing, one.part(key, name), other.part(key, name), above) for name in mine
        )
    return _set(mine) == _set(theirs) if key in _UNORDERED else frozen(mine) == frozen(theirs)


def _set(value: Json) -> frozenset[object]:
    return frozenset(map(frozen, value if isinstance(value, list) else [value]))
