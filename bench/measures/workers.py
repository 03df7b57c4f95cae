"""Two worker processes against one: calls per second on the cores that there are."""

from functools import partial

from bench import load
from bench.client import Client
from bench.launch import TOOLHALL, ServerSpec, serving
from bench.load import CONNECTIONS, saturate
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

COUNTS = (1, 2)

ABOUT = f"""`toolhall serve --workers N`, `add(a, b)` over MCP 2026-07-28, {CONNECTIONS} connections. The load generator
takes its part of the same cores: with two cores, two workers cannot have both to themselves."""


def measure_workers(options: Options) -> Section:
    """Both in turn."""
    with serving(*[ServerSpec(TOOLHALL, workers=count) for count in COUNTS]) as servers:
        for server in servers:
            with Client(server.port) as client:
                client.call()
        lanes = {
            str(count): partial(saturate, server, options.seconds)
            for count, server in zip(COUNTS, servers, strict=True)
        }
        seen = interleaved(lanes, options.rounds)
    rate = {name: [each.per_second for each in loads] for name, loads in seen.items()}
    times = {name: ratios(values, rate["1"]) for name, values in rate.items()}
    rows = [[name, *load.cells(loads), times[name].text(2)] for name, loads in seen.items()]
    verdicts = [TARGETS["workers.rate"].verdict(times["2"])]
    return Section(
        "Two workers", ABOUT, ["workers", *load.COLUMNS, "times the rate of one"], rows, verdicts, load.figures(seen)
    )
