"""What a measurement hands back, and how it reads as Markdown and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """One target of the project, and whether this run met it."""

    target: str
    met: bool
    figure: str

    def line(self) -> str:
        """`- **met**: target: figure`."""
        return f"- **{'met' if self.met else 'NOT MET'}**: {self.target}: {self.figure}"


class Section(NamedTuple):
    """One measurement."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    verdicts: Sequence[Verdict]
    figures: Mapping[str, Any]  # every single value, for machines

    def markdown(self) -> str:
        """The table with its heading and notes."""
        ruler = ["---", *["--:"] * (len(self.columns) - 1)]
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, ruler, *self.rows)]
        return "\n".join([f"## {self.title}\n", f"{self.about}\n", *lines, ""])

    def json(self) -> dict[str, Any]:
        """The figures and the verdicts."""
        return {"figures": self.figures, "verdicts": [verdict._asdict() for verdict in self.verdicts]}


def summary(sections: Sequence[Section]) -> str:
    """Every verdict, one per line."""
    lines = [verdict.line() for section in sections for verdict in section.verdicts]
    return "\n".join(["## Targets\n", *lines])
