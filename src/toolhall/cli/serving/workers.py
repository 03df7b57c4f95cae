"""Serves with several processes on one socket; one that dies is replaced."""

import socket
import threading
import time

import msgspec

from toolhall.cli.failure import EXIT_FAILED
from toolhall.cli.screen import note
from toolhall.cli.serving.announce import announce_plan
from toolhall.cli.serving.family import Child, stop_signal
from toolhall.cli.serving.listen import bound, url_of
from toolhall.cli.serving.plan import Plan

_LOOK_SECONDS = 0.2
_AGAIN_SECONDS = 1.0  # a worker that cannot live must not be started in a tight loop


def run(plan: Plan) -> int:
    """Bind, start the workers, replace those that die, stop them all."""
    with stop_signal() as stopped, bound(plan.config) as listening:
        first = Child(plan, listening)
        # The first one alone: it makes what all of them share, and tells whether the target can be served at all.
        if not first.ready(stopped):
            return _never_began(first, stopped)
        plan = msgspec.structs.replace(plan, sibling=True)
        workers = [first, *(Child(plan, listening) for _ in range(plan.workers - 1))]
        announce_plan(url_of(listening), plan.config, plan)
        _keep_alive(workers, plan, listening, stopped)
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.gone()
    return 0


def _never_began(worker: Child, stopped: threading.Event) -> int:
    """The worker has said itself what was wrong."""
    if not stopped.is_set():
        return worker.gone() or EXIT_FAILED
    worker.stop()
    worker.gone()
    return 0


def _keep_alive(workers: list[Child], plan: Plan, listening: socket.socket, stopped: threading.Event) -> None:
    started = time.monotonic()
    while not stopped.wait(_LOOK_SECONDS):
        for place, worker in enumerate(workers):
            code = worker.ended()
            if code is None or time.monotonic() - started < _AGAIN_SECONDS:
                continue
            note(f"a worker ended with code {code}; another one takes its place")
            worker.gone()
            workers[place] = Child(plan, listening)
            started = time.monotonic()
