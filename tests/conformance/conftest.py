"""Servers for these tests, and conversations with them."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from tests.conformance.serving import served, served_on_stdio
from tests.harness.mcp_client import (
    HttpMcpClient,
    McpClient,
    StatelessMcpClient,
    StdioMcpClient,
    http_mcp_client,
    shared_pipes,
    stateless_mcp_client,
    stdio_mcp_client,
)
from tests.harness.mcp_messages import LEGACY, MODERN, REVISIONS
from tests.harness.server_process import ServerProcess

PROBE = "probe.py"


@pytest.fixture(scope="session")
def probe() -> Iterator[ServerProcess]:
    """A server of probe.py, for all tests of this process."""
    with served(PROBE) as server:
        yield server


@pytest.fixture
async def http(probe: ServerProcess) -> AsyncIterator[StatelessMcpClient]:
    """Something to send HTTP requests to the probe with."""
    async with stateless_mcp_client(probe.origin) as client:
        yield client


class StdioServers(NamedTuple):
    """Servers of probe.py on standard input and output, for all tests of this process.

    A handshake is for the whole process, so modern clients have one where nobody ever shook hands.
    """

    legacy: "subprocess.Popen[bytes]"
    modern: "subprocess.Popen[bytes]"

    def for_revision(self, revision: str) -> "subprocess.Popen[bytes]":
        """The server for this revision."""
        return self.modern if revision == MODERN else self.legacy


@pytest.fixture(scope="session")
def stdio_servers() -> Iterator[StdioServers]:
    """The servers of both kinds of revisions."""
    with served_on_stdio(PROBE) as legacy, served_on_stdio(PROBE) as modern:
        yield StdioServers(legacy, modern)


@pytest.fixture(
    params=[(transport, revision) for transport in ("http", "stdio") for revision in REVISIONS], ids="-".join
)
async def talk(
    request: pytest.FixtureRequest, probe: ServerProcess, stdio_servers: StdioServers
) -> AsyncIterator[McpClient]:
    """A conversation with the probe, in each revision and over each transport."""
    transport, revision = request.param
    if transport == "http":
        async with http_mcp_client(probe.origin, revision) as talk:
            yield talk
    else:
        async with shared_pipes(stdio_servers.for_revision(revision)) as line:
            yield await stdio_mcp_client(line, revision)


@pytest.fixture(params=LEGACY)
async def session(request: pytest.FixtureRequest, probe: ServerProcess) -> AsyncIterator[HttpMcpClient]:
    """A session over HTTP with the probe, in each of the older revisions."""
    async with http_mcp_client(probe.origin, request.param) as talk:
        yield talk


@pytest.fixture
def revision() -> str:
    """The revision that `stdio` speaks, where a test does not say."""
    return MODERN


@pytest.fixture
async def stdio(revision: str, stdio_servers: StdioServers) -> AsyncIterator[StdioMcpClient]:
    """A conversation with the probe over standard input and output, in `revision`."""
    async with shared_pipes(stdio_servers.for_revision(revision)) as line:
        yield await stdio_mcp_client(line, revision)
