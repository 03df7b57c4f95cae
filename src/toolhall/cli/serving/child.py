"""Serves as the child of a supervisor, on the socket it was given."""

import asyncio
import socket

from toolhall.cli.approval import terminal_approver
from toolhall.cli.failure import WrongUsage
from toolhall.cli.screen import strays_aside
from toolhall.cli.serving.family import READY
from toolhall.cli.serving.plan import Plan
from toolhall.cli.serving.prepare import prepare
from toolhall.cli.serving.server import GracefulServer


def run(plan: Plan) -> int:
    """Tell the parent when it accepts, and stop when the parent says so or is gone."""
    listening, channel = _inherited(plan.child or "")
    # Several processes cannot share one keyboard.
    approver = terminal_approver() if plan.workers == 1 else None
    with channel, listening, prepare(plan, approver) as hall, strays_aside():

        def started(server: GracefulServer) -> None:
            channel.sendall(READY)
            asyncio.get_running_loop().add_reader(channel, server.stop)

        GracefulServer(hall, started).run([listening])
    return 0


def _inherited(numbers: str) -> tuple[socket.socket, socket.socket]:
    try:
        first, second = (int(number) for number in numbers.split(":"))
        return socket.socket(fileno=first), socket.socket(fileno=second)
    except (ValueError, OSError):
        raise WrongUsage("--child is for the supervisor only; use --workers or --reload") from None
