"""What the guard costs: the same call with nothing on, with a key, and with key, grant, limits and a durable intent."""

from functools import partial

from bench import messages
from bench.load import CONNECTIONS, saturate
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import FASTMCP, TOOLHALL, TOOLHALL_GRANT, TOOLHALL_KEY, Target, serving

KINDS = (TOOLHALL, TOOLHALL_KEY, TOOLHALL_GRANT, FASTMCP)
MOST_TIMES, FASTMCP_SHARE = 1.5, 15
# The call before there was a guard (commit 7744e8d), measured in turn with today's call with nothing on: 180 to 135 us.
FOUNDATION = 1.36

ABOUT = f"""`add(a, b)` over MCP 2026-07-28, {CONNECTIONS} connections. `toolhall`: the local profile as people start
it, with its audit. `key`: the server profile, an API key, limits per caller, per tool and for both. `grant`: the tool
has level 4, so a grant is looked up and the intent of every call is on disk before it runs. CPU is the server's."""


def measure_guard(effort: Effort) -> Section:
    """Every kind in turn."""
    with serving(*map(Target, KINDS)) as servers:
        lanes = {
            kind: partial(saturate, server, effort.seconds, messages.mcp_call(key=server.key))
            for kind, server in zip(KINDS, servers, strict=True)
        }
        seen = interleaved(lanes, effort.rounds)
    cpu = {name: [load.cpu_us for load in loads] for name, loads in seen.items()}
    rows = [
        [
            name,
            Spread.of(cpu[name]).text(1),
            Spread.of([load.per_second for load in loads]).text(),
            ratios(cpu[name], cpu[TOOLHALL]).text(2),
            ratios(cpu[name], cpu[FASTMCP]).text(3),
        ]
        for name, loads in seen.items()
    ]
    columns = ["server", "CPU µs per call", "calls per second", "times toolhall", "times fastmcp"]
    figures = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    return Section("The guard", ABOUT, columns, rows, _verdicts(cpu), figures)


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    today = ratios(cpu[TOOLHALL_GRANT], cpu[TOOLHALL])
    guarded = Spread(today.median / FOUNDATION, today.least / FOUNDATION, today.most / FOUNDATION)
    bare = ratios(cpu[FASTMCP], cpu[TOOLHALL])
    share = f"1/{bare.median:.1f} (1/{bare.most:.1f}-1/{bare.least:.1f})"
    return [
        Verdict(
            f"with key, grant, limits and durable intent at most {MOST_TIMES} times the call before there was a guard",
            guarded.median <= MOST_TIMES,
            f"{guarded.text(2)} times ({today.text(2)} times today's with nothing on)",
        ),
        Verdict(f"with nothing on at most 1/{FASTMCP_SHARE} of FastMCP's", bare.median >= FASTMCP_SHARE, share),
    ]
