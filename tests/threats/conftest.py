"""What the attacks run against: one server over HTTP and one over stdio for all tests of a worker."""

from collections.abc import Iterator

import pytest

from tests.harness.mcp_messages import MODERN, REVISIONS
from tests.harness.server_process import ServerProcess, eventually
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncMcpClient, SyncStdioMcpClient, call_tool
from tests.threats.served import serving, stdio

WAYS = [f"{way}-{revision}" for way in ("http", "stdio") for revision in REVISIONS]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server over HTTP that every test may attack; none can break it."""
    folder = tmp_path_factory.mktemp("http")
    with serving(folder, call_timeout=5) as served:
        call_tool(SyncHttpMcpClient(served.port, MODERN), "tasks")
        # The audit is opened with the first record: from then on, the server holds what it always holds.
        logs = folder / "data" / "audit" / "1"
        assert eventually(lambda: any(log.read_bytes().count(b"\n") > 1 for log in logs.glob("*.jsonl")))
        yield served


@pytest.fixture(scope="session")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncStdioMcpClient]:
    """A server over stdio that every test may attack."""
    with stdio(tmp_path_factory.mktemp("stdio"), call_timeout=5) as line:
        yield line


@pytest.fixture(params=WAYS)
def line(request: pytest.FixtureRequest, server: ServerProcess, pipe: SyncStdioMcpClient) -> SyncMcpClient:
    """A way to a server, in every revision, over HTTP and over stdio."""
    way, _, revision = request.param.partition("-")
    return SyncHttpMcpClient(server.port, revision) if way == "http" else pipe.speak(revision)


@pytest.fixture(params=REVISIONS)
def http(request: pytest.FixtureRequest, server: ServerProcess) -> SyncHttpMcpClient:
    """A way to the server in every revision, over HTTP."""
    return SyncHttpMcpClient(server.port, request.param)
