"""A hall that offers what servers at URLs have, and nothing else."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.server_process import ServerProcess, environment, server_process, toolhall


@contextmanager
def hall_in_front(folder: Path, settings: str) -> Generator[ServerProcess]:
    """Serve what these settings name as upstreams, with its data in a folder."""
    (folder / "toolhall.toml").write_text(settings)
    (folder / "none.json").write_text(json.dumps({"mcpServers": {}}))
    command = toolhall("serve", "none.json", "--config", "toolhall.toml", "--port", "0", "--json")
    with server_process(command, folder, env=environment(folder, {}), log=folder / "server.log") as server:
        yield server
        server.stop()
