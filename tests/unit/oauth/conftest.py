"""Two authorization servers on loopback: Authlib's, and one whose responses the test gives."""

from collections.abc import Iterator

import pytest

from tests.servers.account_broker import register_hall
from tests.servers.authority import Authority, authority
from tests.servers.scripted_authority import ScriptedAuthority, scripted_authority


@pytest.fixture
def acme() -> Iterator[Authority]:
    """Authlib's server, at which the hall is registered."""
    with authority() as server:
        yield register_hall(server)


@pytest.fixture
def scripted() -> Iterator[ScriptedAuthority]:
    """A server whose responses the test gives."""
    with scripted_authority() as server:
        yield server
