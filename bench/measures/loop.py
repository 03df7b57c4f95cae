"""One call in this process, without a kernel: CPU of the loop's thread, and of all threads, beside the ceiling's."""

import statistics
from collections.abc import Sequence

from bench.loop import BARE, BATCH, CEILING, CONNECTIONS, PASSES, PROMPT, READ, Batch, measure_loop_cpu
from bench.report import Section
from bench.rounds import Options
from bench.spread import Spread
from bench.targets import TARGETS

ABOUT = f"""The real connection code of both servers on {CONNECTIONS} connections whose transports only count, in one
event loop, so that neither the kernel nor the load generator is measured. `toolhall` is the bare call over MCP
2026-07-28, `read` and `prompt` are a resource that returns a text and a prompt without arguments, `session` is
2025-11-25, `key` has a key and three limits, `grant` a grant and a durable intent too; the
others are dialects. All are measured in turn, {BATCH} calls at a time, forth and back; a round is the median of
{PASSES} such passes or of their ratios. All threads: with the audit's, until the records are on disk. Median
(least-most) of the rounds."""


def measure_loop(options: Options) -> Section:
    """All targets in turn."""
    seen = measure_loop_cpu(options.rounds)
    thread = {name: [batch.thread for batch in batches] for name, batches in seen.items()}
    process = {name: [batch.process for batch in batches] for name, batches in seen.items()}
    rows = [
        [
            name,
            _rounds(thread[name]).text(1),
            _rounds(process[name]).text(1),
            _ratio(thread[name], thread[CEILING]).text(2),
            _ratio(thread[name], thread[BARE]).text(2),
            _ratio(process[name], process[BARE]).text(2),
        ]
        for name in seen
    ]
    columns = [
        "call",
        "CPU µs of the loop",
        "CPU µs of all threads",
        "loop, times ceiling full",
        "loop, times toolhall",
        "all, times toolhall",
    ]
    width = _ratio(thread[BARE], thread[CEILING]).width
    verdicts = [
        TARGETS["loop.spread"].verdict(Spread.of([width * 100])),
        TARGETS["loop.read"].verdict(_ratio(process[READ], process[BARE])),
        TARGETS["loop.prompt"].verdict(_ratio(process[PROMPT], process[BARE])),
    ]
    return Section("A call in the loop", ABOUT, columns, rows, verdicts, _figures(seen))


def _rounds(values: Sequence[float]) -> Spread:
    """The medians of the rounds."""
    return Spread.of([statistics.median(values[first : first + PASSES]) for first in range(0, len(values), PASSES)])


def _ratio(values: Sequence[float], base: Sequence[float]) -> Spread:
    return _rounds([value / other for value, other in zip(values, base, strict=True)])


def _figures(seen: dict[str, list[Batch]]) -> dict[str, list[dict[str, float]]]:
    return {name: [batch._asdict() for batch in batches] for name, batches in seen.items()}
