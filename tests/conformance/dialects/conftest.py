"""A server of kit.py, and clients of it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conformance.dialects.talk import Posted, Talk, piped, socket
from tests.conformance.serving import served
from tests.harness.http_client import HttpClient, http_client
from tests.harness.server_process import ServerProcess


@pytest.fixture(scope="session")
def kit() -> Iterator[ServerProcess]:
    """A server of kit.py, for all tests of this process."""
    with served("dialects/kit.py") as server:
        yield server


@pytest.fixture
async def http(kit: ServerProcess) -> AsyncIterator[HttpClient]:
    """Something to send HTTP requests to the kit with."""
    async with http_client(kit.origin) as client:
        yield client


@pytest.fixture
def machine(http: HttpClient) -> Posted:
    """A client of Machine Context over HTTP."""
    return Posted("machine", http)


@pytest.fixture
def hub(http: HttpClient) -> Posted:
    """A client of the hub over HTTP."""
    return Posted("hub", http)


@pytest.fixture(params=["machine-http", "machine-lines", "hub-http", "hub-socket", "hub-lines"])
async def talk(request: pytest.FixtureRequest, kit: ServerProcess, http: HttpClient) -> AsyncIterator[Talk]:
    """A client of each message dialect over each transport."""
    dialect, _, transport = request.param.partition("-")
    if transport == "http":
        yield Posted(dialect, http)
    elif transport == "socket":
        async with socket(kit.origin) as connected:
            yield connected
    else:
        async with piped(dialect) as connected:
            yield connected
