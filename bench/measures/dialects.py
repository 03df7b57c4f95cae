"""One call over HTTP in every dialect: none may cost much more than MCP's."""

from functools import partial

from bench import messages
from bench.client import Client
from bench.load import CONNECTIONS, Load, saturate
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import TOOLHALL, Target, serving

BASE = "mcp"
MOST = 1.2

ABOUT = f"""One Toolhall, one tool, `add(a, b)`; {CONNECTIONS} connections. The dialects load the same process in turn,
each as its clients usually put a call: `mcp` is 2026-07-28, `hub` one message for each POST, `openapi` plain REST. CPU
is the server's. Median (least-most) of the rounds; ratios are taken within each round."""


def measure_dialects(effort: Effort) -> Section:
    """Every dialect in turn, on one server, so that nothing but the dialect differs."""
    calls = messages.dialect_calls()
    with serving(Target(TOOLHALL)) as [server]:
        with Client(server.port) as client:
            for call in calls.values():
                client.call_in(call)
        lanes = {name: partial(saturate, server, effort.seconds, call) for name, call in calls.items()}
        seen = interleaved(lanes, effort.rounds)
    cpu = {name: [load.cpu_us for load in loads] for name, loads in seen.items()}
    rows = [_row(name, loads, cpu) for name, loads in seen.items()]
    columns = ["dialect", "CPU µs per call", "calls per second", f"times {BASE}"]
    figures = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    verdicts = [_verdict(name, cpu) for name in calls if name != BASE]
    return Section("A call in every dialect", ABOUT, columns, rows, verdicts, figures)


def _row(name: str, loads: list[Load], cpu: dict[str, list[float]]) -> list[str]:
    rate = Spread.of([load.per_second for load in loads])
    return [name, Spread.of(cpu[name]).text(1), rate.text(), ratios(cpu[name], cpu[BASE]).text(2)]


def _verdict(name: str, cpu: dict[str, list[float]]) -> Verdict:
    times = ratios(cpu[name], cpu[BASE])
    best = f"best against best round {min(cpu[name]) / min(cpu[BASE]):.2f}"
    return Verdict(
        f"CPU per call in {name} at most {MOST} times MCP's", times.median <= MOST, f"{times.text(2)}; {best}"
    )
