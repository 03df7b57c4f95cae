"""Many callers at the same moment: each has sent its call before any of them can be answered."""

import json
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import Any

from tests.harness.patience import patience
from tests.servers.authority import Authority
from tests.servers.hall import Hall


def _asked(line: HTTPConnection, path: str) -> None:
    line.request("POST", path, "{}", {"content-type": "application/json"})


def _answered(line: HTTPConnection) -> tuple[int, Any]:
    reply = line.getresponse()
    return reply.status, json.loads(reply.read())


@contextmanager
def lines_to(hall: Hall, count: int, processes: int) -> Generator[list[HTTPConnection]]:
    """So many connections, shared by the processes of the hall; which one accepts is the system's choice."""
    deadline, share = time.monotonic() + patience(), count // processes
    found: dict[str, list[HTTPConnection]] = {}
    with ExitStack() as stack:
        while sum(len(each) >= share for each in found.values()) < processes:
            assert time.monotonic() < deadline, {process: len(each) for process, each in found.items()}
            some = [HTTPConnection("127.0.0.1", hall.port, timeout=patience()) for _ in range(share)]
            for line in some:
                stack.callback(line.close)
                _asked(line, "/tools/Post/open")
            for line in some:
                _keep(line, found.setdefault(_answered(line)[1], []), share)
        yield [line for each in found.values() for line in each]


def _keep(line: HTTPConnection, lines: list[HTTPConnection], most: int) -> None:
    if len(lines) < most:
        lines.append(line)
    else:
        line.close()


def all_at_once(acme: Authority, lines: list[HTTPConnection]) -> list[tuple[int, Any]]:
    """What each gets for a call that needs the account, while the provider answers nobody until all have called."""
    with ThreadPoolExecutor(len(lines)) as pool:
        with acme.holding("/token"):
            list(pool.map(_asked, lines, ["/tools/Post/read"] * len(lines)))
        return list(pool.map(_answered, lines))
