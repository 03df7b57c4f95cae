"""Verdicts, results and the page of the benchmark."""

from pathlib import Path

import pytest

from bench import page
from bench.page import NOT_MEASURED, Result, read_results, render, write_results
from bench.report import Section, Verdict
from bench.spread import Spread, ratios
from bench.targets import TARGETS, Target

SECTION = Section(
    "Commands", "About them.", ["command", "ms"], [["a", "1"]], [Verdict("cli.list", False, "0.60 (0.50-0.70)")], {}
)


@pytest.mark.parametrize(
    ("kind", "figures", "met"),
    [
        ("at most", [1.0, 2.0, 9.0], True),
        ("at most", [1.0, 2.1, 2.2], False),
        ("at least", [0.1, 2.0, 3.0], True),
        ("at least", [1.0, 1.9, 9.0], False),
    ],
)
def test_verdict_compares_the_median_with_the_bound(kind: str, figures: list[float], met: bool) -> None:
    target = Target("a.b", "something", 2.0, kind)  # type: ignore[arg-type]
    assert target.verdict(Spread.of(figures)).met is met


def test_verdict_writes_small_ratios_as_fractions_and_units_behind_the_figure() -> None:
    assert Target("a.b", "", 1 / 30).verdict(Spread(1 / 32, 1 / 40, 1 / 20)).figure == "1/32 (1/40-1/20)"
    assert Target("a.b", "", 0.65).verdict(Spread(0.6, 0.1, 1.25), "why").figure == "0.60 (1/10-1.25); why"
    assert Target("a.b", "", 60, unit="ms").verdict(Spread(12.345, 12, 13)).figure == "12.3 (12-13) ms"
    assert Target("a.b", "", 60, unit="ms").verdict(Spread.of([1234.5])).figure == "1,234 ms"
    assert Target("a.b", "", 1 / 30).bound_text() == "at most 1/30"


def test_ratios_are_taken_within_each_round() -> None:
    assert ratios([10.0, 40.0, 90.0], [10.0, 20.0, 30.0]) == (2.0, 1.0, 3.0)
    assert Spread(2.0, 1.9, 2.1).width == pytest.approx(0.1)


def test_page_of_no_results_shows_every_target_as_not_measured() -> None:
    assert render({}).count(NOT_MEASURED) == len(TARGETS)


def test_results_of_a_measure_replace_its_own_and_keep_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    first, second = Result.of(SECTION, "quiet"), Result.of(SECTION._replace(title="Other", verdicts=[]), "busy")
    write_results({"second": second, "first": first}, ["first", "second"])
    kept = read_results(tmp_path / "results.json")
    assert kept == {"first": first, "second": second}
    assert list(kept) == ["first", "second"]
    shown = (tmp_path / "page.md").read_text()
    assert f"| {TARGETS['cli.list'].what} | at most 0.50 | 0.60 (0.50-0.70) | **no** |" in shown
    assert shown.index("## Commands") < shown.index("quiet") < shown.index("## Other") < shown.index("busy")
