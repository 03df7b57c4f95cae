# ruff: noqa: N802 - tests carry the names of their rows
"""I6: the source has no queue without a bound, and starts tasks only where somebody counts and ends them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "toolhall"
QUEUES = {"Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"}
TASKS = {"create_task", "ensure_future", "run_coroutine_threadsafe", "EagerStarter"}
# Lines whose bound is held by whoever puts something in.
BOUNDED_BY_HAND = {
    "egress/connection_pool.py": "requests that wait for a connection: 1,000",
    "egress/event_stream.py": "events that were not taken: as many bytes as an answer may have",
    "execution/upstream/sessions.py": "calls that wait for a session: 1,000 for each upstream",
    "execution/remote/websocket_transport.py": "unread messages of a call: 2 MiB, and of all calls sixteen times that",
    "execution/thread_pool.py": "jobs: one for each thread; calls that wait: 1,000 for each tool",
    "execution/worker.py": "orders: one call, and its cancellation",
    "toolserver/hub_link.py": "news of a call: 64, and questions, each of which is waited for",
    "http/stdio_lines.py": "lines that wait: those of one read, after which reading pauses",
    "server/protocol.py": "pipelined requests: 512, and those of one more read",
    "server/write_batcher.py": "requests that wait for their turn: one for each connection, of which 10,000 are open",
    "server/websocket_protocol.py": "messages of one read, after which reading pauses",
    "mcp/sessions.py": "streams of a session: 16, and a mebibyte of what they keep",
    "stores/audit/journal.py": "records: 20,000 that wait for the disk, and the calls that wait for them",
}
# Each ends its tasks itself, and says how many there can be.
STARTERS = {
    "oauth/broker.py": "one for each link that is claimed, which is once",
    "oauth/link.py": "one for each pending link, of which a caller has few",
    "oauth/refresh.py": "one for each account, however many wait for it",
    "examples/_fakes/http_server.py": "one for each connection to an example, on this machine",
    "stores/vault/vault.py": "one, which is waited for",
    "server/tool_server.py": "one for the lease, and one for the server",
    "cli/upstream_files.py": "one, which looks at the files",
    "client/memory_link.py": "one, which serves the client",
    "execution/upstream/connection.py": "one for each upstream",
    "execution/upstream/sessions.py": "one for each session that is being opened or closed, of which an upstream has few",
    "mcp_client/sse_session.py": "one for each session",
    "mcp_client/stdio_session.py": "two while a session is being opened",
    "execution/health_checks.py": "one for each toolkit that can tell how it is",
    "execution/remote/replica_pools.py": "one, with 64 at most below it",
    "execution/remote/websocket_transport.py": "one for each call that was cancelled, until that is said",
    "toolserver/hub_link.py": "one for each call that tells something",
    "server/protocol.py": "one for each request, bounded by the places",
    "server/shared_socket.py": "one for each accepted connection, until it is served",
    "server/websocket_protocol.py": "one for each connection, of which 10,000 are open",
    "server/reload.py": "one for each answered connection, of which 128 are open",
    "cli/serve_stdio.py": "the one that serves",
    "registration/service.py": "one, which is waited for",
    "registration/access.py": "one at a time",
    "stores/common.py": "one poller, and one exclusive change, which is awaited",
    "stores/open.py": "one, which makes the store",
    "execution/lifespan.py": "one, in which the toolkits are entered and left",
    "http/request.py": "one for each incomplete body of a stranger, of which there are 64",
    "http/app.py": "one, which opens the hall",
    "concurrency.py": "as many as a group's limit, and one deferred task at a time",
    "mcp/http.py": "one for each request of a session, bounded by the places",
    "mcp/stdio.py": "one for each request, of which 1,000 are in flight",
    "http/stdio_lines.py": "one for each message, of which 256 are answered at a time",
    "mcp/response.py": "two for each request that waits",
    "http/tool_server_join.py": "one for each lease of a full hall whose token somebody else has to judge",
    "http/call_context.py": "one for each request that waits",
    "http/api/events.py": "two for each stream, of which 64 are open",
    "http/sse.py": "two for each reader",
    "http/repeatable_calls.py": "one for each request that waits for a task",
    "mcp/stateless_tasks.py": "one for each stream that listens to tasks",
    "pipeline/tasks/engine.py": "one that looks after all tasks",
    "pipeline/tasks/run.py": "one for each task, of which 10,000 are open",
}


def calls(text: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a source, with the last name of what is called."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name, node
                case _:
                    pass


def unbounded(text: str) -> list[int]:
    """The lines that make a queue without a bound."""
    found = []
    for name, call in calls(text):
        stated = {keyword.arg for keyword in call.keywords}
        if (name in QUEUES and not call.args and "maxsize" not in stated) or name == "SimpleQueue":
            found.append(call.lineno)
        if name == "deque" and len(call.args) < 2 and "maxlen" not in stated:
            found.append(call.lineno)
    return found


def starts(text: str) -> bool:
    """Whether tasks are started here."""
    return any(name in TASKS for name, _ in calls(text))


@pytest.mark.threat("I6")
def test_I6_every_queue_and_deque_in_the_source_has_a_bound() -> None:
    """Nothing that comes from outside can be put into a line without end."""
    found = {path.relative_to(SOURCE).as_posix(): unbounded(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
    assert {name: lines for name, lines in found.items() if lines and name not in BOUNDED_BY_HAND} == {}


@pytest.mark.threat("I6")
def test_I6_modules_that_start_tasks_are_listed_with_their_bound() -> None:
    """A new place that starts tasks has to be thought through, and listed here with its bound."""
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if starts(path.read_text("utf-8"))}
    assert found - STARTERS.keys() == set(), "use a Crowd or a TaskGroup, or say here what bounds them"


@pytest.mark.threat("I6")
def test_I6_source_search_finds_unbounded_queues_and_started_tasks() -> None:
    """The two tests above can fail."""
    assert unbounded("asyncio.Queue()\nQueue(maxsize=3)\nqueue.Queue(3)\nqueue.SimpleQueue()\n") == [1, 4]
    assert unbounded("deque()\ndeque(x)\ndeque(x, 3)\ncollections.deque(maxlen=3)\n") == [1, 2]
    assert starts("asyncio.create_task(x)")
    assert starts("ensure_future(x)")
    assert not starts("group.start(x)")
