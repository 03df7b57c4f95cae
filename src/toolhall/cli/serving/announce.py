"""Says where the hall is, and what to paste into a client."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from toolhall.cli.screen import BOLD, CYAN, DIM, print_json, styled
from toolhall.cli.serving.plan import Plan
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
_STDIO_NOTE = (
    "A client that starts its servers itself takes this instead ('toolhall install CLIENT TARGET' writes it into the\n"
    "client's file; 'toolhall install --help' lists the clients):"
)
_KEY_NOTE = "TOOLHALL_KEY is a key that 'toolhall key create NAME' made; 'Bearer' may also come with a token."
# Where to reach from this machine what listens on all of its addresses.
_HERE = {"http://0.0.0.0:": "http://127.0.0.1:", "http://[::]:": "http://[::1]:"}


def announce_plan(url: str, config: Config, plan: Plan) -> None:
    """Print the URL, and for a person also what a client needs that starts the server itself."""
    if plan.json:
        announce(url, config, json=True)
        return
    launch: Any = importlib.import_module("toolhall.cli.clients.launch")  # only where there is a person to read it
    data, file = (None if each is None else Path(each) for each in (plan.data, plan.file))
    is_local = config.profile != "server"
    stdio = launch.stdio_server(plan.targets, data, file, os.environ).entry() if is_local else None
    announce(
        url, config, json=False, workers=plan.workers, stdio=stdio, name=launch.default_name(plan.targets, config.name)
    )


def announce(
    url: str,
    config: Config,
    *,
    json: bool,
    workers: int = 1,
    stdio: JsonObject | None = None,
    name: str = "toolhall",
) -> None:
    """Print the URL: for a program as one JSON line, for a person with what to do next.

    `name` is what clients call the server, and `stdio` how one that starts it itself does that.
    """
    for everywhere, here in _HERE.items():
        url = url.replace(everywhere, here)
    if json:
        print_json({"url": url, "pid": os.getpid()})
        return
    print(f"{styled('Toolhall serves at', BOLD, sys.stdout)} {styled(url, CYAN, sys.stdout)}\n")
    for what, path in _PLACES.items():
        print(f"  {what:<9}{url}{path}")
    print(f"\nPaste this into your client's configuration:\n\n{_snippet(url, config, name)}\n")
    if stdio is not None:
        print(f"{_STDIO_NOTE}\n\n{_pretty({'mcpServers': {name: stdio}})}\n")
    if config.profile == "server":
        print(styled(_KEY_NOTE, DIM, sys.stdout))
    if config.data is not None:
        print(
            styled(f"Data folder: {_short(Path(config.data))} (every call is recorded in its audit)", DIM, sys.stdout)
        )
    if workers > 1:
        print(styled(_WORKERS_NOTE, DIM, sys.stdout))
    print(styled("Ctrl+C stops the server.", DIM, sys.stdout), flush=True)


def _snippet(url: str, config: Config, name: str) -> str:
    """What an MCP client needs to find the hall, and in the profile `server` to be let in."""
    base = url if config.public_url is None else config.public_url.rstrip("/")
    server: JsonObject = {"type": "http", "url": f"{base}/mcp"}
    if config.profile == "server":
        server["headers"] = {"Authorization": "Bearer ${TOOLHALL_KEY}"}
    return _pretty({"mcpServers": {name: server}})


def _pretty(value: JsonObject) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
