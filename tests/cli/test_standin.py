"""`toolhall serve --reload` while what it serves cannot be loaded: callers hear so at once, and none is lost."""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Generator

import pytest

from tests.cli.shell import PATIENCE, Shell
from tests.cli.test_serve import PLAIN, names
from tests.cli.test_serve_ways import read_until
from toolhall.cli.listen import listen
from toolhall.server import reload
from toolhall.server.reload import UnavailableResponder

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def listening() -> Generator[socket.socket, None, None]:
    with listen("127.0.0.1", 0) as bound:
        yield bound


def caller(listening: socket.socket, sends: bytes = REQUEST) -> socket.socket:
    connection = socket.create_connection(listening.getsockname(), PATIENCE)
    connection.sendall(sends)
    return connection


def heard(connection: socket.socket) -> bytes:
    """Everything up to the end."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_callers_of_what_cannot_be_loaded_hear_so_at_once_until_it_can(shell: Shell) -> None:
    file = shell.folder / "tools.py"
    file.write_text("def")
    with shell.serving("tools.py", "--reload") as server:
        assert server.process.stderr is not None
        read_until(server.process.stderr.fileno(), b"waiting for a change")
        large = urllib.request.Request(f"{server.url}/mcp", data=b"x" * 3_000_000)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(large, timeout=PATIENCE)
        with refused.value as reply:
            error = json.load(reply)["error"]
        assert (reply.code, reply.headers["content-type"], error["code"]) == (503, "application/json", "unavailable")
        assert "cannot be loaded; look at the terminal" in error["message"]
        assert error["message"] in shell.run("list", "--url", server.url).complaint()
        file.write_text(PLAIN.format(name="repaired"))
        read_until(server.process.stderr.fileno(), b"serving it again")
        assert names(shell, "--url", server.url) == ["repaired"], "who comes now waits for it"


def test_who_is_not_answered_waits_in_line_for_the_next_process(listening: socket.socket) -> None:
    stopped = threading.Event()
    with UnavailableResponder(listening) as stand_in:
        first = caller(listening)
        stand_in.wait(0.05, stopped, respond=True)
        second = caller(listening)
        stand_in.wait(0.05, stopped, respond=False)
        assert heard(first).startswith(b"HTTP/1.1 503 ")
        taken, _ = listening.accept()
        with taken, second:
            taken.settimeout(PATIENCE)
            assert taken.recv(1_000) == REQUEST


def test_callers_that_never_hang_up_are_answered_and_let_go(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "_MOST_OPEN", 4)
    stopped = threading.Event()
    silent = [caller(listening, b"") for _ in range(50)]
    with UnavailableResponder(listening) as stand_in:
        for _ in range(100):  # each wait ends by itself
            assert not stand_in.wait(0.01, stopped, respond=True)
            assert stand_in.open_connections <= 4
        stopped.set()
        assert stand_in.wait(PATIENCE, stopped, respond=True)
    assert all(b'"code":"unavailable"' in heard(each) for each in silent)
