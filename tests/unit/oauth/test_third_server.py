"""The same against a third authorization server: by the broker alone, and through a hall that is served."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.server_process import serving
from tests.servers import account_tools
from tests.servers.hall import Hall, Person, settings_for
from tests.servers.linking import MAIL, REDIRECT, linking, settings
from tests.servers.third import registered, third_server


@pytest.fixture
def third() -> Iterator[str]:
    with third_server() as issuer:
        yield issuer


async def test_connect_and_refresh(third: str) -> None:
    given = settings(third, client_id=registered(third, REDIRECT), client_secret=None)
    async with linking({"acme": given}) as hall:
        assert (await hall.connect()).state == "completed"
        first = await hall.token()
        hall.clock.now += 300
        second = await hall.token()
        assert first is not None
        assert second is not None
        assert first.token != second.token
        assert second.scopes == MAIL.scopes


async def test_a_served_hall_connects_and_calls(third: str, tmp_path: Path) -> None:
    """It must be registered before it starts, so its port is chosen first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        hall = Hall(free.getsockname()[1])
    client = registered(third, f"{hall.url}/oauth/callback")
    chosen = settings_for(third, tmp_path, client_id=client)
    with serving(tmp_path, Path(account_tools.__file__), port=hall.port, **chosen):
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}})
        (missing,) = said["missing_requirements"]["authorization"]
        assert (status, hall.status(missing["check_url"])) == (400, "pending")
        assert (await Person(hall).connect(missing["url"])).status == 200
        assert hall.status(missing["check_url"]) == "completed"
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}})
        assert (status, said["result"]["success"]) == (200, True)
