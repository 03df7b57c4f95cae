"""One call in this process, without a kernel: CPU of the loop's thread, and of all threads, beside the ceiling's."""

from bench.loop import CONNECTIONS, measure_loop_cpu
from bench.report import Section, Verdict
from bench.rounds import Effort
from bench.spread import Spread, ratios

CALLS = 6_400
MOST_TIMES = 1.15

ABOUT = f"""The real connection code of both servers on {CONNECTIONS} connections whose transports only count, in one
event loop and in turn, so that neither the kernel nor the load generator is measured. The difference between all
threads and the loop's is the audit's thread. Median (least-most) of the rounds; ratios are taken within each round."""


def measure_loop(effort: Effort) -> Section:
    """Toolhall and the ceiling in turn."""
    seen = measure_loop_cpu(effort.rounds * 3, CALLS)
    rows = [
        [name, Spread.of(seen.thread[name]).text(1), Spread.of(seen.process[name]).text(1), _times(seen.thread, name)]
        for name in seen.thread
    ]
    times = ratios(seen.thread["toolhall"], seen.thread["ceiling"])
    target = f"the loop's CPU per call at most {MOST_TIMES} times the raw app's"
    verdict = Verdict(target, times.median <= MOST_TIMES, times.text(2))
    columns = ["server", "CPU µs of the loop", "CPU µs of all threads", "times ceiling full"]
    return Section("A call in the loop", ABOUT, columns, rows, [verdict], seen._asdict())


def _times(thread: dict[str, list[float]], name: str) -> str:
    return ratios(thread[name], thread["ceiling"]).text(2)
