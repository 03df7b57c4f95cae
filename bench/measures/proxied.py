"""A call that is passed on: CPU of the process in the middle, between a client and the server that has the tool."""

from functools import partial

from bench.counted import spend
from bench.gateways import (
    FORGE,
    FORGE_SESSION,
    HALL,
    HALL_SOCKET,
    HALL_TYPESCRIPT,
    PROXY,
    PROXY_KEPT,
    gateways,
)
from bench.load import CONNECTIONS, Load
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios

HALLS = (HALL, HALL_SOCKET, HALL_TYPESCRIPT)
CALLS = {PROXY: 64, PROXY_KEPT: 320, FORGE: 64, FORGE_SESSION: 160}  # of a round: a few seconds of each
HALL_CALLS = 6_000
MOST_MICROSECONDS, LEAST_TIMES = 200, 50

ABOUT = f"""`add(a, b)`, called by MCP over {CONNECTIONS} connections at once; in each round a number of calls, all of
them answered. CPU is that of the process in the middle, without the server that runs the tool. `toolhall`: a hall, and
a Python tool server that joined it over HTTP; `socket`: the same over the tool server's own WebSocket; `typescript`: a
tool server in Node, over HTTP; `alone`: the hall runs the tool itself. Peers stand before FastMCP over HTTP, with JSON
replies. `fastmcp proxy` is `create_proxy(URL)`; `kept` lends all calls one connected client, of which FastMCP warns,
since contexts may mix. `contextforge` has authentication, pages, limits and metrics off, and SQLite; it speaks
2025-11-25, the others 2026-07-28. `session`: all its calls in one session, for which it keeps a connection to the
server behind it. Median (least-most) of the rounds; ratios are taken within each round."""


def measure_proxied(effort: Effort) -> Section:
    """Every process in the middle in turn."""
    with gateways() as ways:
        lanes = {name: partial(spend, way.server, CALLS.get(name, HALL_CALLS), way.call) for name, way in ways.items()}
        seen = interleaved(lanes, effort.rounds)
    cpu = {name: [load.cpu_us for load in loads] for name, loads in seen.items()}
    rows = [_row(name, loads, cpu) for name, loads in seen.items()]
    columns = ["in the middle", "CPU µs per call", "calls per second", "times toolhall"]
    figures = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    return Section("A call that is passed on", ABOUT, columns, rows, _verdicts(cpu), figures)


def _row(name: str, loads: list[Load], cpu: dict[str, list[float]]) -> list[str]:
    rate = Spread.of([load.per_second for load in loads])
    return [name, Spread.of(cpu[name]).text(1), rate.text(), ratios(cpu[name], cpu[HALL]).text(2)]


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    """Held against whichever tool server is the dearest for the hall."""
    usual = {name: Spread.of(cpu[name]) for name in HALLS}
    dearest = max(HALLS, key=lambda name: usual[name].median)
    target = f"a call to a tool server costs the hall at most {MOST_MICROSECONDS} µs of CPU"
    figure = "; ".join(f"{name} {spread.text()}" for name, spread in usual.items())
    verdicts = [Verdict(target, usual[dearest].median <= MOST_MICROSECONDS, figure)]
    for peer, best in ((PROXY, PROXY_KEPT), (FORGE, FORGE_SESSION)):
        times, least = ratios(cpu[peer], cpu[dearest]), ratios(cpu[best], cpu[dearest])
        target = f"a call through the hall costs at least {LEAST_TIMES} times less CPU than through {peer}"
        figure = f"{dearest}: {times.text()} times; than {best} {least.text()} times"
        verdicts.append(Verdict(target, times.median >= LEAST_TIMES, figure))
    return verdicts
