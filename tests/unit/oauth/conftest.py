"""Two authorization servers on loopback: one that is right, one that lies."""

from collections.abc import Iterator

import pytest

from tests.servers.authority import Authority, authority
from tests.servers.liar import Liar, liar
from tests.servers.linking import register


@pytest.fixture
def acme() -> Iterator[Authority]:
    """Authlib's server, at which the hall is registered."""
    with authority() as server:
        yield register(server)


@pytest.fixture
def lying() -> Iterator[Liar]:
    """A server that answers as the test says."""
    with liar() as server:
        yield server
