"""Says where the hall is, and what to paste into a client."""

import os
import sys
from pathlib import Path

import msgspec

from toolhall.cli.screen import BOLD, CYAN, DIM, print_json, styled
from toolhall.config import Config
from toolhall.model.json import JsonObject

_PLACES = {
    "MCP": "/mcp",
    "OXP": "/oxp",
    "hub": "/hub",
    "machine": "/machine",
    "REST": "/tools",
    "health": "/health",
}
_WORKERS_NOTE = (
    "Several workers: MCP 2026-07-28 works with all of them; the older revisions keep a session in one process,"
    " so their clients need --workers 1."
)


_KEY_NOTE = "TOOLHALL_KEY is a key that 'toolhall key create NAME' made; 'Bearer' may also come with a token."
# Where to reach from this machine what listens on all of its addresses.
_HERE = {"http://0.0.0.0:": "http://127.0.0.1:", "http://[::]:": "http://[::1]:"}


def announce(url: str, config: Config, *, json: bool, workers: int = 1) -> None:
    """Print the URL: for a program as one JSON line, for a person with what to do next."""
    for everywhere, here in _HERE.items():
        url = url.replace(everywhere, here)
    if json:
        print_json({"url": url, "pid": os.getpid()})
        return
    print(f"{styled('Toolhall serves at', BOLD, sys.stdout)} {styled(url, CYAN, sys.stdout)}\n")
    for what, path in _PLACES.items():
        print(f"  {what:<9}{url}{path}")
    print(f"\nPaste this into your client's configuration:\n\n{_snippet(url, config)}\n")
    if config.profile == "server":
        print(styled(_KEY_NOTE, DIM, sys.stdout))
    if config.data is not None:
        print(
            styled(f"Data folder: {_short(Path(config.data))} (every call is recorded in its audit)", DIM, sys.stdout)
        )
    if workers > 1:
        print(styled(_WORKERS_NOTE, DIM, sys.stdout))
    print(styled("Ctrl+C stops the server.", DIM, sys.stdout), flush=True)


def _snippet(url: str, config: Config) -> str:
    """What an MCP client needs to find the hall, and in the profile `server` to be let in."""
    base = url if config.public_url is None else config.public_url.rstrip("/")
    server: JsonObject = {"type": "http", "url": f"{base}/mcp"}
    if config.profile == "server":
        server["headers"] = {"Authorization": "Bearer ${TOOLHALL_KEY}"}
    servers = {"mcpServers": {config.name: server}}
    return msgspec.json.format(msgspec.json.encode(servers), indent=2).decode()


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
