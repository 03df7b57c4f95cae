"""An open-loop load generator: requests at a given rate, however fast the answers come, and their latency.

Requests are due at random times (a Poisson process of the given rate and a fixed seed), so that the server sees queues
as in real use. Each goes out on the next free connection; if none is free, it waits. Latency counts from when a request
was due, so that a server that stalls is charged for all that had to wait meanwhile. The generator runs as a process of
its own, with one thread over blocking `select`, which waits in microseconds where `epoll` waits in milliseconds.
"""

import ctypes
import gc
import json
import random
import select
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack
from typing import NamedTuple

from bench.launch import PYTHON, ROOT, Server
from bench.messages import Spoken

SEED = 7
DISTINCT_REQUESTS = 1_000
SILENCE_SECONDS = 20.0
MOST_CALLS = 500_000
_PR_SET_TIMERSLACK = 29  # linux/prctl.h; by default a sleep may end 50 microseconds late
_END_OF_HEAD = b"\r\n\r\n"


class Latency(NamedTuple):
    """Microseconds from when a request was due to its whole answer; `late` is the generator's own share."""

    p50: float
    p99: float
    late_p99: float  # from when a request was due to when it was sent, if a connection was free
    per_second: float


class Plan(NamedTuple):
    """What the generator is told, as JSON on its standard input."""

    port: int
    connections: int
    per_second: float
    seconds: float
    call: Spoken


def measure_latency(server: Server, per_second: float, seconds: float, connections: int, call: Spoken) -> Latency:
    """Run the generator beside the server."""
    plan = Plan(server.port, connections, per_second, seconds, call)
    run = subprocess.run(
        [str(PYTHON), "-m", "bench.open_loop"],
        cwd=ROOT,
        input=json.dumps(plan._asdict() | {"call": call._asdict()}),
        capture_output=True,
        text=True,
        timeout=seconds + 4 * SILENCE_SECONDS,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"{server.process.name}: the load generator failed: {run.stderr[-2000:]}")
    return Latency(**json.loads(run.stdout))


class Connection:
    """One connection with at most one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SILENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self._received = b""
        self._end = 0  # of the answer, once its head has been read

    def send(self, request: bytes, due: float) -> None:
        """Send a request that was due at this time."""
        self.due = due
        self.socket.sendall(request)

    def receive(self, good: bytes) -> bool:
        """Read what is there; True once the answer is whole and good."""
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise RuntimeError("the server closed a connection")
        self._received += chunk
        if not self._end:
            self._end = _end_of(self._received)
        if not self._end or len(self._received) < self._end:
            return False
        if not self._received.startswith(b"HTTP/1.1 200") or good not in self._received:
            raise RuntimeError(f"a wrong answer: {self._received[:500]!r}")
        self._received, self._end = self._received[self._end :], 0
        return True


def _percentiles(values: list[float]) -> list[float]:
    """The 99 percentiles of values; of a single one or none, which a very busy machine leaves, that one or zero."""
    return statistics.quantiles(values, n=100) if len(values) > 1 else [*values, 0.0][:1] * 99


def _end_of(received: bytes) -> int:
    """Where the answer ends, or 0 as long as its head is not whole."""
    head = received.find(_END_OF_HEAD)
    if head < 0:
        return 0
    length = received.lower().index(b"content-length:", 0, head) + len(b"content-length:")
    return head + len(_END_OF_HEAD) + int(received[length : received.index(b"\r\n", length)])


def generate(plan: Plan) -> Latency:
    """Send all requests, and wait for all answers."""
    with ExitStack() as stack:
        connections = [Connection(plan.port) for _ in range(plan.connections)]
        for connection in connections:
            stack.callback(connection.socket.close)
        return _Generator(plan, connections).run()


class _Generator:
    def __init__(self, plan: Plan, connections: list[Connection]) -> None:
        self._plan = plan
        self._good = plan.call.good.encode()
        self._requests = [plan.call.request(number) for number in range(DISTINCT_REQUESTS)]
        self._by_descriptor = {connection.socket.fileno(): connection for connection in connections}
        self._free = deque(connections)
        self._sent = 0
        self._waited = False  # whether the next request had to wait for a connection
        self._late: list[float] = []

    def run(self) -> Latency:
        for connection in self._free:  # the first request of a connection is not the usual one
            connection.send(self._requests[0], 0.0)
            while not connection.receive(self._good):
                pass
        start = time.perf_counter()
        due = _due_times(start, self._plan)
        descriptors, taken = list(self._by_descriptor), list[float]()
        while len(taken) < len(due):
            timeout = self._send(due)
            ready = select.select(descriptors, (), (), SILENCE_SECONDS if timeout is None else timeout)[0]
            if not ready and timeout is None:
                raise RuntimeError(f"no answer within {SILENCE_SECONDS:g} seconds")
            for descriptor in ready:
                connection = self._by_descriptor[descriptor]
                if connection.receive(self._good):
                    taken.append(time.perf_counter() - connection.due)
                    self._free.append(connection)
        elapsed = time.perf_counter() - start
        cut, late = (_percentiles(values) for values in (taken, self._late))
        return Latency(cut[49] * 1e6, cut[98] * 1e6, late[98] * 1e6, len(taken) / elapsed)

    def _send(self, due: list[float]) -> float | None:
        """Send what is due; the seconds until there is more to send, or None if an answer must come first."""
        now, sent = time.perf_counter(), self._sent
        while sent < len(due) and due[sent] <= now and self._free:
            if not self._waited:
                self._late.append(now - due[sent])
            self._free.popleft().send(self._requests[sent % DISTINCT_REQUESTS], due[sent])
            sent, self._waited = sent + 1, False
            now = time.perf_counter()
        self._sent = sent
        if sent == len(due):
            return None
        if self._free:
            return max(0.0, due[sent] - now)
        self._waited = due[sent] <= now
        return None


def _due_times(start: float, plan: Plan) -> list[float]:
    gaps = random.Random(SEED)
    due: list[float] = []
    moment = start
    for _ in range(min(MOST_CALLS, int(plan.per_second * plan.seconds))):
        moment += gaps.expovariate(plan.per_second)
        due.append(moment)
    return due


def main() -> None:
    """Read the plan, generate, print the figures."""
    told = json.loads(sys.stdin.read())
    plan = Plan(**told | {"call": Spoken(**told["call"])})
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    gc.disable()
    print(json.dumps(generate(plan)._asdict()))


if __name__ == "__main__":
    main()
