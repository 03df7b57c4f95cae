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
# Keywords that depend on siblings: those that must be equivalent too, and those of which only the names matter.
_READ_TOGETHER: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "if": (("if", "then", "else"), ()),
    "contains": (("contains", "minContains", "maxContains"), ()),
    "additionalProperties": (("additionalProperties",), ("properties", "patternProperties")),
    "items": (("items",), ("prefixItems",)),
}
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})
PointerPairs = frozenset[tuple[str, str]]
Side: TypeAlias = tuple[SchemaDocument, Nodes]
_OBJECT = frozenset({"object"})
_MAX_MEMBER_DEPTH = 3
_STEP_COST = 5  # steps
_EMPTY_SCOPE = MemberScope((), MemberDeclarations(), -1)


def is_equivalent(
    comparison: ComparisonContext, one: SchemaPart, other: SchemaPart, assumed: PointerPairs = frozenset()
) -> bool:
    """True if a part of the source and one of the target constrain values equally; annotations do not matter."""
    comparison.budget.spend()
    pair = (one.pointer, other.pointer)
    if pair in assumed:
        return True  # coinduction: nothing has told them apart so far
    source_schema, target_schema = comparison.source.normalized(one.schema), comparison.target.normalized(other.schema)
    return _same_node(
        comparison,
        NormalizedNode(source_schema, one.pointer, one.pointer),
        NormalizedNode(target_schema, other.pointer, other.pointer),
        assumed | {pair},
    )


def is_keyword_preserved(comparison: ComparisonContext, one: NormalizedNode, other: NormalizedNode, key: str) -> bool:
    """True if the source's node has an equivalent of the target's keyword, with the siblings it depends on."""
    if key in _UNEVALUATED:
        return _same_node(comparison, one, other, frozenset())
    keywords, name_keywords = _READ_TOGETHER.get(key, ((key,), ()))
    return (
        all((keyword in one.schema) == (keyword in other.schema) for keyword in keywords)
        and all(_names(one.schema, keyword) == _names(other.schema, keyword) for keyword in name_keywords)
        and all(
            _same_keyword(comparison, one, other, keyword, frozenset()) for keyword in keywords if keyword in one.schema
        )
    )


def is_disjoint(comparison: ComparisonContext, one: Side, other: Side) -> bool:
    """True if it is proven that no value satisfies both sides."""
    return _is_disjoint(comparison.budget, one, other, 0)


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
    source_value, target_value = one.schema[key], other.schema[key]
    if key == "$ref":
        source_part, target_part = comparison.source.resolve(source_value), comparison.target.resolve(target_value)
        return (
            source_part is not None
            and target_part is not None
            and is_equivalent(comparison, source_part, target_part, assumed)
        )
    if key in SINGLE_SUBSCHEMA:
        return is_equivalent(comparison, one.part(key), other.part(key), assumed)
    if key in SUBSCHEMA_LIST:
        return len(source_value) == len(target_value) and all(
            is_equivalent(comparison, one.part(key, index), other.part(key, index), assumed)
            for index in range(len(source_value))
        )
    if key in SUBSCHEMA_MAP:
        return source_value.keys() == target_value.keys() and all(
            is_equivalent(comparison, one.part(key, name), other.part(key, name), assumed) for name in source_value
        )
    return (
        _hashable_set(source_value) == _hashable_set(target_value)
        if key in _UNORDERED
        else hashable(source_value) == hashable(target_value)
    )


def _hashable_set(value: Json) -> frozenset[object]:
    return frozenset(map(hashable, value if isinstance(value, list) else [value]))


def _is_disjoint(budget: ComparisonBudget, one: Side, other: Side, depth: int) -> bool:
    budget.spend(_STEP_COST)
    facts, other_facts = _facts_of(budget, one), _facts_of(budget, other)
    if facts.is_impossible or other_facts.is_impossible or not _with_numbers(facts) & _with_numbers(other_facts):
        return True
    if _refuses_all(budget, other, facts) or _refuses_all(budget, one, other_facts):
        return True
    if facts.types != _OBJECT or other_facts.types != _OBJECT or depth >= _MAX_MEMBER_DEPTH:
        return False
    return any(
        _members_disjoint(budget, facts, other_facts, name, depth)
        for name in sorted(facts.required & other_facts.required)
    )


def _members_disjoint(
    budget: ComparisonBudget, facts: ValueFacts, other_facts: ValueFacts, name: str, depth: int
) -> bool:
    one, other = facts.member(name), other_facts.member(name)
    if one is None or other is None:
        return True
    return _is_disjoint(budget, (facts.document, one.nodes), (other_facts.document, other.nodes), depth + 1)


def _refuses_all(budget: ComparisonBudget, side: Side, facts: ValueFacts) -> bool:
    document, nodes = side
    checker = ValueChecker(document, budget)
    return facts.values is not None and all(checker.accepts(value, nodes) is False for value in facts.values)


def _with_numbers(facts: ValueFacts) -> frozenset[str]:
    """The types, with `integer` wherever `number` is allowed."""
    return facts.types | {"integer"} if "number" in facts.types and facts.values is None else facts.types


def _facts_of(budget: ComparisonBudget, side: Side) -> ValueFacts:
    document, nodes = side
    return ValueFacts(ValueChecker(document, budget), Constraints(nodes, _EMPTY_SCOPE), frozenset(), nested=True)
