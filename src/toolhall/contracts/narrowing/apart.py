"""Whether no value can fit both of two schemas, as far as types, choices and required members tell."""

from typing import TypeAlias

from toolhall.contracts.narrowing.budget import Budget
from toolhall.contracts.narrowing.case import Case
from toolhall.contracts.narrowing.document import Declared, Document, Given, Nodes, Scope
from toolhall.contracts.narrowing.judge import Judge
from toolhall.contracts.narrowing.rule import Comparing

Side: TypeAlias = tuple[Document, Nodes]
_OBJECT = frozenset({"object"})
_DEEPEST = 3
_COST = 5  # steps
_SILENT = Scope((), Declared(), -1)


def apart(comparing: Comparing, one: Side, other: Side) -> bool:
    """Whether nothing fits both."""
    return _apart(comparing.budget, one, other, 0)


def _apart(budget: Budget, one: Side, other: Side, depth: int) -> bool:
    budget.spend(_COST)
    mine, theirs = _case(budget, one), _case(budget, other)
    if mine.impossible or theirs.impossible or not _with_numbers(mine) & _with_numbers(theirs):
        return True
    if _refuses_all(budget, other, mine) or _refuses_all(budget, one, theirs):
        return True
    if mine.types != _OBJECT or theirs.types != _OBJECT or depth >= _DEEPEST:
        return False
    return any(_members_apart(budget, mine, theirs, name, depth) for name in sorted(mine.required & theirs.required))


def _members_apart(budget: Budget, mine: Case, theirs: Case, name: str, depth: int) -> bool:
    one, other = mine.member(name), theirs.member(name)
    if one is None or other is None:
        return True
    return _apart(budget, (mine.document, one.nodes), (theirs.document, other.nodes), depth + 1)


def _refuses_all(budget: Budget, side: Side, case: Case) -> bool:
    document, nodes = side
    judge = Judge(document, budget)
    return case.values is not None and all(judge.accepts(value, nodes) is False for value in case.values)


def _with_numbers(case: Case) -> frozenset[str]:
    """The types, a whole number being one that `number` allows."""
    return case.types | {"integer"} if "number" in case.types and case.values is None else case.types


def _case(budget: Budget, side: Side) -> Case:
    document, nodes = side
    return Case(Judge(document, budget), Given(nodes, _SILENT), frozenset(), nested=True)
