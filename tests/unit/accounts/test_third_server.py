"""The same against a third authorization server, where the acceptance kit lies beside the clone."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.servers.linking import MAIL, REDIRECT, linking, settings
from toolhall.accounts.broker import status_of

ROOT = Path(__file__).parents[3]
KIT = ROOT.parent / "shared" / "accept" / "lib" / "mock_as.py"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"  # has the libraries that the kit needs


@pytest.fixture
def third() -> Iterator[int]:
    """The port of the kit's server, in a process of its own."""
    if not KIT.exists() or not PYTHON.exists():
        pytest.skip("the acceptance kit is not beside this clone, or its clients are not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([PYTHON, KIT, str(port)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert "authorization server on" in server.stdout.readline()
            yield port
        finally:
            server.terminate()


def registered(port: int) -> str:
    """The id that the server gives to the hall."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        asked = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
        connection.request("POST", "/register", json.dumps(asked))
        client_id: str = json.loads(connection.getresponse().read())["client_id"]
        return client_id


async def test_connect_and_refresh(third: int) -> None:
    given = settings(f"http://127.0.0.1:{third}", client_id=registered(third), client_secret=None)
    async with linking({"acme": given}) as hall:
        assert status_of(await hall.connect()) == "completed"
        first = await hall.token()
        hall.clock.now += 300
        second = await hall.token()
        assert first is not None
        assert second is not None
        assert first.token != second.token
        assert second.scopes == MAIL.scopes
