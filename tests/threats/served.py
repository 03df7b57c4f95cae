"""Servers of the hostile tools, over HTTP and over stdio."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from tests.harness import server_process
from tests.harness.server_process import ServerProcess, environment, stdio_server, toolhall
from tests.harness.sync_mcp_client import SyncStdioMcpClient

TOOLS = Path(__file__).parent / "hostile_tools.py"


def serving(
    folder: Path, target: Path = TOOLS, *, port: int = 0, **settings: Any
) -> AbstractContextManager[ServerProcess]:
    """Serve a file of tools over HTTP, by default the hostile ones."""
    return server_process.serving(folder, target, port=port, **settings)


@contextmanager
def stdio(folder: Path, target: Path = TOOLS, **settings: Any) -> Generator[SyncStdioMcpClient]:
    """Serve a file of tools over stdio, by default the hostile ones; a client of it."""
    command, log = toolhall("serve", str(target), "--stdio"), folder / "stdio.log"
    with stdio_server(command, folder, env=environment(folder, settings), log=log) as process:
        yield SyncStdioMcpClient(process, log)
