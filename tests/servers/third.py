"""A third authorization server: the acceptance kit's, in a process of its own, where the kit lies beside the clone."""

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
def third_server() -> Generator[str]:
    """Run it; its issuer. Skips the test where it is not there."""
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


def registered(issuer: str, redirect_uri: str) -> str:
    """The id that the server gives to a hall at this address."""
    with closing(HTTPConnection(issuer.removeprefix("http://"), timeout=patience())) as connection:
        asked = {"redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none"}
        connection.request("POST", "/register", json.dumps(asked))
        client_id: str = json.loads(connection.getresponse().read())["client_id"]
        return client_id
