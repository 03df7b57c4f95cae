"""`tools/call` over HTTP at saturation: CPU of the server per call, and calls per second."""

from functools import partial

from bench import messages
from bench.client import Client
from bench.load import CONNECTIONS, Load, saturate
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import CEILING_FULL, CEILING_WORK, FASTMCP, FASTMCP_SESSION, SDK, TOOLHALL, Server, Target, serving

STATELESS = (TOOLHALL, FASTMCP, SDK, CEILING_WORK, CEILING_FULL)
TOOLHALL_SESSION = "toolhall session"
FASTMCP_SHARE, SDK_SHARE, CEILING_TIMES = 20, 6, 1.6

ABOUT = f"""One tool, `add(a, b)`, with input and output schema; {CONNECTIONS} connections. The first rows speak
2026-07-28, those called session 2025-11-25. Peers run on uvloop and httptools with plain JSON replies. The ceiling is a
raw ASGI app on the same uvicorn: `work` decodes, validates, calls, validates, encodes; `full` adds header checks, key,
limit, record and histogram. CPU is the server's, with children. Median (least-most) of the rounds; ratios are taken
within each round."""


def measure_call(effort: Effort) -> Section:
    """Every target in turn."""
    targets = [*map(Target, STATELESS), Target(TOOLHALL), Target(FASTMCP_SESSION)]
    with serving(*targets) as servers:
        names = [*STATELESS, TOOLHALL_SESSION, FASTMCP_SESSION]
        lanes = {
            name: partial(saturate, server, effort.seconds, messages.mcp_call(_greet(name, server)))
            for name, server in zip(names, servers, strict=True)
        }
        seen = interleaved(lanes, effort.rounds)
    cpu = {name: [load.cpu_us for load in loads] for name, loads in seen.items()}
    columns = ["server", "CPU µs per call", "calls per second", "times fastmcp", "times sdk", "times ceiling full"]
    rows = [_row(name, loads, cpu) for name, loads in seen.items()]
    figures = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    return Section("A call over HTTP", ABOUT, columns, rows, _verdicts(cpu), figures)


def _greet(name: str, server: Server) -> str | None:
    """See that the answer is right before it counts; the session, where there is one."""
    with Client(server.port) as client:
        session = client.open_session() if name.endswith("session") else None
        client.call(session)
    return session


def _row(name: str, loads: list[Load], cpu: dict[str, list[float]]) -> list[str]:
    bases = [FASTMCP_SESSION if name.endswith("session") else FASTMCP, SDK, CEILING_FULL]
    compared = [ratios(cpu[name], cpu[base]).text(3 if base.startswith(FASTMCP) else 2) for base in bases]
    rate = Spread.of([load.per_second for load in loads])
    return [name, Spread.of(cpu[name]).text(1), rate.text(), *compared]


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    ours = cpu[TOOLHALL]
    peers = [(FASTMCP, "FastMCP's", FASTMCP_SHARE), (SDK, "the official SDK's", SDK_SHARE)]
    verdicts: list[Verdict] = []
    for base, whose, share in peers:
        spread, least = ratios(cpu[base], ours), ratios(cpu[base], cpu[CEILING_FULL])
        figure = f"1/{spread.median:.1f} (1/{spread.most:.1f}-1/{spread.least:.1f})"
        best = f"best against best round 1/{min(cpu[base]) / min(ours):.1f}; the raw app 1/{least.median:.1f}"
        target = f"CPU per call at most 1/{share} of {whose}"
        verdicts.append(Verdict(target, spread.median >= share, f"{figure}; {best}"))
    times = ratios(ours, cpu[CEILING_FULL])
    target = f"CPU per call at most {CEILING_TIMES} times the raw app that does as much"
    figure = f"{times.text(2)} times; best against best round {min(ours) / min(cpu[CEILING_FULL]):.2f}"
    return [*verdicts, Verdict(target, times.median <= CEILING_TIMES, figure)]
