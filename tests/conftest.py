"""What every test gets: a check that it left nothing running and nothing open, and the time that this machine needs."""

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from hypothesis import settings

from tests.harness.patience import stretch_timeouts
from toolhall.redaction import log_redaction

# Seconds that something already told to stop may take, on a busy machine too; only a test that leaves something waits.
GRACE = 5.0
PAUSE = 0.05
FDS = Path("/proc/self/fd")
THREADS = Path("/proc/self/task")

# A shell that runs the tests in the background lets them ignore SIGINT, and so every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is no bug: time limits are pytest-timeout's, a slow example fails nothing.
settings.register_profile("toolhall", deadline=None, print_blob=True)
settings.load_profile("toolhall")


class Held(NamedTuple):
    """What this process holds at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    sockets: frozenset[str]


def held() -> Held:
    return Held(frozenset(threading.enumerate()), children(), sockets())


def held_since(before: Held) -> Held:
    now = held()
    return Held(now.threads - before.threads, now.children - before.children, now.sockets - before.sockets)


def children() -> frozenset[int]:
    """The process ids of this process's children, those that ended but were never waited for included."""
    try:
        lists = [(thread / "children").read_text() for thread in THREADS.iterdir()]
    except OSError:  # no such list here (or its thread has just ended): ask in the slow and portable way
        return frozenset(child.pid for child in psutil.Process().children())
    return frozenset(int(pid) for each in lists for pid in each.split())


def sockets() -> frozenset[str]:
    """The open sockets, each by a name that no later socket takes over."""
    if not FDS.exists():
        return frozenset(f"{each.fd} {each.laddr}" for each in psutil.Process().net_connections("all"))
    targets: set[str] = set()
    for fd in os.listdir(FDS):  # noqa: PTH208 - twice as fast as pathlib, and this runs twice for every test
        try:
            targets.add(f"{fd} {os.readlink(f'{FDS}/{fd}')}")  # noqa: PTH115 - the same
        except OSError:  # the descriptor of the listing itself
            continue
    return frozenset(target for target in targets if "socket:" in target)


def left_since(before: Held) -> Held:
    """What is held now and was not before, after what is ending has had its time to end."""
    deadline = time.monotonic() + GRACE
    while any(left := held_since(before)) and time.monotonic() < deadline:
        for thread in left.threads:
            with suppress(RuntimeError):  # it is listed before it has started
                thread.join(PAUSE)
        gc.collect()  # an unclosed socket in a dead cycle warns here, which fails the test by itself
        if left.children or left.sockets:  # a server closes what a browser has left when its turn comes
            time.sleep(PAUSE)
    return left


def describe(left: Held) -> Iterator[str]:
    """One line for each thing left, with what tells it apart."""
    for thread in left.threads:
        yield f"thread {thread.name!r}: join it, or shut its pool down"
    for pid in left.children:
        yield f"{psutil.Process(pid)}: end it and wait for it"
    connections = {str(each.fd): each for each in psutil.Process().net_connections("all")} if left.sockets else {}
    for socket in left.sockets:
        yield f"{connections.get(socket.split()[0], socket)}: close it"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that waits as long as this machine needs is not ended before its waits are."""
    stretch_timeouts(items, float(config.getini("timeout")))


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was imported: it stays, and every full round would walk all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def helper_process() -> None:
    """Start the process that Python keeps for its process pools, so that no test seems to leave it."""
    resource_tracker.ensure_running()


@pytest.fixture(scope="session", autouse=True)
def no_bytecode_from_children() -> None:
    """Processes read the bytecode that is there and write none: that of a file changed twice in a second is stale."""
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test after which a thread, a child process or a socket is there that was not there before."""
    before = held()
    yield
    if any(left := left_since(before)):
        pytest.fail("the test left behind:\n  " + "\n  ".join(describe(left)), pytrace=False)


@pytest.fixture
async def no_task_left_behind() -> AsyncIterator[None]:
    """Fail an asynchronous test that leaves a task, before the closing loop would cancel it silently."""
    yield
    if left := asyncio.all_tasks() - {asyncio.current_task()}:
        _, left = await asyncio.wait(left, timeout=GRACE)
    if left:
        tasks = "\n  ".join(f"task {task.get_name()!r} {task.get_coro()!r}: await or cancel it" for task in left)
        pytest.fail(f"the test left behind:\n  {tasks}", pytrace=False)


@pytest.fixture(autouse=True)
def no_loose_end(nothing_left_behind: None, request: pytest.FixtureRequest) -> None:
    """Add the check for tasks to asynchronous tests; it comes first of all their fixtures, so it ends last."""
    if request.node.get_closest_marker("asyncio"):
        request.getfixturevalue("no_task_left_behind")


@pytest.fixture(autouse=True)
def _own_secrets_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets that one test's calls used are not hidden in what the next one logs."""
    monkeypatch.setattr(log_redaction, "SECRETS_IN_USE", log_redaction.SecretsInUse())
