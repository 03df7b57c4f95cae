"""`tools/call` over HTTP on another Python, beside this one: Toolhall and the ceiling on both."""

from functools import partial
from pathlib import Path

from bench import load
from bench.client import Client
from bench.environment import environment
from bench.launch import CEILING_FULL, PYTHON, TOOLHALL, ServerSpec, serving
from bench.load import CONNECTIONS, saturate
from bench.machine import python_build
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

KINDS = (TOOLHALL, CEILING_FULL)

ABOUT = f"""`add(a, b)` over MCP 2026-07-28, {CONNECTIONS} connections, the same locked packages. This Python is
{{this}}; the other one is {{other}}."""


def measure_python(options: Options) -> Section:
    """Both servers on both interpreters in turn."""
    if options.python is None:
        raise RuntimeError("`python` needs another interpreter: --python FILE")
    pythons = {"this": PYTHON, "other": environment(options.python)}
    specs = {(kind, name): ServerSpec(kind, python=python) for name, python in pythons.items() for kind in KINDS}
    with serving(*specs.values()) as servers:
        for server in servers:
            with Client(server.port) as client:
                client.call()
        lanes = {
            f"{kind}, {name}": partial(saturate, server, options.seconds)
            for (kind, name), server in zip(specs, servers, strict=True)
        }
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    times = {name: ratios(cpu[f"{TOOLHALL}, {name}"], cpu[f"{CEILING_FULL}, {name}"]) for name in pythons}
    rows = [
        [f"{kind}, {name}", *load.cells(seen[f"{kind}, {name}"]), times[name].text(2) if kind == TOOLHALL else ""]
        for kind, name in specs
    ]
    about = ABOUT.format(**{name: python_build(python) for name, python in pythons.items()})
    columns = ["server", *load.COLUMNS, "times ceiling full"]
    verdicts = [TARGETS["python.ceiling"].verdict(times["other"], _version(pythons["other"]))]
    return Section("Another Python", about, columns, rows, verdicts, load.figures(seen))


def _version(python: Path) -> str:
    return python_build(python).partition(" (")[0]
