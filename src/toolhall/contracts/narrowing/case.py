"""What is known of a value that fits the source: its types, bounds, members and items."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from math import ceil, floor

from toolhall.contracts.narrowing.document import NOTHING, Declared, Given, Node, Nodes, Part, says_something
from toolhall.contracts.narrowing.judge import Judge
from toolhall.model.json import Json
from toolhall.schema.keywords import TYPES
from toolhall.schema.merge import kinds_of

ALL_TYPES = frozenset(TYPES)
_FEW: dict[str, list[Json]] = {"boolean": [True, False], "null": [None]}
_REST = ("additionalProperties", "unevaluatedProperties")
Parts = Callable[[Node], Iterator[Part]]
Lower = tuple[float, bool]  # a bound, and whether it is itself left out


def types_of(nodes: Iterable[Node]) -> frozenset[str]:
    """The types that all of these allow; whoever allows numbers allows whole ones."""
    types = ALL_TYPES
    for node in nodes:
        stated = node.schema.get("type")
        if stated is not None:
            named = {stated} if isinstance(stated, str) else set(stated)
            types &= named | {"integer"} if "number" in named else named
    return types


class Case:
    """A value that fits all of these nodes of the source.

    `scope` is all of the source that speaks of the value's members, `known` what the target speaks of in any case.
    A value that is not `nested` is the arguments themselves.
    """

    def __init__(self, judge: Judge, given: Given, known: frozenset[str], *, nested: bool) -> None:
        self._judge = judge
        self._scope = given.scope
        self.document = judge.document
        self.nodes = given.nodes
        self.declared = given.scope.declared
        self.known = known
        self.nested = nested
        self.key = (tuple([node.key for node in self.nodes]), given.scope.number, known, nested)

    def also(self, nodes: Iterable[Node]) -> "Case":
        """The case that it fits these too."""
        return self._like(_unique(chain(self.nodes, nodes)), self.known)

    def knowing(self, names: frozenset[str]) -> "Case":
        """The same, where the target speaks of these names too."""
        return self if names <= self.known else self._like(self.nodes, self.known | names)

    def split(self) -> list["Case"]:
        """Cases of which one must be; none where there is nothing to choose from."""
        for node in self.nodes:
            for key in ("anyOf", "oneOf"):
                if key in node.schema:
                    ways = [self.document.opened(node.part(key, index)) for index in range(len(node.schema[key]))]
                    return [self._instead(node, (key,), way) for way in ways]
            if "if" in node.schema and ("then" in node.schema or "else" in node.schema):
                return self._conditions(node)
        stated = any("type" in node.schema for node in self.nodes)
        several = sorted(self.types - {"integer"} if "number" in self.types else self.types)
        if not stated or len(several) == 1 or any(node.pointer == "type" for node in self.nodes):
            return []
        return [self.also([Node({"type": kind}, "type", f"type {kind}")]) for kind in several]

    @cached_property
    def chooses(self) -> bool:
        """Whether it is one of several alternatives, and it is not known which."""
        return any("anyOf" in node.schema or "oneOf" in node.schema for node in self.nodes)

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that it may have."""
        if self.values is not None:
            return frozenset(kind for value in self.values for kind in kinds_of(value)[:1])
        return types_of(self.nodes)

    @cached_property
    def values(self) -> list[Json] | None:
        """All values it may be, where they are few; a value that its type contradicts was promised all the same."""
        listing = [(node, key) for node in self.nodes for key in ("enum", "const") if key in node.schema]
        if not listing:
            types = types_of(self.nodes)
            return [value for kind in sorted(types) for value in _FEW[kind]] if types <= _FEW.keys() else None
        lists = [node.schema["enum"] if key == "enum" else [node.schema["const"]] for node, key in listing]
        fewest = min(lists, key=len)
        if len(listing) == 1:
            return fewest
        return [value for value in fewest if all(self._judge.fits(value, node, key) for node, key in listing)]

    @cached_property
    def impossible(self) -> bool:
        """Whether there is no such value, as far as is seen at once."""
        return not self.types or any(node.schema.get("not") in ({}, True) for node in self.nodes)

    @cached_property
    def required(self) -> frozenset[str]:
        """The members it must have."""
        return frozenset().union(*(node.schema.get("required", ()) for node in self.nodes))

    @cached_property
    def is_open(self) -> bool:
        """Whether it may have members of which nothing is said."""
        return not any(node.schema.get(key) is False for node in self.nodes for key in _REST)

    def all_of(self, key: str) -> Iterator[Json]:
        """What each node says under a keyword."""
        return (node.schema[key] for node in self.nodes if key in node.schema)

    def least(self, key: str) -> float:
        """The tightest lower bound of a size."""
        return max(self.all_of(key), default=0)

    def most(self, key: str) -> float:
        """The tightest upper bound of a size."""
        return min(self.all_of(key), default=float("inf"))

    @cached_property
    def lower(self) -> Lower:
        """The tightest lower bound of a number."""
        bounds = [(bound, False) for bound in self.all_of("minimum")]
        bounds += [(bound, True) for bound in self.all_of("exclusiveMinimum")]
        bound, strict = max(bounds, default=(-float("inf"), False))
        if "number" in self.types or not -1e15 < bound < 1e15:
            return bound, strict
        return (floor(bound) + 1 if strict else ceil(bound)), False

    @cached_property
    def upper(self) -> Lower:
        """The tightest upper bound of a number."""
        bounds = [(-bound, False) for bound in self.all_of("maximum")]
        bounds += [(-bound, True) for bound in self.all_of("exclusiveMaximum")]
        bound, strict = max(bounds, default=(-float("inf"), False))
        if "number" in self.types or not -1e15 < bound < 1e15:
            return -bound, strict
        return -(floor(bound) + 1 if strict else ceil(bound)), False

    def declares(self, name: str) -> bool:
        """Whether a member of this name was promised."""
        declared = self.declared
        return (
            name in declared.names
            or declared.mapped
            or any(self._judge.matches(pattern, name) is not False for pattern in declared.patterns)
        )

    def member(self, name: str) -> Given | None:
        """What a member of this name must fit; None if there can be none."""
        nodes = self._opened(self.nodes, lambda node: self._members(node, name, _REST[:1]))
        return self._given(nodes, ("member", name), lambda node: self._members(node, name, _REST))

    def members_like(self, pattern: str) -> Given | None:
        """What members must fit whose names match a pattern of the source, as far as that says it."""
        nodes = self._opened(self.nodes, lambda node: _under(node, "patternProperties", pattern))
        return self._given(nodes, ("others", ""), _map_parts)

    def other_members(self) -> Given | None:
        """What members must fit of which nothing else is said."""
        return self._given(
            self._opened(self.nodes, lambda node: _under(node, "additionalProperties")), ("others", ""), _map_parts
        )

    def item(self, index: int | None) -> Given | None:
        """What the item at an index must fit, or any item behind those that have a schema of their own."""
        return self._given(self._opened(self.nodes, lambda node: _item(node, index)), ("items", ""), _item_parts)

    @cached_property
    def first_items(self) -> int:
        """How many items have a schema of their own."""
        return max((len(first) for first in self.all_of("prefixItems")), default=0)

    def _given(self, nodes: Nodes, what: tuple[str, str], parts: Parts) -> Given | None:
        """What a part of the value must fit; None if nothing can. What speaks of it is found once for all cases."""
        if any(node.schema is NOTHING for node in nodes):
            return None
        key = (self._scope.number, *what)
        scope = self.document.inner_scopes.get(key)
        if scope is None:
            scope = self.document.scope(self._opened(self._scope.nodes, parts))
            self.document.inner_scopes[key] = scope
        return Given(nodes, scope)

    def _opened(self, nodes: Nodes, parts: Parts) -> Nodes:
        return _unique(each for node in nodes for part in parts(node) for each in self.document.opened(part))

    def _members(self, node: Node, name: str, rest: tuple[str, ...]) -> Iterator[Part]:
        """What a node says of a member; `rest` are the keywords about those that it does not name."""
        schema = node.schema
        spoken = False
        if name in schema.get("properties", ()):
            spoken = True
            yield node.part("properties", name)
        for pattern in schema.get("patternProperties", ()):
            verdict = self._judge.matches(pattern, name)
            spoken = spoken or verdict is not False
            if verdict:
                yield node.part("patternProperties", pattern)
        if not spoken:
            yield from (node.part(key) for key in rest if key in schema)

    def _conditions(self, node: Node) -> list["Case"]:
        keys = ("if", "then", "else")
        opened = {key: self.document.opened(node.part(key)) if key in node.schema else () for key in keys}
        return [self._instead(node, keys, way) for way in ((*opened["if"], *opened["then"]), opened["else"])]

    def _instead(self, node: Node, keys: tuple[str, ...], nodes: Nodes) -> "Case":
        kept = [node.without(*keys) if each is node else each for each in self.nodes]
        return self._like(_unique(chain(kept, nodes)), self.known)

    def _like(self, nodes: Nodes, known: frozenset[str]) -> "Case":
        return Case(self._judge, Given(nodes, self._scope), known, nested=self.nested)


def is_map(nodes: Iterable[Node], declared: Declared) -> bool:
    """Whether an object of these may hold anything under any name, and lists none."""
    closing = (node.schema.get("additionalProperties", True) for node in nodes)
    return not declared.spoken and not any(each is False or says_something(each) for each in closing)


def _map_parts(node: Node) -> Iterator[Part]:
    """What a node says of members without naming them."""
    for pattern in node.schema.get("patternProperties", ()):
        yield node.part("patternProperties", pattern)
    for key in _REST:
        yield from _under(node, key)


def _item(node: Node, index: int | None) -> Iterator[Part]:
    first = node.schema.get("prefixItems", ())
    if index is not None and index < len(first):
        yield node.part("prefixItems", index)
    else:
        yield from _under(node, "items")


def _item_parts(node: Node) -> Iterator[Part]:
    """What a node says of items, wherever they stand."""
    for index in range(len(node.schema.get("prefixItems", ()))):
        yield node.part("prefixItems", index)
    yield from _under(node, "items")


def _under(node: Node, *parts: str) -> Iterator[Part]:
    found: Json = node.schema
    for part in parts:
        if part not in found:
            return
        found = found[part]
    yield node.part(*parts)


def _unique(nodes: Iterable[Node]) -> Nodes:
    return tuple({node.key: node for node in nodes}.values())
