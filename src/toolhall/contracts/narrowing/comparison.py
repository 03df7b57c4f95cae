"""Compares two schemas: walks the target, and asks of each keyword whether the source keeps it.

The source is taken apart into cases: what is known of a value that fits it. Where a case leaves a choice and a keyword
cannot be proven, each alternative is looked at by itself. Schemas that refer to themselves are compared as such proofs
go: what is being proven further up may be used, once a part of the value has been entered since.
"""

from collections.abc import Iterator
from typing import TypeAlias

from toolhall.contracts.narrowing import arrays, choices, objects, values
from toolhall.contracts.narrowing.alike import kept
from toolhall.contracts.narrowing.budget import Budget, Exhausted
from toolhall.contracts.narrowing.case import Case
from toolhall.contracts.narrowing.document import Document, Given, Node, Nodes, Part
from toolhall.contracts.narrowing.gap import Gap, listed, serious, unproven
from toolhall.contracts.narrowing.judge import Judge, frozen
from toolhall.contracts.narrowing.rule import Rule
from toolhall.model.json import Json
from toolhall.schema.keywords import HOLDERS, TYPE_OF

_RULES: dict[str, Rule] = {**values.RULES, **objects.RULES, **arrays.RULES, **choices.RULES}
_NUMBERS = frozenset({"number", "integer"})
_Question: TypeAlias = tuple[object, str]


class Comparison:
    """Finds what the source accepts and the target does not; with `maps`, a free-form target speaks of every member."""

    def __init__(self, source: Document, target: Document, *, maps: bool) -> None:
        self.source = source
        self.target = target
        self.budget = Budget()
        self.judge = Judge(target, self.budget)
        self.maps = maps
        self._mine = Judge(source, self.budget)
        self._same_draft = source.draft == target.draft
        self._answers: dict[_Question, list[Gap]] = {}
        self._proven: list[_Question] = []
        self._asked: dict[_Question, int] = {}

    def gaps(self) -> list[Gap]:
        """All of them, once each."""
        try:
            opened = self.source.opened(Part(self.source.root, ""))
            given = Given(opened, self.source.scope(opened))
            found = self._value(given, Part(self.target.root, ""), nested=False)
        except (Exhausted, RecursionError):
            return [unproven("", "there is too much to compare")]
        return list(dict.fromkeys(found))

    def value(self, given: Given | None, part: Part) -> list[Gap]:
        """The gaps at another value, inside the one at hand; none where there is no such value."""
        return [] if given is None else self._value(given, part, nested=True)

    def within(self, case: Case, part: Part) -> list[Gap]:
        """The gaps at the same value."""
        question = (case.key, part.pointer)
        if question in self._answers:
            return self._answers[question]
        if question in self._asked:
            if self.budget.depth > self._asked[question]:
                return []
            return [unproven(part.pointer, "it leads back to itself")]
        self.budget.spend(1 + len(case.nodes) // 8)
        self._asked[question] = self.budget.depth
        before = len(self._proven)
        found = self._compare(case, part)
        del self._asked[question]
        self._remember(question, found, before)
        return found

    def repeats(self, case: Case, part: Part) -> bool:
        """Whether the source says all of `part` in the very same words."""
        return all(self._is_there(case.nodes, node) for node in self.target.opened(part))

    def branch(self, case: Case, part: Part) -> list[Gap]:
        """The gaps at the same value, where `part` is one of several that it may fit."""
        opened = self.target.opened(part)
        known = case.knowing(self.target.declared(opened, choices=False).names)
        mine, theirs = self.source.declared(case.nodes), self.target.declared(opened)
        return [*objects.dropped(self.judge, case, mine, opened, theirs, maps=self.maps), *self.within(known, part)]

    def _value(self, given: Given, part: Part, *, nested: bool) -> list[Gap]:
        opened = self.target.opened(part)
        if nested and (not opened or self._is_same(given.nodes, opened)):
            return []
        self.budget.depth += 1
        case = Case(self._mine, given, self.target.declared(opened, choices=False).names, nested=nested)
        mine, theirs = self.source.declared(given.nodes), self.target.declared(opened)
        gone = objects.dropped(self.judge, case, mine, opened, theirs, maps=self.maps)
        found = [*gone, *self.within(case, part)]
        self.budget.depth -= 1
        return found

    def _compare(self, case: Case, part: Part) -> list[Gap]:
        if case.impossible:
            return []
        found = list(dict.fromkeys(gap for node in self.target.opened(part) for gap in self._node(case, node)))
        cases = case.split() if serious(found) else []
        if not cases:
            return found
        return list(dict.fromkeys(gap for each in cases for gap in self.within(each, part)))

    def _node(self, case: Case, node: Node) -> Iterator[Gap]:
        if self._is_there(case.nodes, node):
            return
        for key, argument in node.schema.items():
            rule = _RULES.get(key)
            if rule is None or not _concerns(key, case.types) or _is_said(case, key, argument):
                continue
            refused = self._refused(case, node, key)
            if refused is None:
                found = list(rule(self, case, node, argument))
            else:
                found = [Gap(node.at(key), listed(refused))] if refused else []
            yield from () if found and self._is_kept(case, node, key) else found

    def _is_there(self, given: Nodes, node: Node) -> bool:
        """Whether the source says the very same."""
        text = self.target.text(node) if self._same_draft else b""
        return text != b"" and any(self.source.text(mine) == text for mine in given)

    def _is_same(self, given: Nodes, opened: Nodes) -> bool:
        """Whether both say the very same, and nothing else."""
        return len(given) == len(opened) and all(self._is_there(given, node) for node in opened)

    def _is_kept(self, case: Case, node: Node, key: str) -> bool:
        """Whether the source says the same by a keyword that could not be proven."""
        return key in HOLDERS and any(key in mine.schema and kept(self, mine, node, key) for mine in case.nodes)

    def _refused(self, case: Case, node: Node, key: str) -> list[Json] | None:
        """The values of a case that has few of them which do not fit; None where that is not known."""
        if case.values is None:
            return None
        self.budget.spend(len(case.values) // 10)
        verdicts = [self.judge.fits(value, node, key) for value in case.values]
        if None in verdicts:
            return None
        return [value for value, verdict in zip(case.values, verdicts, strict=True) if not verdict]

    def _remember(self, question: _Question, found: list[Gap], before: int) -> None:
        """Keep an answer; what was proven on the way to a gap may rest on there being none, so it is forgotten."""
        if serious(found):
            for each in self._proven[before:]:
                self._answers.pop(each, None)
            del self._proven[before:]
        else:
            self._proven.append(question)
        self._answers[question] = found


def _is_said(case: Case, key: str, argument: Json) -> bool:
    """Whether the source says the same by a keyword that means the same everywhere."""
    if key in HOLDERS or key == "$ref":
        return False
    return any(key in mine.schema and frozen(mine.schema[key]) == frozen(argument) for mine in case.nodes)


def _concerns(key: str, types: frozenset[str]) -> bool:
    """Whether a keyword says anything of these types."""
    kind = TYPE_OF.get(key)
    if kind is None:
        return True
    return not types.isdisjoint(_NUMBERS) if kind == "number" else kind in types
