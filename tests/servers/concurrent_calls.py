"""Concurrent calls over HTTP: each connection has sent its call before any call is answered."""

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.harness.http_client import HOST, Connection, http_request
from tests.harness.patience import patience
from tests.servers.authority import Authority
from tests.servers.served_hall import ServedHall


def _send_request(connection: Connection, path: str) -> None:
    headers = {"host": f"{HOST}:{connection.port}", "content-type": "application/json", "content-length": "2"}
    connection.send(http_request("POST", path, headers.items(), b"{}"))


def _read_response(connection: Connection) -> tuple[int, Any]:
    reply = connection.reply()
    return reply.status, reply.json


@contextmanager
def open_connections(hall: ServedHall, count: int, processes: int) -> Generator[list[Connection]]:
    """Open connections, evenly spread over the processes of the hall; the system chooses which one accepts."""
    deadline, share = time.monotonic() + patience() / 2, count // processes
    found: dict[str, list[Connection]] = {}
    with ExitStack() as stack:
        while sum(len(each) >= share for each in found.values()) < processes:
            assert time.monotonic() < deadline, {process: len(each) for process, each in found.items()}
            some = [Connection(hall.port) for _ in range(share)]
            for line in some:
                stack.callback(line.close)
                _send_request(line, "/tools/Post/open")
            for line in some:
                _keep_or_close(line, found.setdefault(_read_response(line)[1], []), share)
        yield [line for each in found.values() for line in each]


def _keep_or_close(line: Connection, lines: list[Connection], most: int) -> None:
    if len(lines) < most:
        lines.append(line)
    else:
        line.close()


def call_concurrently(acme: Authority, lines: list[Connection]) -> list[tuple[int, Any]]:
    """Call on every connection while the provider holds its token endpoint; the replies."""
    with ThreadPoolExecutor(len(lines)) as pool:
        with acme.holding("/token"):
            list(pool.map(_send_request, lines, ["/tools/Post/read"] * len(lines)))
        return list(pool.map(_read_response, lines))
