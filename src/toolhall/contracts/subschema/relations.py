"""Relations of two schemas: is_equivalent compares keyword by keyword, is_disjoint proves that no value fits both."""

from typing import TypeAlias

from toolhall.contracts.subschema.document import (
    INVALID_SCHEMA,
    VALIDATION_KEYWORDS,
    Constraints,
    MemberDeclarations,
    MemberScope,
    Nodes,
    NormalizedNode,
    SchemaDocument,
    SchemaPart,
)
from toolhall.contracts.subschema.value_checker import ComparisonBudget, ValueChecker, hashable
from toolhall.contracts.subschema.value_facts import ComparisonContext, ValueFacts
from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import SINGLE_SUBSCHEMA, SUBSCHEMA_LIST, SUBSCHEMA_MAP

_UNORDERED = frozenset({"type", "required", "enum"})
# Keywords that are read together with others; where only the names of those count, they stand in the second list.
_READ_TOGETHER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "if": (("if", "then", "else"), ()),
    "contains": (("contains", "minContains", "maxContains"), ()),
    "additionalProperties": (("additionalProperties",), ("properties", "patternProperties")),
    "items": (("items",), ("prefixItems",)),
}
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
PointerPairs = frozenset[tuple[str, str]]


def is_equivalent(
    comparison: ComparisonContext, one: SchemaPart, other: SchemaPart, assumed: PointerPairs = frozenset()
) -> bool:
    """Whether a part of the source and one of the target say the same, whatever is written about it."""
    comparison.budget.spend()
    pair = (one.pointer, other.pointer)
    if pair in assumed:
        return True  # nothing on the way here told them apart
    mine, theirs = comparison.source.normalized(one.schema), comparison.target.normalized(other.schema)
    return _same_node(
        comparison,
        NormalizedNode(mine, one.pointer, one.pointer),
        NormalizedNode(theirs, other.pointer, other.pointer),
        assumed | {pair},
    )


def is_keyword_preserved(comparison: ComparisonContext, one: NormalizedNode, other: NormalizedNode, key: str) -> bool:
    """Whether what a node of the target says by a keyword is said by a node of the source too."""
    if key in _UNEVALUATED:
        return _same_node(comparison, one, other, frozenset())
    words, names = _READ_TOGETHER.get(key, ((key,), ()))
    return (
        all((word in one.schema) == (word in other.schema) for word in words)
        and all(_names(one.schema, word) == _names(other.schema, word) for word in names)
        and all(_same_keyword(comparison, one, other, word, frozenset()) for word in words if word in one.schema)
    )


def _names(schema: JsonObject, key: str) -> object:
    held = schema.get(key, ())
    return frozenset(held) if isinstance(held, dict) else len(held)


def _same_node(
    comparison: ComparisonContext, one: NormalizedNode, other: NormalizedNode, assumed: PointerPairs
) -> bool:
    if one.schema is INVALID_SCHEMA or other.schema is INVALID_SCHEMA:
        return False
    keys = VALIDATION_KEYWORDS & one.schema.keys()
    return keys == VALIDATION_KEYWORDS & other.schema.keys() and all(
        _same_keyword(comparison, one, other, key, assumed) for key in keys
    )


def _same_keyword(
    comparison: ComparisonContext, one: NormalizedNode, other: NormalizedNode, key: str, assumed: PointerPairs
) -> bool:
    mine, theirs = one.schema[key], other.schema[key]
    if key == "$ref":
        source, target = comparison.source.resolve(mine), comparison.target.resolve(theirs)
        return source is not None and target is not None and is_equivalent(comparison, source, target, assumed)
    if key in SINGLE_SUBSCHEMA:
        return is_equivalent(comparison, one.part(key), other.part(key), assumed)
    if key in SUBSCHEMA_LIST:
        return len(mine) == len(theirs) and all(
            is_equivalent(comparison, one.part(key, index), other.part(key, index), assumed)
            for index in range(len(mine))
        )
    if key in SUBSCHEMA_MAP:
        return mine.keys() == theirs.keys() and all(
            is_equivalent(comparison, one.part(key, name), other.part(key, name), assumed) for name in mine
        )
    return _hashable_set(mine) == _hashable_set(theirs) if key in _UNORDERED else hashable(mine) == hashable(theirs)


def _hashable_set(value: Json) -> frozenset[object]:
    return frozenset(map(hashable, value if isinstance(value, list) else [value]))


Side: TypeAlias = tuple[SchemaDocument, Nodes]
_OBJECT = frozenset({"object"})
_MAX_MEMBER_DEPTH = 3
_STEP_COST = 5  # steps
_EMPTY_SCOPE = MemberScope((), MemberDeclarations(), -1)


def is_disjoint(comparison: ComparisonContext, one: Side, other: Side) -> bool:
    """Whether nothing fits both."""
    return _is_disjoint(comparison.budget, one, other, 0)


def _is_disjoint(budget: ComparisonBudget, one: Side, other: Side, depth: int) -> bool:
    budget.spend(_STEP_COST)
    mine, theirs = _facts_of(budget, one), _facts_of(budget, other)
    if mine.is_impossible or theirs.is_impossible or not _with_numbers(mine) & _with_numbers(theirs):
        return True
    if _refuses_all(budget, other, mine) or _refuses_all(budget, one, theirs):
        return True
    if mine.types != _OBJECT or theirs.types != _OBJECT or depth >= _MAX_MEMBER_DEPTH:
        return False
    return any(_members_disjoint(budget, mine, theirs, name, depth) for name in sorted(mine.required & theirs.required))


def _members_disjoint(budget: ComparisonBudget, mine: ValueFacts, theirs: ValueFacts, name: str, depth: int) -> bool:
    one, other = mine.member(name), theirs.member(name)
    if one is None or other is None:
        return True
    return _is_disjoint(budget, (mine.document, one.nodes), (theirs.document, other.nodes), depth + 1)


def _refuses_all(budget: ComparisonBudget, side: Side, facts: ValueFacts) -> bool:
    document, nodes = side
    judge = ValueChecker(document, budget)
    return facts.values is not None and all(judge.accepts(value, nodes) is False for value in facts.values)


def _with_numbers(facts: ValueFacts) -> frozenset[str]:
    """The types, a whole number being one that `number` allows."""
    return facts.types | {"integer"} if "number" in facts.types and facts.values is None else facts.types


def _facts_of(budget: ComparisonBudget, side: Side) -> ValueFacts:
    document, nodes = side
    return ValueFacts(ValueChecker(document, budget), Constraints(nodes, _EMPTY_SCOPE), frozenset(), nested=True)
