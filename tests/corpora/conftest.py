"""Reports the number of converted definitions and the kinds of losses at the end of a run."""

from collections import Counter

import pytest

_MOST = 12


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per corpus, then the most frequent losses; workers send these with their reports."""
    corpora: dict[str, int] = {}
    lost: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        stated = dict(getattr(report, "user_properties", ()))
        if "corpus" in stated:
            corpora[str(stated["corpus"])] = int(str(stated["definitions"]))
            lost.update(stated["lost"])  # a count for each reason
    if not corpora:
        return
    terminalreporter.section("definitions there and back")
    for name, count in sorted(corpora.items()):
        terminalreporter.write_line(f"{count:8,} {name}")
    for reason, count in lost.most_common(_MOST):
        terminalreporter.write_line(f"{count:8,} x {reason}")
