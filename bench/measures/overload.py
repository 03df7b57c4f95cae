"""Three times the load that a server can take: it goes on answering as much as it can, and grows no larger."""

from functools import partial

from bench import messages
from bench.client import Client
from bench.launch import NAPPING_PLACES, TOOLHALL, TOOLHALL_NAPPING, Server, ServerSpec, serving
from bench.report import Section, Verdict
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.storm import Storm, anonymous, storm
from bench.targets import TARGETS

LOADS = {TOOLHALL: 32, TOOLHALL_NAPPING: NAPPING_PLACES}  # connections at which each is at its peak
TIMES = 3

ABOUT = """The tool `add`, and the same tool when it waits for a tenth of a second, of which 32 calls run at once. Peak
is a closed loop over as many connections as the server can take at once, 32; overload is one over three times as many,
and whoever is refused comes back at once, which is worse than an open loop at three times the rate: most of what
arrives is refused. `add` alone never waits, so nobody is refused there: more connections only stand in line. A
refusal's cost is what the server's CPU took beyond that of the calls it answered, as they cost at the peak."""


def measure_overload(options: Options) -> Section:
    """Peak and overload in turn, so that both see the same machine."""
    with serving(*map(ServerSpec, LOADS)) as servers:
        lanes = {}
        for server, (kind, connections) in zip(servers, LOADS.items(), strict=True):
            _greet(server)
            lanes[f"{kind}, peak"] = partial(storm, server, options.seconds, connections)
            lanes[f"{kind}, overload"] = partial(storm, server, options.seconds, connections * TIMES)
        seen = interleaved(lanes, options.rounds)
    columns = ["load", "good answers a second", "times the peak", "refused a second", "CPU µs per refusal", "RSS MB"]
    rows = [_row(name, seen) for name in seen]
    figures = {name: [each._asdict() for each in storms] for name, storms in seen.items()}
    return Section("Three times too much", ABOUT, columns, rows, _verdicts(seen), figures)


def _greet(server: Server) -> None:
    call = messages.mcp_call()
    with Client(server.port) as client:
        client.post(call.numbered(7), anonymous(call.headers))


def _row(name: str, seen: dict[str, list[Storm]]) -> list[str]:
    storms, peak = seen[name], seen[name.partition(",")[0] + ", peak"]
    good = Spread.of([each.good for each in storms])
    times = ratios([each.good for each in storms], [each.good for each in peak])
    refused, size = Spread.of([each.refused for each in storms]), Spread.of([each.rss for each in storms])
    costs = [_cost(each, usual) for each, usual in zip(storms, peak, strict=True) if each.refused]
    cost = Spread.of(costs).text(1) if costs else "-"
    return [name, good.text(), times.text(2), refused.text(), cost, size.text(1)]


def _cost(over: Storm, peak: Storm) -> float:
    """Microseconds of one refusal."""
    return max(0.0, over.cpu - over.good * peak.cpu / peak.good) / over.refused * 1e6


def _verdicts(seen: dict[str, list[Storm]]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    growth: list[float] = []
    for key, kind in (("overload.running", TOOLHALL), ("overload.waiting", TOOLHALL_NAPPING)):
        over, peak = seen[f"{kind}, overload"], seen[f"{kind}, peak"]
        times = ratios([each.good for each in over], [each.good for each in peak])
        verdicts.append(TARGETS[key].verdict(times))
        growth.append(over[-1].rss / over[0].rss)
    return [*verdicts, TARGETS["overload.memory"].verdict(Spread.of(growth))]
