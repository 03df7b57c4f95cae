"""The program of a supervisor's child: serves a plan on the socket it was given."""

import asyncio
import socket
import sys

import msgspec

from toolhall.cli.ending import ended
from toolhall.cli.logs import start_logging
from toolhall.cli.screen import strays_aside
from toolhall.cli.serving.family import READY
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.prepare import prepare
from toolhall.cli.serving.server import GracefulServer
from toolhall.cli.terminal_approver import terminal_approver


def main() -> int:
    """Serve the plan in this process's own arguments; the descriptors behind it are the socket and the channel."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    listening, channel = (socket.socket(fileno=int(number)) for number in sys.argv[2:4])
    start_logging("warning")
    return ended(lambda: _serve(plan, listening, channel))


def _serve(plan: Plan, listening: socket.socket, channel: socket.socket) -> int:
    """Tell the parent when it accepts, and stop when the parent says so or is gone."""
    # Several processes cannot share one keyboard.
    approver = terminal_approver() if plan.workers == 1 else None

    def started(server: GracefulServer) -> None:
        channel.sendall(READY)
        asyncio.get_running_loop().add_reader(channel, server.stop)

    with channel, listening, prepare(plan, approver) as hall, strays_aside():
        GracefulServer(hall, started).run([listening])
    return 0


if __name__ == "__main__":
    sys.exit(main())
