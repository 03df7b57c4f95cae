"""What a rule is: it finds the gaps between a case of the source and one keyword of the target."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from toolhall.contracts.narrowing.budget import Budget
from toolhall.contracts.narrowing.case import Case
from toolhall.contracts.narrowing.document import Document, Given, Node, Part
from toolhall.contracts.narrowing.gap import Gap
from toolhall.contracts.narrowing.judge import Judge
from toolhall.model.json import Json


class Comparing(Protocol):
    """What rules need of the comparison that they are part of."""

    source: Document
    target: Document
    budget: Budget
    judge: Judge  # of the target
    maps: bool  # whether a free-form target speaks of every member

    def value(self, given: Given | None, part: Part) -> list[Gap]:
        """The gaps at another value, inside the one at hand; none where there is no such value."""
        ...

    def within(self, case: Case, part: Part) -> list[Gap]:
        """The gaps at the same value."""
        ...

    def repeats(self, case: Case, part: Part) -> bool:
        """Whether the source says all of `part` in the very same words."""
        ...

    def branch(self, case: Case, part: Part) -> list[Gap]:
        """The gaps at the same value, where `part` is one of several that it may fit."""
        ...


Rule: TypeAlias = Callable[[Comparing, Case, Node, Json], Iterator[Gap]]
