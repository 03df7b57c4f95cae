"""A task, from its creation to its end, beside a DBOS workflow of one step and beside a bare call."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from bench.launch import ROOT
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

TASKS = 300
TASK, BARE, DBOS = "toolhall, a task", "toolhall, the same tool in line", "DBOS, a workflow of one step"
DBOS_PYTHON = ROOT / ".venv-gateways" / "bin" / "python"

ABOUT = f"""{TASKS} one after the other, each in a process of its own with SQLite in a folder of its own. A task is
stored before its id is known, sealed, run through the whole pipeline, and read once it has completed; the tool does
nothing, and neither does the step. A call in line stores nothing."""


class Cost(NamedTuple):
    """Of one task."""

    cpu_ms: float
    wall_ms: float


def measure_tasks(options: Options) -> Section:
    """Each in turn."""
    hall = [sys.executable, "-m", "bench.servers.hall_tasks"]
    lanes: dict[str, tuple[list[str], list[str]]] = {
        TASK: (hall, []),
        BARE: (hall, ["--bare"]),
        DBOS: ([str(DBOS_PYTHON), str(ROOT / "bench/servers/dbos_workflow.py")], []),
    }
    work = {name: partial(_run, command, more) for name, (command, more) in lanes.items()}
    seen = interleaved(work, options.rounds, warm=False)
    rows = [[name, *(Spread.of(values).text(2) for values in zip(*costs, strict=True))] for name, costs in seen.items()]
    cpu = {name: [cost.cpu_ms for cost in costs] for name, costs in seen.items()}
    verdict = TARGETS["tasks.dbos"].verdict(ratios(cpu[TASK], cpu[DBOS]))
    return Section("A task", ABOUT, ["", "CPU ms", "ms to the result"], rows, [verdict], seen)


def _run(command: Sequence[str], more: Sequence[str]) -> Cost:
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        done = subprocess.run(
            [*command, folder, str(TASKS), *more], cwd=ROOT, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{command[-1]}: {done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))
