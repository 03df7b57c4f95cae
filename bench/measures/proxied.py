"""A call that is passed on: CPU of the process in the middle, between a client and the server that has the tool."""

from functools import partial

from bench import load
from bench.counted import spend
from bench.gateways import (
    FORGE,
    FORGE_SESSION,
    HALL,
    HALL_ALONE,
    HALL_SOCKET,
    HALL_TYPESCRIPT,
    PROXY,
    PROXY_KEPT,
    UPSTREAM,
    UPSTREAM_STDIO,
    UPSTREAM_STREAM,
    gateways,
)
from bench.load import CONNECTIONS
from bench.report import Section, Verdict
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

HALLS = {"proxied.http": HALL, "proxied.socket": HALL_SOCKET, "proxied.typescript": HALL_TYPESCRIPT}
FRONTS = {
    "proxied.upstream_http": UPSTREAM,
    "proxied.upstream_stream": UPSTREAM_STREAM,
    "proxied.upstream_stdio": UPSTREAM_STDIO,
}
CALLS = {PROXY: 64, PROXY_KEPT: 320, FORGE: 64, FORGE_SESSION: 160}  # of a round: a few seconds of each
HALL_CALLS = 6_000

ABOUT = f"""`add(a, b)`, called by MCP over {CONNECTIONS} connections at once; in each round a number of calls, all of
them answered. CPU is that of the process in the middle, without the server that runs the tool. `toolhall`: a hall, and
a Python tool server that joined it over HTTP; `socket`: the same over the tool server's own WebSocket; `typescript`: a
tool server in Node, over HTTP; `alone`: the hall runs the tool itself. `upstream`: a hall before an MCP server that
answers at once, with JSON, with an event `stream`, or as its child over `stdio`; its tools have level 1 like the other
halls', while those of upstreams have 4 unless it is stated, where every call waits for its intent (`guard`). Peers
stand before FastMCP over HTTP, with JSON replies. `fastmcp proxy` is `create_proxy(URL)`; `kept` lends all calls one
connected client, of which FastMCP warns, since contexts may mix. `contextforge` has authentication, pages, limits and
metrics off, and SQLite; it speaks
2025-11-25, the others 2026-07-28. `session`: all its calls in one session, for which it keeps a connection to the
server behind it. Median (least-most) of the rounds; ratios are taken within each round."""


def measure_proxied(options: Options) -> Section:
    """Every process in the middle in turn."""
    with gateways() as ways:
        lanes = {name: partial(spend, way.server, CALLS.get(name, HALL_CALLS), way.call) for name, way in ways.items()}
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    rows = [[name, *load.cells(loads), ratios(cpu[name], cpu[HALL_ALONE]).text(2)] for name, loads in seen.items()]
    columns = ["in the middle", *load.COLUMNS, "times the hall alone"]
    return Section("A call that is passed on", ABOUT, columns, rows, _verdicts(cpu), load.figures(seen))


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    """The hall against a call it runs itself, and peers against whichever tool server is the dearest for the hall."""
    halls = HALLS | FRONTS
    verdicts = [TARGETS[key].verdict(ratios(cpu[name], cpu[HALL_ALONE])) for key, name in halls.items()]
    dearest = max(HALLS.values(), key=lambda name: Spread.of(cpu[name]).median)
    peers = {"proxied.fastmcp": (PROXY, PROXY_KEPT), "proxied.contextforge": (FORGE, FORGE_SESSION)}
    for key, (peer, kept) in peers.items():
        times, least = ratios(cpu[peer], cpu[dearest]), ratios(cpu[kept], cpu[dearest])
        verdicts.append(TARGETS[key].verdict(times, f"with one connection for all calls {least.text()}"))
    front = max(FRONTS.values(), key=lambda name: Spread.of(cpu[name]).median)
    for key, peer in {"proxied.fastmcp_default": PROXY, "proxied.contextforge_default": FORGE}.items():
        verdicts.append(TARGETS[key].verdict(ratios(cpu[peer], cpu[front])))
    return verdicts
