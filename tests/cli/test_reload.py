"""`toolhall serve --reload` while what it serves cannot be loaded: callers hear so at once, and none is lost."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Generator

import pytest

from tests.cli.test_serve import PLAIN, names
from tests.cli.test_serve_modes import read_until
from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from toolhall.cli.listen import listen
from toolhall.server import reload
from toolhall.server.reload import UnavailableResponder

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def listening() -> Generator[socket.socket, None, None]:
    with listen("127.0.0.1", 0) as bound:
        yield bound


def caller(listening: socket.socket, sends: bytes = REQUEST) -> socket.socket:
    connection = socket.create_connection(listening.getsockname(), patience())
    connection.sendall(sends)
    return connection


def heard(connection: socket.socket) -> bytes:
    """Everything up to the end."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_reload_of_code_that_cannot_be_loaded_answers_at_once(cli: CliRunner) -> None:
    file = cli.folder / "tools.py"
    file.write_text("def")
    with cli.serve("tools.py", "--reload") as server:
        assert server.process.stderr is not None
        read_until(server.process.stderr.fileno(), b"waiting for a change")
        large = urllib.request.Request(f"{server.url}/mcp", data=b"x" * 3_000_000)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(large, timeout=patience())
        with refused.value as reply:
            error = json.load(reply)["error"]
        assert (reply.code, reply.headers["content-type"], error["code"]) == (503, "application/json", "unavailable")
        assert "cannot be loaded; look at the terminal" in error["message"]
        assert error["message"] in cli.run("list", "--url", server.url).error_line()
        file.write_text(PLAIN.format(name="repaired"))
        read_until(server.process.stderr.fileno(), b"serving it again")
        assert names(cli, "--url", server.url) == ["repaired"], "who comes now waits for it"


def test_reload_while_starting_keeps_connections_for_the_next_process(listening: socket.socket) -> None:
    stopped = threading.Event()
    with UnavailableResponder(listening) as stand_in:
        first = caller(listening)
        stand_in.wait(0.05, stopped, respond=True)
        second = caller(listening)
        stand_in.wait(0.05, stopped, respond=False)
        assert heard(first).startswith(b"HTTP/1.1 503 ")
        taken, _ = listening.accept()
        with taken, second:
            taken.settimeout(patience())
            assert taken.recv(1_000) == REQUEST


def test_reload_with_callers_that_never_hang_up_lets_them_go(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "_MAX_OPEN", 4)
    stopped = threading.Event()
    silent = [caller(listening, b"") for _ in range(50)]
    with UnavailableResponder(listening) as stand_in:
        for _ in range(100):  # each wait ends by itself
            assert not stand_in.wait(0.01, stopped, respond=True)
            assert stand_in.open_connections <= 4
        stopped.set()
        assert stand_in.wait(patience(), stopped, respond=True)
    assert all(b'"code":"unavailable"' in heard(each) for each in silent)
