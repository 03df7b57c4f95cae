"""One call over HTTP in every dialect: none may cost much more than MCP's."""

from functools import partial

from bench import load, messages
from bench.client import Client
from bench.launch import TOOLHALL, ServerSpec, serving
from bench.load import CONNECTIONS, saturate
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

BASE = "mcp"

ABOUT = f"""One Toolhall, one tool, `add(a, b)`; {CONNECTIONS} connections. The dialects load the same process in turn,
each as its clients usually put a call: `mcp` is 2026-07-28, `hub` one message for each POST, `openapi` plain REST. CPU
is the server's. Median (least-most) of the rounds; ratios are taken within each round."""


def measure_dialects(options: Options) -> Section:
    """Every dialect in turn, on one server, so that nothing but the dialect differs."""
    calls = messages.dialect_calls()
    with serving(ServerSpec(TOOLHALL)) as [server]:
        with Client(server.port) as client:
            for call in calls.values():
                client.call_in(call)
        lanes = {name: partial(saturate, server, options.seconds, call) for name, call in calls.items()}
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    times = {name: ratios(values, cpu[BASE]) for name, values in cpu.items()}
    rows = [[name, *load.cells(loads), times[name].text(2)] for name, loads in seen.items()]
    verdicts = [TARGETS[f"dialects.{name}"].verdict(times[name]) for name in calls if name != BASE]
    columns = ["dialect", *load.COLUMNS, f"times {BASE}"]
    return Section("A call in every dialect", ABOUT, columns, rows, verdicts, load.figures(seen))
