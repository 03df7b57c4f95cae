"""`tools/call` beside ever more tools: the cost of a call must not depend on how many others there are."""

from collections.abc import Callable
from functools import partial

from bench import load, messages
from bench.client import Client
from bench.launch import FASTMCP, TOOLHALL, Server, ServerSpec, serving
from bench.load import Load, one_by_one, saturate
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

LARGEST = ServerSpec(TOOLHALL, 10_000)
SPECS = (
    ServerSpec(TOOLHALL, 10),
    LARGEST,
    ServerSpec(TOOLHALL, 1_000),
    ServerSpec(FASTMCP, 10),
    ServerSpec(FASTMCP, 1_000),
)

ABOUT = """MCP 2026-07-28. FastMCP walks all its tools for each call of this revision: at 1,000 it is asked one call
at a time, and at 10,000 not at all, because one call would take seconds."""


def measure_scale(options: Options) -> Section:
    """Every size in turn."""
    with serving(*SPECS) as servers:
        lanes = {_name(spec): _lane(spec, server, options) for spec, server in zip(SPECS, servers, strict=True)}
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    rows = [[spec.kind, f"{spec.tools:,}", *load.cells(seen[_name(spec)]), _times(spec, cpu).text(2)] for spec in SPECS]
    columns = ["server", "tools", *load.COLUMNS, "times at 10 tools"]
    verdicts = [TARGETS["scale.tools"].verdict(_times(LARGEST, cpu))]
    return Section("A call beside many tools", ABOUT, columns, rows, verdicts, load.figures(seen))


def _name(spec: ServerSpec) -> str:
    return f"{spec.kind} {spec.tools}"


def _lane(spec: ServerSpec, server: Server, options: Options) -> Callable[[], Load]:
    with Client(server.port) as client:
        client.call()
    if spec.kind == FASTMCP and spec.tools > 100:
        return partial(one_by_one, server, [messages.call()], "tools/call", options.seconds)
    return partial(saturate, server, options.seconds)


def _times(spec: ServerSpec, cpu: dict[str, list[float]]) -> Spread:
    return ratios(cpu[_name(spec)], cpu[_name(spec._replace(tools=10))])
