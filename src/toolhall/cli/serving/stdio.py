"""Serves one dialect on standard input and output in this process."""

import asyncio
import signal
import sys

from toolhall.app import Toolhall
from toolhall.cli.serving.loops import new_loop
from toolhall.cli.serving.output import redacted_output
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.prepare import prepare


def run(plan: Plan) -> int:
    """Serve until the input ends or a signal comes."""
    with redacted_output(), prepare(plan) as hall, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(hall, plan.dialect))
    return 0


async def _serve(hall: Toolhall, dialect: str) -> None:
    serving = asyncio.ensure_future(hall.serve_stdio(dialect))
    if sys.platform != "win32":
        for stop in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(stop, serving.cancel)
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()
