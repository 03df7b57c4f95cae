"""The listening socket: bound before anything is printed, so that a printed URL is live."""

import ipaddress
import os
import socket

from toolhall.cli.failure import EXIT_CONFIG, CommandFailed
from toolhall.config import Config

_BACKLOG = 2_048


def listen(host: str, port: int, profile: str = "local") -> socket.socket:
    """A socket that listens there; port 0 picks a free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CommandFailed(f"--host {host} cannot be found ({error.strerror}); use --host 127.0.0.1") from None
    family, _, _, _, address = found[0]
    # A name may lead anywhere; what counts is the address that is really bound.
    if profile == "local" and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise CommandFailed(
            f"{host} is {address[0]}, which others can reach; use --profile server, or --host 127.0.0.1", EXIT_CONFIG
        )
    try:
        return socket.create_server((str(address[0]), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python adds the address to the system's own words.
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise CommandFailed(
            f"cannot listen on {host} port {port} ({reason}); choose another with --port, or --port 0 for a free one"
        ) from None


def bound(config: Config) -> socket.socket:
    """A socket that listens where the settings say."""
    return listen(config.host, config.port, config.profile)


def url_of(listening: socket.socket) -> str:
    """The base URL of what is served on this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
