"""What is known about a value that a schema accepts (ValueFacts), keyword rules (KeywordRule), and Incompatibility.

An Incompatibility names what one schema accepts and another may refuse.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from math import ceil, floor
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.contracts.subschema.document import (
    FALSE_SCHEMA,
    Constraints,
    MemberDeclarations,
    Nodes,
    NormalizedNode,
    SchemaDocument,
    SchemaPart,
    is_rest_schema,
)
from toolhall.contracts.subschema.value_checker import ComparisonBudget, ValueChecker
from toolhall.model.json import Json, encode
from toolhall.schema.keywords import TYPES
from toolhall.schema.merge import json_types_of

_MAX_LENGTH = 60
_MAX_LISTED = 5
_TYPE_WORDS = {
    "null": "null",
    "boolean": "true and false",
    "string": "texts",
    "array": "lists",
    "object": "objects",
}


class Incompatibility(msgspec.Struct, frozen=True):
    """Values that the source accepts and the target may refuse; `path` points into one of the two documents.

    about: `value` in general; `member`: one that the target does not declare; `refused`: a member that it forbids;
    `undeclared`: members that neither declares, so they were never promised.
    proven: False if it is only not known that there are none; `what` is the reason then.
    """

    path: str
    what: str
    about: Literal["value", "member", "refused", "undeclared"] = "value"
    proven: bool = True


def breaks_promise(gaps: list[Incompatibility]) -> bool:
    """True if any of these concerns declared values."""
    return any(gap.about != "undeclared" for gap in gaps)


def unproven(path: str, reason: str) -> Incompatibility:
    """An incompatibility that could not be ruled out."""
    return Incompatibility(path, reason, proven=False)


def quote_value(value: Json) -> str:
    """A value for a message, shortened if it is long."""
    text = encode(value).decode(errors="replace") if not isinstance(value, str) else f"'{value}'"
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def list_values(values: list[Json]) -> str:
    """A few values for a message."""
    some = [quote_value(value) for value in values[:_MAX_LISTED]]
    more = len(values) - len(some)
    return ", ".join([*some, *([f"{more} more"] if more else [])])


def describe_types(types: frozenset[str]) -> str:
    """Types for a message."""
    words = [word for kind, word in _TYPE_WORDS.items() if kind in types]
    if "integer" in types:
        words.append("numbers" if "number" in types else "whole numbers")
    elif "number" in types:
        words.append("numbers that are not whole")
    return ", ".join(words)


ALL_TYPES = frozenset(TYPES)
_FINITE_TYPES: dict[str, list[Json]] = {"boolean": [True, False], "null": [None]}
_REST_KEYWORDS = ("additionalProperties", "unevaluatedProperties")
PartFinder = Callable[[NormalizedNode], Iterator[SchemaPart]]
Bound = tuple[float, bool]  # a bound, and whether it is exclusive


class ValueFacts:
    """What is known about a value that satisfies all these nodes of the source.

    `constraints.scope` is everything in the source that may declare the value's members, `known_names` are members that
    the target declares in any case. `nested` is False for the arguments as a whole.
    """

    def __init__(
        self, checker: ValueChecker, constraints: Constraints, known_names: frozenset[str], *, nested: bool
    ) -> None:
        self._checker = checker
        self._scope = constraints.scope
        self.document = checker.document
        self.nodes = constraints.nodes
        self.declared = constraints.scope.declared
        self.known_names = known_names
        self.nested = nested
        self.key = (tuple([node.key for node in self.nodes]), constraints.scope.number, known_names, nested)

    def with_nodes(self, nodes: Iterable[NormalizedNode]) -> "ValueFacts":
        """The facts if the value also satisfies these nodes."""
        return self._copy(_unique(chain(self.nodes, nodes)), self.known_names)

    def with_known_names(self, names: frozenset[str]) -> "ValueFacts":
        """The facts if the target also declares these names."""
        return self if names <= self.known_names else self._copy(self.nodes, self.known_names | names)

    def alternatives(self) -> list["ValueFacts"]:
        """Cases of which at least one holds; empty if there is nothing to choose from."""
        for node in self.nodes:
            for key in ("anyOf", "oneOf"):
                if key in node.schema:
                    branches = [
                        self.document.conjuncts(node.part(key, index)) for index in range(len(node.schema[key]))
                    ]
                    return [self._with_replacement(node, (key,), branch) for branch in branches]
            if "if" in node.schema and ("then" in node.schema or "else" in node.schema):
                return self._conditional_alternatives(node)
        stated = any("type" in node.schema for node in self.nodes)
        types = sorted(self.types - {"integer"} if "number" in self.types else self.types)
        if not stated or len(types) == 1 or any(node.pointer == "type" for node in self.nodes):
            return []
        return [self.with_nodes([NormalizedNode({"type": kind}, "type", f"type {kind}")]) for kind in types]

    @cached_property
    def has_alternatives(self) -> bool:
        """True if one of several alternatives holds, and it is not known which."""
        return any("anyOf" in node.schema or "oneOf" in node.schema for node in self.nodes)

    @cached_property
    def types(self) -> frozenset[str]:
        """The possible types."""
        if self.values is not None:
            return frozenset(kind for value in self.values for kind in json_types_of(value)[:1])
        return allowed_types(self.nodes)

    @cached_property
    def values(self) -> list[Json] | None:
        """All possible values, if they are finitely many; enum values that contradict the type are included."""
        enumerations = [(node, key) for node in self.nodes for key in ("enum", "const") if key in node.schema]
        if not enumerations:
            types = allowed_types(self.nodes)
            return (
                [value for kind in sorted(types) for value in _FINITE_TYPES[kind]]
                if types <= _FINITE_TYPES.keys()
                else None
            )
        lists = [node.schema["enum"] if key == "enum" else [node.schema["const"]] for node, key in enumerations]
        fewest = min(lists, key=len)
        if len(enumerations) == 1:
            return fewest
        return [
            value for value in fewest if all(self._checker.satisfies(value, node, key) for node, key in enumerations)
        ]

    @cached_property
    def is_impossible(self) -> bool:
        """True if it is evident that there is no such value."""
        return not self.types or any(node.schema.get("not") in ({}, True) for node in self.nodes)

    @cached_property
    def required(self) -> frozenset[str]:
        """The required members."""
        return frozenset().union(*(node.schema.get("required", ()) for node in self.nodes))

    @cached_property
    def is_open(self) -> bool:
        """True if undeclared members are allowed."""
        return not any(node.schema.get(key) is False for node in self.nodes for key in _REST_KEYWORDS)

    def keyword_values(self, key: str) -> Iterator[Json]:
        """The argument of a keyword in each node that has it."""
        return (node.schema[key] for node in self.nodes if key in node.schema)

    def min_size(self, key: str) -> float:
        """The tightest lower bound of a size."""
        return max(self.keyword_values(key), default=0)

    def max_size(self, key: str) -> float:
        """The tightest upper bound of a size."""
        return min(self.keyword_values(key), default=float("inf"))

    @cached_property
    def lower_bound(self) -> Bound:
        """The tightest lower bound of a number."""
        bounds = [(bound, False) for bound in self.keyword_values("minimum")]
        bounds += [(bound, True) for bound in self.keyword_values("exclusiveMinimum")]
        bound, strict = max(bounds, default=(-float("inf"), False))
        if "number" in self.types or not -1e15 < bound < 1e15:
            return bound, strict
        return (floor(bound) + 1 if strict else ceil(bound)), False

    @cached_property
    def upper_bound(self) -> Bound:
        """The tightest upper bound of a number."""
        bounds = [(-bound, False) for bound in self.keyword_values("maximum")]
        bounds += [(-bound, True) for bound in self.keyword_values("exclusiveMaximum")]
        bound, strict = max(bounds, default=(-float("inf"), False))
        if "number" in self.types or not -1e15 < bound < 1e15:
            return -bound, strict
        return -(floor(bound) + 1 if strict else ceil(bound)), False

    def declares(self, name: str) -> bool:
        """True if the source declares a member of this name."""
        declared = self.declared
        return (
            name in declared.names
            or declared.has_rest_schema
            or any(self._checker.matches(pattern, name) is not False for pattern in declared.patterns)
        )

    def member(self, name: str) -> Constraints | None:
        """The constraints of a member; None if there can be none."""
        nodes = self._conjuncts(self.nodes, lambda node: self._members(node, name, _REST_KEYWORDS[:1]))
        return self._constraints(nodes, ("member", name), lambda node: self._members(node, name, _REST_KEYWORDS))

    def members_matching(self, pattern: str) -> Constraints | None:
        """The constraints that a pattern of the source puts on members whose names match it."""
        nodes = self._conjuncts(self.nodes, lambda node: _part_at(node, "patternProperties", pattern))
        return self._constraints(nodes, ("others", ""), _unnamed_member_parts)

    def other_members(self) -> Constraints | None:
        """The constraints of members that are matched by no name or pattern."""
        return self._constraints(
            self._conjuncts(self.nodes, lambda node: _part_at(node, "additionalProperties")),
            ("others", ""),
            _unnamed_member_parts,
        )

    def item(self, index: int | None) -> Constraints | None:
        """The constraints of the item at an index; None as index: of any item after the prefix."""
        return self._constraints(
            self._conjuncts(self.nodes, lambda node: _item_part(node, index)), ("items", ""), _item_parts
        )

    @cached_property
    def prefix_count(self) -> int:
        """The number of items with a schema of their own."""
        return max((len(first) for first in self.keyword_values("prefixItems")), default=0)

    def _constraints(self, nodes: Nodes, what: tuple[str, str], parts: PartFinder) -> Constraints | None:
        """The constraints of a part of the value; None if nothing satisfies them. Scopes are cached for all cases."""
        if any(node.schema is FALSE_SCHEMA for node in nodes):
            return None
        key = (self._scope.number, *what)
        scope = self.document.inner_scopes.get(key)
        if scope is None:
            scope = self.document.scope(self._conjuncts(self._scope.nodes, parts))
            self.document.inner_scopes[key] = scope
        return Constraints(nodes, scope)

    def _conjuncts(self, nodes: Nodes, parts: PartFinder) -> Nodes:
        return _unique(each for node in nodes for part in parts(node) for each in self.document.conjuncts(part))

    def _members(self, node: NormalizedNode, name: str, rest: tuple[str, ...]) -> Iterator[SchemaPart]:
        """A node's schemas for a member; `rest` are the keywords for members that it does not name."""
        schema = node.schema
        is_named = False
        if name in schema.get("properties", ()):
            is_named = True
            yield node.part("properties", name)
        for pattern in schema.get("patternProperties", ()):
            verdict = self._checker.matches(pattern, name)
            is_named = is_named or verdict is not False
            if verdict:
                yield node.part("patternProperties", pattern)
        if not is_named:
            yield from (node.part(key) for key in rest if key in schema)

    def _conditional_alternatives(self, node: NormalizedNode) -> list["ValueFacts"]:
        keys = ("if", "then", "else")
        nodes = {key: self.document.conjuncts(node.part(key)) if key in node.schema else () for key in keys}
        return [
            self._with_replacement(node, keys, branch) for branch in ((*nodes["if"], *nodes["then"]), nodes["else"])
        ]

    def _with_replacement(self, node: NormalizedNode, keys: tuple[str, ...], nodes: Nodes) -> "ValueFacts":
        kept = [node.without(*keys) if each is node else each for each in self.nodes]
        return self._copy(_unique(chain(kept, nodes)), self.known_names)

    def _copy(self, nodes: Nodes, known_names: frozenset[str]) -> "ValueFacts":
        return ValueFacts(self._checker, Constraints(nodes, self._scope), known_names, nested=self.nested)


class ComparisonContext(Protocol):
    """What keyword rules use of the comparison that they are part of."""

    source: SchemaDocument
    target: SchemaDocument
    budget: ComparisonBudget
    checker: ValueChecker  # of the target
    free_form: bool  # whether a free-form target object counts as declaring every member

    def compare_inner(self, constraints: Constraints | None, part: SchemaPart) -> list[Incompatibility]:
        """Incompatibilities of a member or item of the current value; none if there can be no such value."""
        ...

    def compare_same(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        """Incompatibilities of the current value with another part of the target."""
        ...

    def is_repeated(self, facts: ValueFacts, part: SchemaPart) -> bool:
        """True if the source contains all of `part` literally."""
        ...

    def compare_branch(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        """Incompatibilities of the current value with `part`, one of several alternatives of the target."""
        ...


KeywordRule: TypeAlias = Callable[[ComparisonContext, ValueFacts, NormalizedNode, Json], Iterator[Incompatibility]]


def allowed_types(nodes: Iterable[NormalizedNode]) -> frozenset[str]:
    """The types that all of these allow; `number` includes `integer`."""
    types = ALL_TYPES
    for node in nodes:
        stated = node.schema.get("type")
        if stated is not None:
            names = {stated} if isinstance(stated, str) else set(stated)
            types &= names | {"integer"} if "number" in names else names
    return types


def is_free_form(nodes: Iterable[NormalizedNode], declared: MemberDeclarations) -> bool:
    """True if an object may hold anything under any name, and lists no members."""
    rest_schemas = (node.schema.get("additionalProperties", True) for node in nodes)
    return not declared.lists_members and not any(each is False or is_rest_schema(each) for each in rest_schemas)


def _unnamed_member_parts(node: NormalizedNode) -> Iterator[SchemaPart]:
    """A node's schemas for members that it does not name."""
    for pattern in node.schema.get("patternProperties", ()):
        yield node.part("patternProperties", pattern)
    for key in _REST_KEYWORDS:
        yield from _part_at(node, key)


def _item_part(node: NormalizedNode, index: int | None) -> Iterator[SchemaPart]:
    first = node.schema.get("prefixItems", ())
    if index is not None and index < len(first):
        yield node.part("prefixItems", index)
    else:
        yield from _part_at(node, "items")


def _item_parts(node: NormalizedNode) -> Iterator[SchemaPart]:
    """A node's schemas for items at any index."""
    for index in range(len(node.schema.get("prefixItems", ()))):
        yield node.part("prefixItems", index)
    yield from _part_at(node, "items")


def _part_at(node: NormalizedNode, *parts: str) -> Iterator[SchemaPart]:
    schema: Json = node.schema
    for part in parts:
        if part not in schema:
            return
        schema = schema[part]
    yield node.part(*parts)


def _unique(nodes: Iterable[NormalizedNode]) -> Nodes:
    return tuple({node.key: node for node in nodes}.values())
