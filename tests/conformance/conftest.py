"""Servers for these tests, conversations with them, and the marker that names what a test proves."""

import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from tests.conformance.judge import LEGACY, MODERN, REVISIONS
from tests.conformance.serving import Served, served, served_on_stdio
from tests.conformance.talk import HttpTalk, StdioTalk, Talk, http_client, http_talk, shared_line, stdio_talk
from tests.conformance.wire import Http

PROBE = "probe.py"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "requirement(*ids): what of requirements.toml this test proves")


@pytest.fixture(scope="session")
def probe() -> Iterator[Served]:
    """A server of probe.py, for all tests of this process."""
    with served(PROBE) as server:
        yield server


@pytest.fixture
async def http(probe: Served) -> AsyncIterator[Http]:
    """Something to send HTTP requests to the probe with."""
    async with http_client(probe.origin) as client:
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
async def talk(request: pytest.FixtureRequest, probe: Served, stdio_servers: StdioServers) -> AsyncIterator[Talk]:
    """A conversation with the probe, in each revision and over each transport."""
    transport, revision = request.param
    if transport == "http":
        async with http_talk(probe.origin, revision) as talk:
            yield talk
    else:
        async with shared_line(stdio_servers.for_revision(revision)) as line:
            yield await stdio_talk(line, revision)


@pytest.fixture(params=LEGACY)
async def session(request: pytest.FixtureRequest, probe: Served) -> AsyncIterator[HttpTalk]:
    """A session over HTTP with the probe, in each of the older revisions."""
    async with http_talk(probe.origin, request.param) as talk:
        yield talk


@pytest.fixture
def revision() -> str:
    """The revision that `stdio` speaks, where a test does not say."""
    return MODERN


@pytest.fixture
async def stdio(revision: str, stdio_servers: StdioServers) -> AsyncIterator[StdioTalk]:
    """A conversation with the probe over standard input and output, in `revision`."""
    async with shared_line(stdio_servers.for_revision(revision)) as line:
        yield await stdio_talk(line, revision)
