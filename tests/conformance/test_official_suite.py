"""The official MCP conformance suite, at every revision, against `toolhall serve tests/conformance/everything.py`."""

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.serving import HERE, served
from tests.harness.mcp_messages import REVISIONS
from tests.harness.patience import patience

NODE = HERE / "node" / "node_modules"
SUITE = (NODE / "node/bin/node", NODE / "@modelcontextprotocol/conformance/dist/index.js")
EVERYTHING = "everything"  # every scenario at its own revision, those of extensions included

# How many scenarios must run, and how many checks may be a WARNING or SKIPPED: both are failures that hide.
RUN = {"2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 40, EVERYTHING: 65}
WARNINGS = dict.fromkeys(RUN, 0)
SKIPPED = {
    "2025-06-18": 0,
    "2025-11-25": 0,
    "2026-07-28": 0,
    EVERYTHING: 1,
}  # the one that the suite hard-codes


class Scenario(NamedTuple):
    """One scenario of a run, and what each of its checks said."""

    name: str
    checks: list[dict[str, str]]

    def failures(self) -> list[str]:
        """Every check that failed, in one line each."""
        return [
            f"{self.name}: {check['id']}: {check.get('errorMessage', '')}"
            for check in self.checks
            if check["status"] == "FAILURE"
        ]


def run(url: str, revision: str, folder: Path) -> list[Scenario]:
    """Run all of the suite that there is for this revision."""
    assert all(path.exists() for path in SUITE), "the suite is not installed: run `make setup`"
    chosen = () if revision == EVERYTHING else ("--spec-version", revision)
    command = [*map(str, SUITE), "server", "--url", url, "--suite", "all", *chosen, "-o", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=3 * patience(), check=False)
    results = [Scenario(_name(path), json.loads(path.read_text())) for path in sorted(folder.rglob("checks.json"))]
    assert len(results) == RUN[revision], f"{len(results)} scenarios ran: {done.stdout[-2000:]} {done.stderr[-2000:]}"
    return results


def _name(path: Path) -> str:
    """The scenario's name, out of `server-<name>-<time>/checks.json`."""
    return re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name).removeprefix("server-")


@pytest.mark.parametrize("revision", [*REVISIONS, EVERYTHING])
def test_official_suite_passes(revision: str, tmp_path: Path) -> None:
    with served("everything.py") as server:
        scenarios = run(server.mcp, revision, tmp_path)
    failures = [line for scenario in scenarios for line in scenario.failures()]
    assert not failures, "\n".join(failures)
    counted = Counter(check["status"] for scenario in scenarios for check in scenario.checks)
    assert counted["WARNING"] <= WARNINGS[revision], _listed(scenarios, "WARNING")
    assert counted["SKIPPED"] <= SKIPPED[revision], _listed(scenarios, "SKIPPED")


def _listed(scenarios: list[Scenario], status: str) -> str:
    found = [f"{each.name}: {check['id']}" for each in scenarios for check in each.checks if check["status"] == status]
    return f"{len(found)} {status}:\n" + "\n".join(found)
