"""What the guard costs: a call with nothing on, with a key and limits, and with grant and durable intent as well."""

from functools import partial

from bench import load, messages
from bench.launch import TOOLHALL, TOOLHALL_GRANT, TOOLHALL_KEY, ServerSpec, serving
from bench.load import CONNECTIONS, saturate
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

KINDS = (TOOLHALL, TOOLHALL_KEY, TOOLHALL_GRANT)

ABOUT = f"""`add(a, b)` over MCP 2026-07-28, {CONNECTIONS} connections. `toolhall`: the local profile as people start
it, with its audit. `key`: the server profile, an API key, limits per caller, per tool and for both. `grant`: the tool
has level 4, so a grant is looked up and the intent of every call is on disk before it runs. CPU is the server's."""


def measure_guard(options: Options) -> Section:
    """Every kind in turn."""
    with serving(*map(ServerSpec, KINDS)) as servers:
        lanes = {
            kind: partial(saturate, server, options.seconds, messages.mcp_call(key=server.key))
            for kind, server in zip(KINDS, servers, strict=True)
        }
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    times = {name: ratios(values, cpu[TOOLHALL]) for name, values in cpu.items()}
    rows = [[name, *load.cells(loads), times[name].text(2)] for name, loads in seen.items()]
    keys = {"guard.key": TOOLHALL_KEY, "guard.grant": TOOLHALL_GRANT}
    verdicts = [TARGETS[key].verdict(times[kind]) for key, kind in keys.items()]
    return Section("The guard", ABOUT, ["server", *load.COLUMNS, "times toolhall"], rows, verdicts, load.figures(seen))
