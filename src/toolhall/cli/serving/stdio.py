"""Serves one dialect on standard input and output in this process."""

import asyncio
import os
import signal
import sys
import threading

from toolhall.app import Toolhall
from toolhall.cli.serving.loops import new_loop
from toolhall.cli.serving.output import redacted_output
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.prepare import prepare
from toolhall.dialects.mcp.jsonrpc import Request, Unreadable, read_message
from toolhall.dialects.mcp.refusals import INTERNAL_ERROR, McpRefusal
from toolhall.dialects.mcp.write import write_error

_CLIENT_SECONDS = 10.0  # a client that says nothing for so long is not going to
_MOST_LINE = 1024 * 1024


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


def tell_client(reason: str) -> None:
    """Answer an MCP client's first request with the reason why nothing is served, then let the process end.

    Without it the client would only see that its server has closed the connection.
    """
    if sys.stdin is None or os.isatty(0):
        return
    telling = threading.Thread(target=_tell, args=(reason,), daemon=True)
    telling.start()
    telling.join(_CLIENT_SECONDS)


def _tell(reason: str) -> None:
    while line := sys.stdin.buffer.readline(_MOST_LINE):
        try:
            message = read_message(line)
        except Unreadable:
            continue
        if isinstance(message, Request):
            refusal = McpRefusal(INTERNAL_ERROR, f"this server cannot start: {reason}")
            sys.stdout.buffer.write(write_error(message.id, refusal).body + b"\n")
            sys.stdout.buffer.flush()
            return
