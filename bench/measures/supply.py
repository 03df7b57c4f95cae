"""What it costs to supply a call: the same tool in one process, plain and with a secret."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import uvloop

from bench.report import Section
from bench.rounds import Options
from bench.spread import Spread
from bench.targets import TARGETS
from toolhall import Config, Context, Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.model.secret import Secret

CALLS = 2_000
BREATH = 32  # calls between two turns of the loop
NAME, VALUE = "BENCH_API_KEY", "SK0123456789abcdef0123456789abcdef"

ABOUT = f"""A tool that returns a number, called {CALLS:,} times a round in this process, without sockets. `secret`
declares one secret of {len(VALUE)} characters and reads it; it is fetched from the vault, and looked for in the result
in nine forms. CPU is this process's, of all its threads; `more` is what the secret adds, round by round."""


@tool(level=4)
async def plain(ctx: Context, n: int) -> int:
    """A number."""
    return n + len(ctx.caller.id)


@tool(level=4, secrets=[NAME])
async def secret(ctx: Context, n: int) -> int:
    """A number, with a secret."""
    return n + len(ctx.secret(NAME))


def measure_supply(options: Options) -> Section:
    """Both in turn."""
    seen = uvloop.run(_measured(options.rounds * 3))
    more = [with_one - without for with_one, without in zip(seen["secret"], seen["plain"], strict=True)]
    rows = [[name, Spread.of(cpu).text(1)] for name, cpu in [*seen.items(), ("more", more)]]
    verdict = TARGETS["supply.secret"].verdict(Spread.of(more))
    return Section("Requirements", ABOUT, ["tool", "CPU µs per call"], rows, [verdict], {**seen, "more": more})


async def _measured(rounds: int) -> dict[str, list[float]]:
    seen: dict[str, list[float]] = {"plain": [], "secret": []}
    with Toolhall(plain, secret, config=Config(calls_per_second=1e9, call_burst=1e9)) as hall:
        await hall.open()
        await hall.credentials.vault.set(NAME, Secret(VALUE), None, "bench")
        for number in range(rounds + 1):
            for name, figures in seen.items():
                microseconds = await _timed(
                    partial(hall.dispatcher.answer, CallTool(name, {"n": 1}, "bench", 7), LOCAL)
                )
                if number:  # the first round only warms up
                    figures.append(microseconds)
    return seen


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    start = time.process_time()
    for number in range(CALLS):
        await call()
        if number % BREATH == 0:
            await asyncio.sleep(0)
    return (time.process_time() - start) / CALLS * 1e6
