"""The page of the documentation that shows what was measured, rendered from the results that are kept with it.

`results.json` keeps the latest result of every measure with the conditions of its run, so that one measure can be
repeated without the others. The page is made from this file alone, which a test repeats.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.launch import ROOT
from bench.report import Section, Verdict, table
from bench.targets import TARGETS

RESULTS = ROOT / "bench" / "results.json"
PAGE = ROOT / "docs" / "reference" / "benchmark.md"
NOT_MEASURED = "not measured"

_INTRODUCTION = """# Benchmark

What `make bench` measured, rendered by `make bench ARGS=--docs`. How it measures is in
[bench/README.md](../../bench/README.md), what makes a call cheap in [speed](../explanation/speed.md).

Figures are medians with the least and the most of the rounds in parentheses. Whatever is compared was measured in turn
in one run, on one machine, together with the load generator; compare ratios, not microseconds of different runs.
"""


class Result(NamedTuple):
    """What is kept of a section, and the conditions under which it was measured."""

    title: str
    about: str
    columns: list[str]
    rows: list[list[str]]
    verdicts: list[Verdict]
    conditions: str

    @classmethod
    def of(cls, section: Section, conditions: str) -> "Result":
        """The result of a section."""
        rows = [list(row) for row in section.rows]
        return cls(section.title, section.about, list(section.columns), rows, list(section.verdicts), conditions)

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> "Result":
        """The result that `written` gave."""
        fields: dict[str, Any] = {**kept, "verdicts": [Verdict(**each) for each in kept["verdicts"]]}
        return cls(**fields)

    def written(self) -> dict[str, Any]:
        """As JSON."""
        return self._asdict() | {"verdicts": [verdict._asdict() for verdict in self.verdicts]}

    def markdown(self) -> str:
        """The table with its heading, explanation and conditions."""
        rendered = table(self.columns, self.rows)
        return f"## {self.title}\n\n{self.about}\n\n{rendered}\n\n{self.conditions}\n"


Results = dict[str, Result]


def read_results(file: Path = RESULTS) -> Results:
    """The results that are kept, by measure."""
    return {name: Result.read(kept) for name, kept in json.loads(file.read_text()).items()}


def write_results(results: Results, order: list[str]) -> None:
    """Keep these results, and render the page from them."""
    ordered = {name: results[name] for name in order if name in results}
    kept = {name: result.written() for name, result in ordered.items()}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(render(ordered))


def render(results: Mapping[str, Result]) -> str:
    """The page: every target with its figure, then the tables."""
    verdicts = [verdict for result in results.values() for verdict in result.verdicts]
    return "\n".join(
        [_INTRODUCTION, "## Targets\n", target_table(verdicts), "", *[each.markdown() for each in results.values()]]
    )


def target_table(verdicts: list[Verdict], *, measured_only: bool = False) -> str:
    """Every target, its bound, what was measured and whether that meets it."""
    found = {verdict.key: verdict for verdict in verdicts}
    rows: list[list[str]] = []
    for key, target in TARGETS.items():
        verdict = found.get(key)
        if verdict is not None:
            rows.append([target.what, target.bound_text(), verdict.figure, "yes" if verdict.met else "**no**"])
        elif not measured_only:
            rows.append([target.what, target.bound_text(), NOT_MEASURED, ""])
    return table(["what", "target", "measured", "met"], rows)
