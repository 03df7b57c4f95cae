"""Binds the listening socket of `toolhall serve` and prints the start-up banner with its URL."""

import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from toolhall.cli.errors import EXIT_CONFIG, CommandError
from toolhall.cli.output import BOLD, CYAN, DIM, pluralize, print_json, styled
from toolhall.config import Config
from toolhall.http.request_guard import ENDPOINTS
from toolhall.model.json import JsonObject
from toolhall.server.process import ServeConfig
from toolhall.web.public_url import mcp_servers

if TYPE_CHECKING:
    from toolhall.registry.snapshot import Snapshot

_BACKLOG = 2_048
_WORKERS_NOTE = (
    "Several workers: MCP 2026-07-28 works with all of them; the older revisions keep a session in one process,"
    " so their clients need --workers 1."
)
_STDIO_NOTE = (
    "A client that starts its servers itself takes this instead ('toolhall install CLIENT TARGET' writes it into the\n"
    "client's file; 'toolhall install --help' lists the clients):"
)
_KEY_NOTE = "TOOLHALL_KEY is a key that 'toolhall key create NAME' made; 'Bearer' may also come with a token."
# The URL on this machine of a server that listens on all addresses.
_LOCAL_URLS = {"http://0.0.0.0:": "http://127.0.0.1:", "http://[::]:": "http://[::1]:"}


def listen(host: str, port: int, profile: str = "local") -> socket.socket:
    """Bind a listening socket; port 0 picks a free one.

    In the profile `local`, raises CommandError unless the resolved address is a loopback address.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CommandError(f"--host {host} cannot be found ({error.strerror}); use --host 127.0.0.1") from None
    family, _, _, _, address = addresses[0]
    # A name may resolve to anything; what counts is the address that is bound.
    if profile == "local" and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise CommandError(
            f"{host} is {address[0]}, which others can reach; use --profile server, or --host 127.0.0.1", EXIT_CONFIG
        )
    try:
        return socket.create_server((str(address[0]), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Python adds the address to the message of the system.
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        raise CommandError(
            f"cannot listen on {host} port {port} ({reason}); choose another with --port, or --port 0 for a free one"
        ) from None


def listen_as_configured(config: Config) -> socket.socket:
    """Bind a listening socket on the host and port of the settings."""
    return listen(config.host, config.port, config.profile)


def base_url(listening: socket.socket) -> str:
    """The base URL of a server on this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def print_serve_banner(url: str, config: Config, serve_config: ServeConfig, served: "Snapshot | None" = None) -> None:
    """Print the start-up banner of `toolhall serve`: the URL, and how MCP clients connect or start the server.

    With `served`, where this process has loaded it, also how much there is, if that is more than tools.
    """
    if serve_config.json:
        print_banner_json(url, config)
        return
    from toolhall.cli.install.launch import default_name, stdio_server  # lazy: only where a person reads it

    data, file = (None if each is None else Path(each) for each in (serve_config.data, serve_config.file))
    is_local = config.profile != "server"
    stdio = stdio_server(serve_config.targets, data, file, os.environ).entry() if is_local else None
    print_banner(
        url,
        config,
        workers=serve_config.workers,
        stdio=stdio,
        name=default_name(serve_config.targets, config.name),
        served=served,
    )


def print_banner_json(url: str, config: Config) -> None:
    """Print the URL as one JSON line."""
    url = _local_url(url)
    print_json({"url": url, "pid": os.getpid(), "console": _console_url(url, config)})


def _local_url(url: str) -> str:
    for any_address, loopback in _LOCAL_URLS.items():
        url = url.replace(any_address, loopback)
    return url


def _console_url(url: str, config: Config) -> str:
    return f"{config.public_url.rstrip('/') if config.public_url else url}/console/"


def print_banner(
    url: str,
    config: Config,
    *,
    workers: int = 1,
    stdio: JsonObject | None = None,
    name: str = "toolhall",
    served: "Snapshot | None" = None,
) -> None:
    """Print the URL with the endpoints and the entries for MCP clients.

    `name` is the name of the server in a client's file, `stdio` the entry of a client that starts it itself.
    """
    url = _local_url(url)
    console = _console_url(url, config)
    print(f"{styled('Console:', BOLD, sys.stdout)} {styled(console, CYAN, sys.stdout)}")
    print(f"{styled('Toolhall serves at', BOLD, sys.stdout)} {styled(url, CYAN, sys.stdout)}\n")
    for dialect, path in ENDPOINTS.items():
        print(f"  {dialect:<9}{url}{path}")
    if served is not None and served.kinds - {"tool"}:
        print(f"\n{_counts(served)}")
    print(f"\nPaste this into your client's configuration:\n\n{_snippet(url, config, name)}\n")
    if stdio is not None:
        print(f"{_STDIO_NOTE}\n\n{_indented({'mcpServers': {name: stdio}})}\n")
    if config.profile == "server":
        print(styled(_KEY_NOTE, DIM, sys.stdout))
    if config.data is not None:
        print(
            styled(
                f"Data folder: {_short_path(Path(config.data))} (every call is recorded in its audit)", DIM, sys.stdout
            )
        )
    if workers > 1:
        print(styled(_WORKERS_NOTE, DIM, sys.stdout))
    print(styled("Ctrl+C stops the server.", DIM, sys.stdout), flush=True)


def _counts(served: "Snapshot") -> str:
    """How many tools, resources, templates and prompts are served, in one line."""
    counts = (
        (len(served.listed), "tool"),
        (len(served.resources.pages.tools), "resource"),
        (len(served.resources.template_pages.tools), "resource template"),
        (len(served.prompts.listed), "prompt"),
    )
    return ", ".join(pluralize(count, noun) for count, noun in counts if count)


def _snippet(url: str, config: Config, name: str) -> str:
    """The entry of the hall in an MCP client's file; in the profile `server` with its key."""
    base = url if config.public_url is None else config.public_url.rstrip("/")
    return _indented(mcp_servers(name, base, with_key=config.profile == "server"))


def _indented(value: JsonObject) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _short_path(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
