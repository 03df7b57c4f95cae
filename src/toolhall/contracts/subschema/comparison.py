"""Compares two JSON Schemas (SchemaPair): every way in which the new one narrows or widens what the old accepted.

The comparison walks the target and asks of each keyword whether the source preserves it. The source is taken apart
into ValueFacts: what is known of a value that fits it. Where these leave alternatives and a keyword cannot be
proven, each alternative is compared by itself. Schemas that refer to themselves are compared as such proofs go:
what is being proven further up may be used, once a part of the value has been entered since.
"""

from collections.abc import Iterator
from typing import TypeAlias

from toolhall.contracts.subschema import container_rules, scalar_rules
from toolhall.contracts.subschema.document import Constraints, Nodes, NormalizedNode, SchemaDocument, SchemaPart
from toolhall.contracts.subschema.incompatibility import Incompatibility, breaks_promise, list_values, unproven
from toolhall.contracts.subschema.relations import is_keyword_preserved
from toolhall.contracts.subschema.value_checker import BudgetExhausted, ComparisonBudget, ValueChecker, hashable
from toolhall.contracts.subschema.value_facts import KeywordRule, ValueFacts
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


class SchemaComparison:
    """Finds what the source accepts and the target does not; with `maps`, a free-form target speaks of every member."""

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
        """All of them, once each."""
        try:
            opened = self.source.conjuncts(SchemaPart(self.source.root, ""))
            given = Constraints(opened, self.source.scope(opened))
            found = self._compare_value(given, SchemaPart(self.target.root, ""), nested=False)
        except (BudgetExhausted, RecursionError):
            return [unproven("", "there is too much to compare")]
        return list(dict.fromkeys(found))

    def compare_inner(self, constraints: Constraints | None, part: SchemaPart) -> list[Incompatibility]:
        """The gaps at another value, inside the one at hand; none where there is no such value."""
        return [] if constraints is None else self._compare_value(constraints, part, nested=True)

    def compare_same(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        """The gaps at the same value."""
        question = (facts.key, part.pointer)
        if question in self._results:
            return self._results[question]
        if question in self._in_progress:
            if self.budget.depth > self._in_progress[question]:
                return []
            return [unproven(part.pointer, "it leads back to itself")]
        self.budget.spend(1 + len(facts.nodes) // 8)
        self._in_progress[question] = self.budget.depth
        before = len(self._proven)
        found = self._compare(facts, part)
        del self._in_progress[question]
        self._remember(question, found, before)
        return found

    def is_repeated(self, facts: ValueFacts, part: SchemaPart) -> bool:
        """Whether the source says all of `part` in the very same words."""
        return all(self._contains_node(facts.nodes, node) for node in self.target.conjuncts(part))

    def compare_branch(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        """The gaps at the same value, where `part` is one of several that it may fit."""
        opened = self.target.conjuncts(part)
        known = facts.with_known_names(self.target.declared_members(opened, alternatives=False).names)
        mine, theirs = self.source.declared_members(facts.nodes), self.target.declared_members(opened)
        return [
            *container_rules.dropped_members(self.checker, facts, mine, opened, theirs, free_form=self.free_form),
            *self.compare_same(known, part),
        ]

    def _compare_value(self, constraints: Constraints, part: SchemaPart, *, nested: bool) -> list[Incompatibility]:
        opened = self.target.conjuncts(part)
        if nested and (not opened or self._has_same_nodes(constraints.nodes, opened)):
            return []
        self.budget.depth += 1
        case = ValueFacts(
            self._source_checker,
            constraints,
            self.target.declared_members(opened, alternatives=False).names,
            nested=nested,
        )
        mine, theirs = self.source.declared_members(constraints.nodes), self.target.declared_members(opened)
        gone = container_rules.dropped_members(self.checker, case, mine, opened, theirs, free_form=self.free_form)
        found = [*gone, *self.compare_same(case, part)]
        self.budget.depth -= 1
        return found

    def _compare(self, facts: ValueFacts, part: SchemaPart) -> list[Incompatibility]:
        if facts.is_impossible:
            return []
        found = list(
            dict.fromkeys(gap for node in self.target.conjuncts(part) for gap in self._compare_node(facts, node))
        )
        cases = facts.alternatives() if breaks_promise(found) else []
        if not cases:
            return found
        return list(dict.fromkeys(gap for each in cases for gap in self.compare_same(each, part)))

    def _compare_node(self, facts: ValueFacts, node: NormalizedNode) -> Iterator[Incompatibility]:
        if self._contains_node(facts.nodes, node):
            return
        for key, argument in node.schema.items():
            rule = _RULES.get(key)
            if rule is None or not _applies_to(key, facts.types) or _is_stated(facts, key, argument):
                continue
            refused = self._refused_values(facts, node, key)
            if refused is None:
                found = list(rule(self, facts, node, argument))
            else:
                found = [Incompatibility(node.pointer_to(key), list_values(refused))] if refused else []
            yield from () if found and self._is_preserved(facts, node, key) else found

    def _contains_node(self, nodes: Nodes, node: NormalizedNode) -> bool:
        """Whether the source says the very same."""
        text = self.target.encoded(node) if self._same_draft else b""
        return text != b"" and any(self.source.encoded(mine) == text for mine in nodes)

    def _has_same_nodes(self, nodes: Nodes, opened: Nodes) -> bool:
        """Whether both say the very same, and nothing else."""
        return len(nodes) == len(opened) and all(self._contains_node(nodes, node) for node in opened)

    def _is_preserved(self, facts: ValueFacts, node: NormalizedNode, key: str) -> bool:
        """Whether the source says the same by a keyword that could not be proven."""
        return key in SUBSCHEMA_KEYWORDS and any(
            key in mine.schema and is_keyword_preserved(self, mine, node, key) for mine in facts.nodes
        )

    def _refused_values(self, facts: ValueFacts, node: NormalizedNode, key: str) -> list[Json] | None:
        """The values of a case that has few of them which do not fit; None where that is not known."""
        if facts.values is None:
            return None
        self.budget.spend(len(facts.values) // 10)
        verdicts = [self.checker.satisfies(value, node, key) for value in facts.values]
        if None in verdicts:
            return None
        return [value for value, verdict in zip(facts.values, verdicts, strict=True) if not verdict]

    def _remember(self, key: _ComparisonKey, found: list[Incompatibility], before: int) -> None:
        """Keep an answer; what was proven on the way to a gap may rest on there being none, so it is forgotten."""
        if breaks_promise(found):
            for each in self._proven[before:]:
                self._results.pop(each, None)
            del self._proven[before:]
        else:
            self._proven.append(key)
        self._results[key] = found


def _is_stated(facts: ValueFacts, key: str, argument: Json) -> bool:
    """Whether the source says the same by a keyword that means the same everywhere."""
    if key in SUBSCHEMA_KEYWORDS or key == "$ref":
        return False
    return any(key in mine.schema and hashable(mine.schema[key]) == hashable(argument) for mine in facts.nodes)


def _applies_to(key: str, types: frozenset[str]) -> bool:
    """Whether a keyword says anything of these types."""
    kind = KEYWORD_TYPE.get(key)
    if kind is None:
        return True
    return not types.isdisjoint(_NUMBERS) if kind == "number" else kind in types


class SchemaPair:
    """An old schema and a new one."""

    def __init__(self, old: Json, new: Json) -> None:
        self._old = SchemaDocument(old)
        self._new = SchemaDocument(new)

    def narrowings(self, *, free_form: bool = True) -> list[Incompatibility]:
        """Every way in which the new one may refuse what the old one accepted.

        Only members count that the old one speaks of: what was never declared was never promised. One that the new one
        does not speak of is a gap, even where it would be accepted; with `maps`, a free-form object speaks of all.
        """
        return SchemaComparison(self._old, self._new, free_form=free_form).incompatibilities()

    def widenings(self) -> list[Incompatibility]:
        """Every way in which the new one may accept more than the old one did: the same, seen from the other side."""
        return SchemaComparison(self._new, self._old, free_form=False).incompatibilities()


def find_narrowings(old: Json, new: Json) -> list[Incompatibility]:
    """Every way in which `new` may refuse what `old` accepted, of what was promised."""
    return SchemaPair(old, new).narrowings()


def find_widenings(old: Json, new: Json) -> list[Incompatibility]:
    """Every way in which `new` may accept what `old` did not."""
    return SchemaPair(old, new).widenings()
