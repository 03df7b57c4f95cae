"""Links and refreshes against the authorization server of the acceptance kit."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import account_tools
from tests.servers.acceptance_authority import acceptance_authority, register_client
from tests.servers.account_broker import MAIL, REDIRECT, broker_harness, provider_settings
from tests.servers.served_hall import NetworkBrowser, ServedHall, provider_config
from tests.threats.served import serving


@pytest.fixture
def third() -> Iterator[str]:
    with acceptance_authority() as issuer:
        yield issuer


async def test_acceptance_kit_authorization_server_link_and_refresh_succeed(third: str) -> None:
    given = provider_settings(third, client_id=register_client(third, REDIRECT), client_secret=None)
    async with broker_harness({"acme": given}) as hall:
        assert (await hall.connect()).state == "completed"
        first = await hall.token()
        hall.clock.now += 300
        second = await hall.token()
        assert first is not None
        assert second is not None
        assert first.token != second.token
        assert second.scopes == MAIL.scopes


async def test_acceptance_kit_authorization_server_served_hall_links_and_calls(third: str, tmp_path: Path) -> None:
    """It must be registered before it starts, so its port is chosen first."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        hall = ServedHall(free.getsockname()[1])
    client = register_client(third, f"{hall.url}/oauth/callback")
    chosen = provider_config(third, tmp_path, client_id=client)
    with serving(tmp_path, Path(account_tools.__file__), port=hall.port, **chosen):
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}})
        (missing,) = said["missing_requirements"]["authorization"]
        assert (status, hall.status(missing["check_url"])) == (400, "pending")
        assert (await NetworkBrowser(hall).connect(missing["url"])).status == 200
        assert hall.status(missing["check_url"]) == "completed"
        status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}})
        assert (status, said["result"]["success"]) == (200, True)
