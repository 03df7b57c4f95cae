"""The page with the results of the benchmark is made from them, and hides no target."""

import re

from bench.measures import MEASURES
from bench.page import NOT_MEASURED, PAGE, read_results, render
from bench.targets import TARGETS

ROW = re.compile(r"\| (?P<what>[^|]+) \| (?P<bound>at (?:most|least) [^|]+) \| (?P<figure>[^|]+) \| (?P<met>[^|]*) \|")
FIGURE = re.compile(r"(1/)?[\d.,]+( \((1/)?[\d.,]+-(1/)?[\d.,]+\))?( |;|$)")


def test_page_is_rendered_from_the_results() -> None:
    assert PAGE.read_text() == render(read_results()), "render it with: make bench ARGS=--docs"


def test_page_shows_every_target_with_its_bound_and_figure() -> None:
    rows = [row.groupdict() for row in map(ROW.fullmatch, PAGE.read_text().splitlines()) if row]
    assert [(row["what"], row["bound"]) for row in rows] == [
        (each.what, each.bound_text()) for each in TARGETS.values()
    ]
    for row in rows:
        assert row["figure"] == NOT_MEASURED or FIGURE.match(row["figure"]), row
        assert row["met"].strip() in (("",) if row["figure"] == NOT_MEASURED else ("yes", "**no**")), row


def test_results_name_known_measures_and_targets_of_their_own() -> None:
    assert {key.partition(".")[0] for key in TARGETS} <= set(MEASURES)
    for measure, result in read_results().items():
        assert measure in MEASURES
        assert all(verdict.key in TARGETS and verdict.key.startswith(f"{measure}.") for verdict in result.verdicts)
