"""Several workers are one hall: what one of them is told about keys, grants and approvals counts in every other."""

import contextlib
import http.client
import json
import re
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pyotp
import pytest

from tests.harness.cli import KIT, CliRunner
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
        self.key = key
        self.port = port
        self.pid: int = self.ask("POST", "/tools/tools/who", {})[1]

    def ask(self, method: str, path: str, body: object = None, key: str | None = None) -> tuple[int, Any]:
        """The status and the value of the reply."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        if body is None:
            self._line.request(method, path, headers=headers)
        else:
            self._line.request(method, path, json.dumps(body), headers | {"Content-Type": "application/json"})
        reply = self._line.getresponse()
        return reply.status, json.loads(reply.read() or b"null")

    def browse(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Message, bytes]:
        """What a page of this hall gets when it asks: status, headers and body."""
        own = {"Origin": f"http://127.0.0.1:{self.port}", "Sec-Fetch-Site": "same-origin"}
        self._line.request(
            method, path, body or None, own | {name.replace("_", "-"): headers[name] for name in headers}
        )
        reply = self._line.getresponse()
        return reply.status, reply.headers, reply.read()

    def call(self, tool: str, key: str | None = None, **arguments: str) -> int:
        """The status of a call."""
        return self.ask("POST", f"/tools/tools/{tool}", arguments, key)[0]

    def stream(self, path: str) -> http.client.HTTPResponse:
        """An event stream that has begun; it takes the whole connection."""
        self._line.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
        stream = self._line.getresponse()
        assert stream.status == 200
        while stream.readline().strip():  # the first event, which says where it begins
            pass
        return stream

    def again(self) -> "Worker":
        """A new connection, perhaps to the other process."""
        return Worker(self.port, self.key)

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


@contextlib.contextmanager
def another_connection(to: Worker) -> Generator[Worker]:
    """One more connection to the same worker."""
    deadline = time.monotonic() + patience()
    with contextlib.ExitStack() as stack:
        while (worker := stack.enter_context(contextlib.closing(to.again()))).pid != to.pid:
            assert time.monotonic() < deadline
        yield worker


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


def test_session_holds_in_every_worker_and_ends_in_all(hall: Hall) -> None:
    """C17: signed in at one, the console's requests and changes are answered by all, and signing out counts in all."""
    for one, other in ((hall.one, hall.other), (hall.other, hall.one)):
        cookie = signed_in(one)
        status, _, body = other.browse("GET", "/api/me", Cookie=cookie)
        me = json.loads(body)
        assert (status, me["caller"], me["may"]["manage"]) == (200, "boss", True)
        change = {"Cookie": cookie, "Content_Type": "application/json", "X_Toolhall_Token": me["token"]}
        for each in (one, other):
            assert each.browse("POST", "/api/me/token", b"{}", **change)[0] == 200
        form = urlencode({"word": me["token"]}).encode()
        kind = "application/x-www-form-urlencoded"
        assert other.browse("POST", "/sign-out", form, Cookie=cookie, Content_Type=kind)[0] == 303
        assert other.browse("GET", "/api/me", Cookie=cookie)[0] == 401
        deadline = time.monotonic() + patience()
        while one.browse("GET", "/api/me", Cookie=cookie)[0] != 401:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def signed_in(worker: Worker) -> str:
    """Sign in with the worker's key as the form does; the cookie."""
    status, headers, page = worker.browse("GET", "/sign-in")
    word = re.search(rb'name="word" value="([^"]+)"', page)
    assert status == 200
    assert word is not None
    cookie = str(headers["Set-Cookie"]).partition(";")[0]
    form = urlencode({"word": word[1].decode(), "action": "sign_in", "key": worker.key}).encode()
    kind = "application/x-www-form-urlencoded"
    status, headers, _ = worker.browse("POST", "/sign-in", form, Cookie=cookie, Content_Type=kind)
    assert status == 303
    return str(headers["Set-Cookie"]).partition(";")[0]


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


def calls_told(stream: http.client.HTTPResponse, count: int) -> list[Any]:
    """The records of the next events of calls."""
    deadline = time.monotonic() + patience()
    told: list[Any] = []
    while len(told) < count:
        assert time.monotonic() < deadline, told
        line = stream.readline()
        if line.startswith(b"data: {"):
            told.append(json.loads(line.removeprefix(b"data: "))["record"])
    return told


def test_calls_at_one_worker_are_events_and_counts_at_the_other(hall: Hall) -> None:
    for one, other in ((hall.one, hall.other), (hall.other, hall.one)):
        before = other.ask("GET", "/api/overview?window=1h")[1]
        with another_connection(other) as listening:
            stream = listening.stream("/api/events?topics=calls&tool=*.push")
            assert one.call("push") == 200
            assert [(each["outcome"], each.get("phase")) for each in calls_told(stream, 2)] == [
                ("intent", "intent"),
                ("ok", None),
            ]
        after = other.ask("GET", "/api/overview?window=1h")[1]
        pushes = [
            sum(each["calls"] for each in shown["topTools"] if ".push@" in each["tool"]) for shown in (before, after)
        ]
        assert pushes[1] - pushes[0] == 1
        me = other.ask("GET", "/api/me")[1]
        assert after["processes"] == me["processes"] == {"running": 2, "seen": 2}


def test_workers_without_a_shared_folder_are_refused(cli: CliRunner) -> None:
    (cli.folder / "own.py").write_text("from toolhall import Config, Toolhall\nhall = Toolhall(config=Config())\n")
    done = cli.run_process("serve", "own.py:hall", "--workers", "2", "--port", "0")
    assert (done.code != 0, "set data in its Config(...)" in done.error_line()) == (True, True)


def test_upstreams_are_synced_by_one_worker_and_offered_by_all(cli: CliRunner) -> None:
    """The first worker lists and writes; what it registers, and what somebody accepts, counts in every worker."""
    (cli.folder / "tools.py").write_text(TOOLS)
    admin = cli.run("key", "create", "boss", "--scopes", "admin,tools:*", "--expires", "1h").out.strip()
    assert cli.run("grant", "add", "boss", "*").code == 0
    with cli.serve(KIT, "--data", str(cli.folder / "upstream")) as upstream:
        common = f'url = "{upstream.url}/mcp"\nlevel = 1\n'
        settings = f"[upstreams.Seen]\n{common}trusted = true\n[upstreams.New]\n{common}"
        allowed = f'egress_allow = ["{upstream.url.rpartition("/")[2]}"]\n'
        (cli.folder / "own.toml").write_text(allowed + settings)
        words = ("tools.py", "--profile", "server", "--workers", "2", "--config", "own.toml")
        with cli.serve(*words) as server, both(int(server.url.rpartition(":")[2]), admin) as workers:
            for each in workers:
                until_served(each, "Seen")
                assert each.ask("POST", "/tools/New/echo", {"text": "hi"})[0] == 404
            review = reviewed(workers, "New")
            accepted = [each.ask("POST", "/api/upstreams/New/review", {"digest": review["digest"]}) for each in workers]
            assert sorted(status for status, _ in accepted) == [200, 503], (
                accepted
            )  # the second one says: send it again
            for each in workers:
                until_served(each, "New")


def until_served(worker: Worker, toolkit: str) -> None:
    """Wait until a tool of an upstream answers at this worker."""
    deadline = time.monotonic() + patience()
    while (reply := worker.ask("POST", f"/tools/{toolkit}/echo", {"text": "hi"}))[0] != 200:
        assert time.monotonic() < deadline, reply
        time.sleep(0.05)


def reviewed(workers: list[Worker], upstream: str) -> Any:
    """What waits of an upstream, once every worker says the same of it."""
    deadline = time.monotonic() + patience()
    while True:
        found = [each.ask("GET", f"/api/upstreams/{upstream}/review")[1] for each in workers]
        if found[0]["tools"] and all(each["digest"] == found[0]["digest"] for each in found):
            return found[0]
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
