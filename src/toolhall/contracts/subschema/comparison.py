"""Compares two JSON Schemas (SchemaPair): every way in which the new one narrows or widens what the old accepted.

The package docstring has the theory of operation.
"""

from collections.abc import Iterator
from typing import TypeAlias

from toolhall.contracts.subschema import container_rules, scalar_rules
from toolhall.contracts.subschema.document import Constraints, Nodes, NormalizedNode, SchemaDocument, SchemaPart
from toolhall.contracts.subschema.relations import is_keyword_preserved
from toolhall.contracts.subschema.value_checker import BudgetExhausted, ComparisonBudget, ValueChecker, hashable
from toolhall.contracts.subschema.value_facts import (
    Incompatibility,
    KeywordRule,
    ValueFacts,
    breaks_promise,
    list_values,
    unproven,
)
from toolhall.model.json import Json
from toolhall.schema.keywords import KEYWORD_TYPE, SUBSCHEMA_KEYWORDS

_RULES: dict[str, KeywordRule] = {
    **scalar_rules.SCALAR_RULES,
    **container_rules.OBJECT_RULES,
    **container_rules.ARRAY_RULES,
    **scalar_rules.COMBINATOR_RULES,
}
_NUMBERS = frozenset({"number", "integer"})
_ComparisonKey: TypeAlias = tuple[object, str]


class SchemaPair:
    """An old schema and a new one."""

    def __init__(self, old: Json, new: Json) -> None:
        self._old = SchemaDocument(old)
        self._new = SchemaDocument(new)

    def narrowings(self, *, free_form: bool = True) -> list[Incompatibility]:
        """Every way in which the new schema may refuse what the old one accepted.

        Only members that the old schema declares count. A member that the new one does not declare is an
        incompatibility, even if it would be accepted; with `free_form`, a free-form object declares every member.
        """
        return SchemaComparison(self._old, self._new, free_form=free_form).incompatibilities()

    def widenings(self) -> list[Incompatibility]:
        """Every way in which the new schema may accept more than the old one: the same comparison, reversed."""
        return SchemaComparison(self._new, self._old, free_form=False).incompatibilities()


def find_narrowings(old: Json, new: Json) -> list[Incompatibility]:
    """Every way in which `new` may refuse what `old` accepted and declared."""
    return SchemaPair(old, new).narrowings()


def find_widenings(old: Json, new: Json) -> list[Incompatibility]:
    """Every way in which `new` may accept what `old` did not."""
    return SchemaPair(old, new).widenings()


class SchemaComparison:
    """Finds values that the source accepts and the target refuses.

    With `free_form`, a free-form target object counts as declaring every member. Implements ComparisonContext.
    """

    def __init__(self, source: SchemaDocument, target: SchemaDocument, *, free_form: bool) -> None:
        self.source = source
        self.target = target
        self.budget = ComparisonBudget()
        self.checker = ValueChecker(target, self.budget)
        self.free_form = free_form
        self._source_checker = ValueChecker(source, self.budget)
        self._same_draft = source.draft == target.draft
        self._results: dict[_ComparisonKey, list[Incompatibility]] = {}
        self._proven: list[_ComparisonKey] = []
        self._in_progress: dict[_ComparisonKey, int] = {}

    def incompatibilities(self) -> list[Incompatibility]:
        """All incompatibilities, without duplicates."""
        try:
            nodes = self.source.conjuncts(SchemaPart(self.source.root, ""))
            constraints = Constraints(nodes, self.source.scope(nodes))
            gaps = self._compare_value(constraints, SchemaPart(self.target.root, ""), nested=False)
        except (BudgetExhausted, RecursionError):
            return [unproven("", "there is too much to compare")]
        return list(dict.fromkeys(gaps))

    def compare_inner(self, constraints: Constraints | None, part: SchemaPart) -> list[Incompatibility]:
        """Incompatibilities of a member or item of the current value; none if there can be no such value."""
        return [] if constraints is None else self._compare_value(constraints, part, nested=True)

    def compare_same(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        """Incompatibilities of the current value with another part of the target."""
        question = (facts.key, part.pointer)
        if question in self._results:
            return self._results[question]
        if question in self._in_progress:
            if self.budget.depth > self._in_progress[question]:
                return []  # coinduction: may be assumed, because the comparison descended into the value since
            return [unproven(part.pointer, "it refers back to itself")]
        self.budget.spend(1 + len(facts.nodes) // 8)
        self._in_progress[question] = self.budget.depth
        before = len(self._proven)
        gaps = self._compare(facts, part)
        del self._in_progress[question]
        self._remember(question, gaps, before)
        return gaps

    def is_repeated(self, facts: ValueFacts, part: SchemaPart) -> bool:
        """True if the source contains all of `part` literally."""
        return all(self._contains_node(facts.nodes, node) for node in self.target.conjuncts(part))

    def compare_branch(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        """Incompatibilities of the current value with `part`, one of several alternatives of the target."""
        nodes = self.target.conjuncts(part)
        with_names = facts.with_known_names(self.target.declared_members(nodes, alternatives=False).names)
        source_members, target_members = self.source.declared_members(facts.nodes), self.target.declared_members(nodes)
        return [
            *container_rules.dropped_members(
                self.checker, facts, source_members, nodes, target_members, free_form=self.free_form
            ),
            *self.compare_same(with_names, part),
        ]

    def _compare_value(self, constraints: Constraints, part: SchemaPart, *, nested: bool) -> list[Incompatibility]:
        nodes = self.target.conjuncts(part)
        if nested and (not nodes or self._has_same_nodes(constraints.nodes, nodes)):
            return []
        self.budget.depth += 1
        facts = ValueFacts(
            self._source_checker,
            constraints,
            self.target.declared_members(nodes, alternatives=False).names,
            nested=nested,
        )
        source_members, target_members = (
            self.source.declared_members(constraints.nodes),
            self.target.declared_members(nodes),
        )
        dropped = container_rules.dropped_members(
            self.checker, facts, source_members, nodes, target_members, free_form=self.free_form
        )
        gaps = [*dropped, *self.compare_same(facts, part)]
        self.budget.depth -= 1
        return gaps

    def _compare(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        if facts.is_impossible:
            return []
        gaps = list(
            dict.fromkeys(gap for node in self.target.conjuncts(part) for gap in self._compare_node(facts, node))
        )
        cases = facts.alternatives() if breaks_promise(gaps) else []
        if not cases:
            return gaps
        return list(dict.fromkeys(gap for case in cases for gap in self.compare_same(case, part)))

    def _compare_node(self, facts: ValueFacts, node: NormalizedNode) -> Iterator[Incompatibility]:
        if self._contains_node(facts.nodes, node):
            return
        for key, argument in node.schema.items():
            rule = _RULES.get(key)
            if rule is None or not _applies_to(key, facts.types) or _is_stated(facts, key, argument):
                continue
            refused = self._refused_values(facts, node, key)
            if refused is None:
                gaps = list(rule(self, facts, node, argument))
            else:
                gaps = [Incompatibility(node.pointer_to(key), list_values(refused))] if refused else []
            yield from () if gaps and self._is_preserved(facts, node, key) else gaps

    def _contains_node(self, nodes: Nodes, node: NormalizedNode) -> bool:
        """True if one of the source's nodes is literally the same."""
        encoded = self.target.encoded(node) if self._same_draft else b""
        return encoded != b"" and any(self.source.encoded(source_node) == encoded for source_node in nodes)

    def _has_same_nodes(self, nodes: Nodes, target_nodes: Nodes) -> bool:
        """True if both sides are literally the same."""
        return len(nodes) == len(target_nodes) and all(self._contains_node(nodes, node) for node in target_nodes)

    def _is_preserved(self, facts: ValueFacts, node: NormalizedNode, key: str) -> bool:
        """True if the source has an equivalent keyword, which a rule could not prove."""
        return key in SUBSCHEMA_KEYWORDS and any(
            key in source_node.schema and is_keyword_preserved(self, source_node, node, key)
            for source_node in facts.nodes
        )

    def _refused_values(self, facts: ValueFacts, node: NormalizedNode, key: str) -> list[Json] | None:
        """The values that do not satisfy a keyword, if the source allows finitely many; None if that is not known."""
        if facts.values is None:
            return None
        self.budget.spend(len(facts.values) // 10)
        verdicts = [self.checker.satisfies(value, node, key) for value in facts.values]
        if None in verdicts:
            return None
        return [value for value, verdict in zip(facts.values, verdicts, strict=True) if not verdict]

    def _remember(self, key: _ComparisonKey, gaps: list[Incompatibility], before: int) -> None:
        """Cache a result. Proofs made on the way to a failed one may have assumed it, so they are dropped."""
        if breaks_promise(gaps):
            for dependent in self._proven[before:]:
                self._results.pop(dependent, None)
            del self._proven[before:]
        else:
            self._proven.append(key)
        self._results[key] = gaps


def _is_stated(facts: ValueFacts, key: str, argument: Json) -> bool:
    """True if the source has the same keyword with the same argument, and it means the same everywhere."""
    if key in SUBSCHEMA_KEYWORDS or key == "$ref":
        return False
    return any(
        key in source_node.schema and hashable(source_node.schema[key]) == hashable(argument)
        for source_node in facts.nodes
    )


def _applies_to(key: str, types: frozenset[str]) -> bool:
    """True if a keyword constrains any of these types."""
    kind = KEYWORD_TYPE.get(key)
    if kind is None:
        return True
    return not types.isdisjoint(_NUMBERS) if kind == "number" else kind in types
