"""Many callers at the same moment: each has sent its call before any of them can be answered."""

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.harness.http_client import HOST, Connection, http_request
from tests.harness.patience import patience
from tests.servers.authority import Authority
from tests.servers.hall import Hall


def _asked(connection: Connection, path: str) -> None:
    headers = {"host": f"{HOST}:{connection.port}", "content-type": "application/json", "content-length": "2"}
    connection.send(http_request("POST", path, headers.items(), b"{}"))


def _answered(connection: Connection) -> tuple[int, Any]:
    reply = connection.reply()
    return reply.status, reply.json


@contextmanager
def lines_to(hall: Hall, count: int, processes: int) -> Generator[list[Connection]]:
    """So many connections, shared by the processes of the hall; which one accepts is the system's choice."""
    deadline, share = time.monotonic() + patience() / 2, count // processes
    found: dict[str, list[Connection]] = {}
    with ExitStack() as stack:
        while sum(len(each) >= share for each in found.values()) < processes:
            assert time.monotonic() < deadline, {process: len(each) for process, each in found.items()}
            some = [Connection(hall.port) for _ in range(share)]
            for line in some:
                stack.callback(line.close)
                _asked(line, "/tools/Post/open")
            for line in some:
                _keep(line, found.setdefault(_answered(line)[1], []), share)
        yield [line for each in found.values() for line in each]


def _keep(line: Connection, lines: list[Connection], most: int) -> None:
    if len(lines) < most:
        lines.append(line)
    else:
        line.close()


def all_at_once(acme: Authority, lines: list[Connection]) -> list[tuple[int, Any]]:
    """What each gets for a call that needs the account, while the provider answers nobody until all have called."""
    with ThreadPoolExecutor(len(lines)) as pool:
        with acme.holding("/token"):
            list(pool.map(_asked, lines, ["/tools/Post/read"] * len(lines)))
        return list(pool.map(_answered, lines))
