"""What importing costs, beside the bare interpreter."""

import subprocess
import sys
import time
from functools import partial

from bench.launch import CLIENTS_PYTHON
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread
from bench.targets import TARGETS

BARE = "pass"
PLAIN = "import toolhall"
STATEMENTS = (BARE, PLAIN, "from toolhall import Context, Toolkit, tool", "from toolhall import Toolhall")
PEER_STATEMENTS = (BARE, "from fastmcp import FastMCP", "from mcp.server.mcpserver import MCPServer")

ABOUT = """A new interpreter each time; the best of many, less the best of a bare one in the same environment. Toolhall
imports each name when it is first used, so the rows with names show what using it costs."""


def measure_import(options: Options) -> Section:
    """Every statement in turn; the peers less often, because they take a second each."""
    ours = _best(sys.executable, STATEMENTS, options.rounds * 2)
    peers = _best(str(CLIENTS_PYTHON), PEER_STATEMENTS, options.halved().rounds)
    rows = [
        [f"`{text}`", f"{took:.1f}", f"{took - best[BARE]:.1f}"]
        for best in (ours, peers)
        for text, took in best.items()
    ]
    verdict = TARGETS["import.toolhall"].verdict(Spread.of([ours[PLAIN] - ours[BARE]]))
    columns = ["statement", "ms", "ms more than bare"]
    return Section("Import", ABOUT, columns, rows, [verdict], {"toolhall": ours, "peers": peers})


def _best(python: str, statements: tuple[str, ...], rounds: int) -> dict[str, float]:
    seen = interleaved({text: partial(_run, python, text) for text in statements}, rounds)
    return {text: min(times) for text, times in seen.items()}


def _run(python: str, statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([python, "-c", statement], check=True, stdin=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000
