"""`tools/call` over HTTP at saturation: CPU of the server per call, and calls per second."""

from functools import partial

from bench import load, messages
from bench.client import Client
from bench.launch import (
    CEILING_FULL,
    CEILING_WORK,
    FASTMCP,
    FASTMCP_SESSION,
    SDK,
    TOOLHALL,
    Server,
    ServerSpec,
    serving,
)
from bench.load import CONNECTIONS, saturate
from bench.report import Section, Verdict
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

TOOLHALL_SESSION = "toolhall session"
# What is compared with Toolhall most closely is measured right beside it.
KINDS = {
    TOOLHALL_SESSION: TOOLHALL,
    TOOLHALL: TOOLHALL,
    CEILING_FULL: CEILING_FULL,
    CEILING_WORK: CEILING_WORK,
    SDK: SDK,
    FASTMCP: FASTMCP,
    FASTMCP_SESSION: FASTMCP_SESSION,
}

ABOUT = f"""One tool, `add(a, b)`, with input and output schema; {CONNECTIONS} connections. All speak
2026-07-28, but those called session 2025-11-25. Peers run on uvloop and httptools with plain JSON replies. The ceiling
is a raw ASGI app on uvicorn: `work` decodes, validates, calls, validates, encodes; `full` adds header checks, key,
limit, record and histogram. CPU is the server's, with children. Median (least-most) of the rounds; ratios are taken
within each round."""


def measure_call(options: Options) -> Section:
    """Every server in turn."""
    with serving(*map(ServerSpec, KINDS.values())) as servers:
        lanes = {
            name: partial(saturate, server, options.seconds, messages.mcp_call(_greet(name, server)))
            for name, server in zip(KINDS, servers, strict=True)
        }
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    columns = ["server", *load.COLUMNS, "times fastmcp", "times sdk", "times ceiling full"]
    rows = [[name, *load.cells(loads), *_compared(name, cpu)] for name, loads in seen.items()]
    return Section("A call over HTTP", ABOUT, columns, rows, _verdicts(cpu), load.figures(seen))


def _greet(name: str, server: Server) -> str | None:
    """Check that the answer is right before it counts; the session, where there is one."""
    with Client(server.port) as client:
        session = client.open_session() if name.endswith("session") else None
        client.call(session)
    return session


def _compared(name: str, cpu: dict[str, list[float]]) -> list[str]:
    bases = [FASTMCP_SESSION if name.endswith("session") else FASTMCP, SDK, CEILING_FULL]
    return [ratios(cpu[name], cpu[base]).text(3 if base.startswith(FASTMCP) else 2) for base in bases]


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    ours, bases = cpu[TOOLHALL], {"call.ceiling": CEILING_FULL, "call.fastmcp": FASTMCP, "call.sdk": SDK}
    verdicts = [TARGETS[key].verdict(ratios(ours, cpu[base])) for key, base in bases.items()]
    return [*verdicts, TARGETS["call.session"].verdict(ratios(cpu[TOOLHALL_SESSION], ours))]
