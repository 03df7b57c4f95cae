"""`tools/call` beside ever more tools: the cost of a call must not depend on how many others there are."""

from collections.abc import Callable
from functools import partial

from bench import messages
from bench.client import Client
from bench.load import Load, one_by_one, saturate
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import FASTMCP, TOOLHALL, Server, Target, serving

TARGETS = (
    Target(TOOLHALL, 10),
    Target(TOOLHALL, 1_000),
    Target(TOOLHALL, 10_000),
    Target(FASTMCP, 10),
    Target(FASTMCP, 1_000),
)
FLAT = 1.25

ABOUT = """MCP 2026-07-28. FastMCP walks all its tools for each call of this revision: at 1,000 it is asked one call
at a time, and at 10,000 not at all, because one call would take seconds."""


def measure_scale(effort: Effort) -> Section:
    """Every size in turn."""
    with serving(*TARGETS) as servers:
        lanes = {_name(target): _lane(target, server, effort) for target, server in zip(TARGETS, servers, strict=True)}
        seen = interleaved(lanes, effort.rounds)
    cpu = {name: [load.cpu_us for load in loads] for name, loads in seen.items()}
    rows = [
        [target.kind, f"{target.tools:,}", Spread.of(cpu[_name(target)]).text(1), _beside(target, cpu).text(2)]
        for target in TARGETS
    ]
    columns = ["server", "tools", "CPU µs per call", "times at 10 tools"]
    figures = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    return Section("A call beside many tools", ABOUT, columns, rows, _verdicts(cpu), figures)


def _name(target: Target) -> str:
    return f"{target.kind} {target.tools}"


def _lane(target: Target, server: Server, effort: Effort) -> Callable[[], Load]:
    with Client(server.port) as client:
        client.call()
    if target.kind == FASTMCP and target.tools > 100:
        return partial(one_by_one, server, [messages.call()], "tools/call", effort.seconds)
    return partial(saturate, server, effort.seconds)


def _beside(target: Target, cpu: dict[str, list[float]]) -> Spread:
    return ratios(cpu[_name(target)], cpu[_name(target._replace(tools=10))])


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    ours = [target for target in TARGETS if target.kind == TOOLHALL and target.tools > 10]
    times = {target: _beside(target, cpu) for target in ours}
    figure = ", ".join(f"{spread.text(2)} times at {target.tools:,}" for target, spread in times.items())
    met = all(spread.median <= FLAT for spread in times.values())
    return [Verdict(f"a call costs the same at 10, 1,000 and 10,000 tools (within {FLAT})", met, figure)]
