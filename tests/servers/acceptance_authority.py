"""The authorization server of the acceptance kit, in a process of its own, if the kit lies beside the clone."""

import json
import socket
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.harness.patience import patience

ROOT = Path(__file__).parents[2]
KIT = ROOT.parent / "shared" / "accept" / "lib" / "mock_as.py"
PYTHON = ROOT / ".venv-clients" / "bin" / "python"  # has the libraries that the kit needs


@contextmanager
def acceptance_authority() -> Generator[str]:
    """Run the server and give its issuer; skips the test if the kit is missing."""
    if not KIT.exists() or not PYTHON.exists():
        pytest.skip("the acceptance kit is not beside this clone, or its clients are not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([PYTHON, KIT, str(port)], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert "authorization server on" in server.stdout.readline()
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def register_client(issuer: str, redirect_uri: str) -> str:
    """Register a client with this redirect URI; its id."""
    with closing(HTTPConnection(issuer.removeprefix("http://"), timeout=patience())) as connection:
        asked = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none"}
        connection.request("POST", "/register", json.dumps(asked))
        client_id: str = json.loads(connection.getresponse().read())["client_id"]
        return client_id
