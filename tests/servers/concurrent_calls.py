"""Concurrent calls over HTTP: each connection has sent its call before any call is answered."""

import json
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import Any

from tests.harness.patience import patience
from tests.servers.authority import Authority
from tests.servers.served_hall import ServedHall


def _send_request(line: HTTPConnection, path: str) -> None:
    line.request("POST", path, "{}", {"content-type": "application/json"})


def _read_response(line: HTTPConnection) -> tuple[int, Any]:
    reply = line.getresponse()
    return reply.status, json.loads(reply.read())


@contextmanager
def open_connections(hall: ServedHall, count: int, processes: int) -> Generator[list[HTTPConnection]]:
    """Open connections, evenly spread over the processes of the hall; the system chooses which one accepts."""
    deadline, share = time.monotonic() + patience(), count // processes
    found: dict[str, list[HTTPConnection]] = {}
    with ExitStack() as stack:
        while sum(len(each) >= share for each in found.values()) < processes:
            assert time.monotonic() < deadline, {process: len(each) for process, each in found.items()}
            some = [HTTPConnection("127.0.0.1", hall.port, timeout=patience()) for _ in range(share)]
            for line in some:
                stack.callback(line.close)
                _send_request(line, "/tools/Post/open")
            for line in some:
                _keep_or_close(line, found.setdefault(_read_response(line)[1], []), share)
        yield [line for each in found.values() for line in each]


def _keep_or_close(line: HTTPConnection, lines: list[HTTPConnection], most: int) -> None:
    if len(lines) < most:
        lines.append(line)
    else:
        line.close()


def call_concurrently(acme: Authority, lines: list[HTTPConnection]) -> list[tuple[int, Any]]:
    """Call on every connection while the provider holds its token endpoint; the replies."""
    with ThreadPoolExecutor(len(lines)) as pool:
        with acme.holding("/token"):
            list(pool.map(_send_request, lines, ["/tools/Post/read"] * len(lines)))
        return list(pool.map(_read_response, lines))
