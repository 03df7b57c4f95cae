"""Serves one dialect over standard input and output: `serve_stdio`, and the error reply when start-up fails."""

import asyncio
import os
import signal
import sys
import threading

from toolhall.app import Toolhall
from toolhall.cli.startup import load_app
from toolhall.dialects.mcp.protocol import INTERNAL_ERROR, JsonRpcRequest, McpDecodeError, McpRefusal, read_message
from toolhall.dialects.mcp.responses import write_error
from toolhall.server.process import ServeConfig, new_event_loop
from toolhall.server.redacted_output import redacted_output

_FIRST_REQUEST_SECONDS = 10.0  # MCP clients send `initialize` at once
_MAX_LINE_BYTES = 1024 * 1024


def serve_stdio(config: ServeConfig) -> int:
    """Serve one dialect over stdin and stdout until stdin ends or a signal comes."""
    with redacted_output(), load_app(config) as hall, asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(hall, config.dialect))
    return 0


async def _serve(hall: Toolhall, dialect: str) -> None:
    serving = asyncio.ensure_future(hall.serve_stdio(dialect))
    if sys.platform != "win32":
        for stop in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(stop, serving.cancel)
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()


def reply_startup_error_to_client(reason: str) -> None:
    """Answer an MCP client's first request with the reason why the server cannot start.

    Otherwise the client would only see that the server closed the connection.
    """
    if sys.stdin is None or os.isatty(0):
        return
    replying = threading.Thread(target=_reply_to_first_request, args=(reason,), daemon=True)
    replying.start()
    replying.join(_FIRST_REQUEST_SECONDS)


def _reply_to_first_request(reason: str) -> None:
    while line := sys.stdin.buffer.readline(_MAX_LINE_BYTES):
        try:
            message = read_message(line)
        except McpDecodeError:
            continue
        if isinstance(message, JsonRpcRequest):
            refusal = McpRefusal(INTERNAL_ERROR, f"this server cannot start: {reason}")
            sys.stdout.buffer.write(write_error(message.id, refusal).body + b"\n")
            sys.stdout.buffer.flush()
            return
