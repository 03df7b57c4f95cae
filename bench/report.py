"""What a measure hands back, and how it reads as Markdown and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """The figure of one target, and whether this run met it."""

    key: str  # of bench.targets.TARGETS
    met: bool
    figure: str


class Section(NamedTuple):
    """One measure: a table, its explanation, and verdicts on targets."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    verdicts: Sequence[Verdict]
    figures: Mapping[str, Any]  # every single value, for machines

    def markdown(self) -> str:
        """The table with its heading and notes."""
        return "\n".join([f"## {self.title}\n", f"{self.about}\n", table(self.columns, self.rows), ""])

    def json(self) -> dict[str, Any]:
        """The figures and the verdicts."""
        return {"figures": self.figures, "verdicts": [verdict._asdict() for verdict in self.verdicts]}


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with numbers to the right of the first column."""
    ruler = ["---", *["--:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ruler, *rows))
