"""Servers for these tests, conversations with them, and the marker that names what a test proves."""

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.conformance.judge import REVISIONS
from tests.conformance.serving import Served, served
from tests.conformance.talk import HttpTalk, StdioTalk, Talk, http_client, http_talk, stdio_talk
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


@pytest.fixture(params=[(transport, revision) for transport in ("http", "stdio") for revision in REVISIONS], ids="-".join)
async def talk(request: pytest.FixtureRequest, probe: Served) -> AsyncIterator[Talk]:
    """A conversation with the probe, in each revision and over each transport."""
    transport, revision = request.param
    opened = http_talk(probe.origin, revision) if transport == "http" else stdio_talk(PROBE, revision)
    async with opened as talk:
        yield talk


@pytest.fixture(params=[revision for revision in REVISIONS if revision < "2026"])
async def session(request: pytest.FixtureRequest, probe: Served) -> AsyncIterator[HttpTalk]:
    """A session over HTTP with the probe, in each of the older revisions."""
    async with http_talk(probe.origin, request.param) as talk:
        yield talk


@pytest.fixture
def revision() -> str:
    """The revision that `stdio` speaks, where a test does not say."""
    return REVISIONS[-1]


@pytest.fixture
async def stdio(revision: str) -> AsyncIterator[StdioTalk]:
    """A conversation with the probe over standard input and output, in `revision`."""
    async with stdio_talk(PROBE, revision) as talk:
        yield talk
