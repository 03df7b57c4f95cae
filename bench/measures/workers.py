"""Two worker processes against one: calls per second on the cores that there are."""

from functools import partial

from bench import load
from bench.client import Client
from bench.launch import TOOLHALL, TOOLHALL_COMPUTING, ServerSpec, serving
from bench.load import CONNECTIONS, saturate
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

COUNTS = (1, 2)
KINDS = {"adds": (TOOLHALL, "workers.rate"), "computes": (TOOLHALL_COMPUTING, "workers.computing")}

ABOUT = f"""`toolhall serve --workers N`, `add(a, b)` over MCP 2026-07-28, {CONNECTIONS} connections. The load generator
takes its part of the same cores, about 20 µs a call: with two cores, two workers cannot have both to themselves. So
the tool that only adds shows what is left of the machine, and the one that computes for 0.4 ms, against which the
generator's part is small, how well workers share it."""


def measure_workers(options: Options) -> Section:
    """Both tools with both numbers of workers, in turn."""
    specs = {(name, count): ServerSpec(kind, workers=count) for name, (kind, _) in KINDS.items() for count in COUNTS}
    with serving(*specs.values()) as servers:
        for server in servers:
            with Client(server.port) as client:
                client.call()
        lanes = {
            f"{name}, {count}": partial(saturate, server, options.seconds)
            for (name, count), server in zip(specs, servers, strict=True)
        }
        seen = interleaved(lanes, options.rounds)
    rate = {lane: [each.per_second for each in loads] for lane, loads in seen.items()}
    times = {lane: ratios(values, rate[f"{lane.partition(',')[0]}, 1"]) for lane, values in rate.items()}
    rows = [[lane, *load.cells(loads), times[lane].text(2)] for lane, loads in seen.items()]
    verdicts = [TARGETS[target].verdict(times[f"{name}, 2"]) for name, (_, target) in KINDS.items()]
    return Section(
        "Two workers",
        ABOUT,
        ["tool, workers", *load.COLUMNS, "times the rate of one"],
        rows,
        verdicts,
        load.figures(seen),
    )
