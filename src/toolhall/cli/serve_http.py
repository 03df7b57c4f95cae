"""Serves a hall over HTTP in this process: `serve_http`, and `main` of a worker process of the supervisor."""

import asyncio
import os
import socket
import sys

import msgspec

from toolhall.cli.call_ui import terminal_approver
from toolhall.cli.errors import run_command
from toolhall.cli.listen import base_url, listen, print_serve_banner
from toolhall.cli.logs import apply_log_settings, start_logging
from toolhall.cli.output import stdout_to_stderr
from toolhall.cli.settings import check_not_exposed
from toolhall.cli.startup import load_app
from toolhall.server.process import ServeConfig, protect_process
from toolhall.server.redacted_output import redacted_output
from toolhall.server.server import HallServer
from toolhall.server.supervisor import READY


def serve_http(config: ServeConfig) -> int:
    """Load the hall, bind the socket, print the banner once every toolkit is entered, serve until a signal."""
    with redacted_output(), load_app(config, terminal_approver()) as hall:
        host = config.host or hall.config.host
        check_not_exposed(hall.config.profile, host)
        port = hall.config.port if config.port is None else config.port
        with listen(host, port, hall.config.profile) as listening, stdout_to_stderr() as real_stdout:

            def started(_: HallServer) -> None:
                with real_stdout():
                    print_serve_banner(base_url(listening), hall.config, config, hall.registry.snapshot)

            HallServer(hall, started).run([listening])
    return 0


def main() -> int:
    """Main of a worker process; its arguments are the descriptors of the listening socket and the channel.

    The supervisor sends the ServeConfig and the secret environment variables over the channel.
    """
    protect_process()
    listening, channel = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    with channel.makefile("rb") as received:
        config, secrets = msgspec.json.decode(received.readline(), type=tuple[ServeConfig, dict[str, str]])
    os.environ.update(secrets)  # until the targets are loaded, which may create a Toolhall of their own
    start_logging("warning")
    apply_log_settings(config.config.log_level, config.config.log.format, access=config.config.access_log)
    return run_command(lambda: _serve_worker(config, listening, channel))


def _serve_worker(config: ServeConfig, listening: socket.socket, channel: socket.socket) -> int:
    """Serve; report READY over the channel, and stop when the supervisor closes it or exits."""
    # Several processes cannot share one keyboard.
    approver = terminal_approver() if config.workers == 1 else None

    def started(server: HallServer) -> None:
        channel.sendall(READY)
        asyncio.get_running_loop().add_reader(channel, server.stop)

    with channel, listening, redacted_output(), load_app(config, approver) as hall, stdout_to_stderr():
        HallServer(hall, started, shares_sockets=config.workers > 1).run([listening])
    return 0


if __name__ == "__main__":
    sys.exit(main())
