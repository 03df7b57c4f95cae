"""Several workers are one hall: what one of them is told about keys, grants and approvals counts in every other."""

import contextlib
import http.client
import json
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyotp
import pytest

from tests.harness.cli import CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line

TOOLS = '''
import os
from pathlib import Path
from toolhall import tool

@tool(level=1)
def who() -> int:
    """Say which process answers."""
    return os.getpid()

@tool(level=4)
def push() -> str:
    """Push."""
    return "pushed"

@tool(level=9, effect="destroys")
def burn(room: str) -> str:
    """Burn a room down."""
    with Path("burnt").open("a") as file:
        file.write(room + "\\n")
    return room
'''


class Worker:
    """One of the processes, asked on a connection that it has accepted."""

    def __init__(self, port: int, key: str) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=patience())
        self._key = key
        self.pid: int = self.ask("POST", "/tools/tools/who", {})[1]

    def ask(self, method: str, path: str, body: object = None, key: str | None = None) -> tuple[int, Any]:
        """The status and the value of the reply."""
        headers = {"Authorization": f"Bearer {key or self._key}"}
        if body is None:
            self._line.request(method, path, headers=headers)
        else:
            self._line.request(method, path, json.dumps(body), headers | {"Content-Type": "application/json"})
        reply = self._line.getresponse()
        return reply.status, json.loads(reply.read() or b"null")

    def call(self, tool: str, key: str | None = None, **arguments: str) -> int:
        """The status of a call."""
        return self.ask("POST", f"/tools/tools/{tool}", arguments, key)[0]

    def close(self) -> None:
        self._line.close()


@contextlib.contextmanager
def both(port: int, key: str) -> Generator[list[Worker]]:
    """A connection to each of two workers; which one accepts is the system's choice, so it may take several."""
    found: dict[int, Worker] = {}
    deadline = time.monotonic() + patience()
    with contextlib.ExitStack() as stack:
        while len(found) < 2:
            assert time.monotonic() < deadline
            worker = Worker(port, key)
            stack.callback(worker.close)
            found.setdefault(worker.pid, worker)
        yield list(found.values())


class Hall(NamedTuple):
    """Two workers of one hall, and the code generator of the person who answers for its admin."""

    one: Worker
    other: Worker
    generator: pyotp.TOTP


@pytest.fixture
def hall(cli: CliRunner) -> Iterator[Hall]:
    (cli.folder / "tools.py").write_text(TOOLS)
    admin = cli.run("key", "create", "boss", "--scopes", "admin,tools:*", "--owner", "alice").out.strip()
    assert cli.run("grant", "add", "boss", "*").code == 0
    with cli.start("factor", "add", "totp", "alice") as adding:
        read_line(adding)
        generator = pyotp.TOTP(read_line(adding).strip())
        assert adding.stdin is not None
        adding.stdin.write(generator.now().encode() + b"\n")
        assert adding.wait(patience()) == 0
    with (
        cli.serve("tools.py", "--profile", "server", "--workers", "2") as server,
        both(int(server.url.rpartition(":")[2]), admin) as (one, other),
    ):
        yield Hall(one, other, generator)


def until(worker: Worker, status: int, tool: str, key: str) -> None:
    """Wait until a call with this key gets this status."""
    deadline = time.monotonic() + patience()
    while (found := worker.call(tool, key)) != status:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_keys_and_grants_changed_in_one_worker_count_in_all(hall: Hall) -> None:
    for one, other in ((hall.one, hall.other), (hall.other, hall.one)):
        status, made = one.ask("POST", "/api/keys", {"name": "ci"})
        assert status == 201
        key = made["secret"]
        assert one.call("push", key) == 404, "nothing is granted yet, so it sees nothing"
        status, grant = one.ask("POST", "/api/grants", {"callers": "ci", "tools": "*.push"})
        assert (status, one.call("push", key)) == (201, 200)
        until(other, 200, "push", key)
        assert other.ask("DELETE", f"/api/grants/{grant['id']}")[0] == 200
        assert other.call("push", key) == 404
        until(one, 404, "push", key)
        assert one.call("who", key) == 200
        assert other.ask("DELETE", f"/api/keys/{made['id']}")[0] == 200
        assert other.call("who", key) == 401
        until(one, 401, "who", key)


def test_change_made_in_one_worker_is_taken_back_in_another(hall: Hall) -> None:
    made = hall.one.ask("POST", "/api/keys", {"name": "ci"})[1]
    grant = hall.one.ask("POST", "/api/grants", {"callers": "ci", "tools": "*.push"})[1]
    assert hall.other.ask("DELETE", f"/api/keys/{made['id']}")[0] == 200
    assert hall.other.ask("DELETE", f"/api/grants/{grant['id']}")[0] == 200
    until(hall.one, 401, "who", made["secret"])


def test_approval_heard_by_one_worker_is_used_once_in_all(hall: Hall, tmp_path: Path) -> None:
    status, refused = hall.one.ask("POST", "/tools/tools/burn", {"room": "attic"})
    assert status == 403, refused
    (waiting,) = hall.other.ask("GET", "/api/approvals")[1]["approvals"]
    code = {"code": hall.generator.at(int(time.time()) + 30)}  # the one of now was used when it was added
    status, answer = hall.other.ask("POST", f"/api/approvals/{waiting['id']}/approve", code)
    assert status == 200, answer
    assert hall.one.ask("POST", f"/api/approvals/{waiting['id']}/approve", code)[0] != 200
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(each.call, "burn", room="attic") for each in (hall.one, hall.other)]
        assert sorted(each.result() for each in calls) == [200, 403]
    assert (tmp_path / "burnt").read_text() == "attic\n"


def test_workers_without_a_shared_folder_are_refused(cli: CliRunner) -> None:
    (cli.folder / "own.py").write_text("from toolhall import Config, Toolhall\nhall = Toolhall(config=Config())\n")
    done = cli.run_process("serve", "own.py:hall", "--workers", "2", "--port", "0")
    assert (done.code != 0, "set data in its Config(...)" in done.error_line()) == (True, True)
