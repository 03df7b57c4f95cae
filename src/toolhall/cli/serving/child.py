"""The program of a supervisor's child: serves a plan on the socket it was given."""

import asyncio
import os
import socket
import sys

import msgspec

from toolhall.cli.ending import ended
from toolhall.cli.logs import apply_log_settings, start_logging
from toolhall.cli.screen import strays_aside
from toolhall.cli.serving.family import READY
from toolhall.cli.serving.output import redacted_output
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.prepare import prepare
from toolhall.cli.serving.privacy import protect_process
from toolhall.cli.serving.server import GracefulServer
from toolhall.cli.terminal_approver import terminal_approver


def main() -> int:
    """Serve the plan that comes by the channel; this process's own arguments are the socket and the channel."""
    protect_process()
    listening, channel = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    with channel.makefile("rb") as told:
        plan, secrets = msgspec.json.decode(told.readline(), type=tuple[Plan, dict[str, str]])
    os.environ.update(secrets)  # until the targets are loaded, which may make a Toolhall of their own
    start_logging("warning")
    apply_log_settings(plan.config.log_level, plan.config.log_format, access=plan.config.access_log)
    return ended(lambda: _serve(plan, listening, channel))


def _serve(plan: Plan, listening: socket.socket, channel: socket.socket) -> int:
    """Tell the parent when it accepts, and stop when the parent says so or is gone."""
    # Several processes cannot share one keyboard.
    approver = terminal_approver() if plan.workers == 1 else None

    def started(server: GracefulServer) -> None:
        channel.sendall(READY)
        asyncio.get_running_loop().add_reader(channel, server.stop)

    with channel, listening, redacted_output(), prepare(plan, approver) as hall, strays_aside():
        GracefulServer(hall, started).run([listening])
    return 0


if __name__ == "__main__":
    sys.exit(main())
