# ruff: noqa: N802 - tests carry the names of their rows
"""B6, B7: nobody gets at another's session, and every answer goes to whoever asked."""

import json
import re
import secrets
import time
from collections.abc import Iterator

import pytest

from tests.harness.http_client import HOST, Connection, fetch, http_request, parse_messages
from tests.harness.mcp_messages import LEGACY, MODERN, REVISIONS, encoded, request_in, tool_call
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncStdioMcpClient, answer_of, open_session
from tests.threats.callers import InProcessHall, McpCaller

each_legacy = pytest.mark.parametrize("revision", LEGACY)


@pytest.fixture
def hall_app() -> Iterator[InProcessHall]:
    """A hall in this process."""
    hall_app = InProcessHall(time.monotonic)
    yield hall_app
    hall_app.close()


def answer_to(question: bytes, colour: str) -> bytes:
    """The reply to the question that was asked on a stream."""
    asked = next(each for each in parse_messages(question) if each.get("method") == "elicitation/create")
    result = {"action": "accept", "content": {"colour": colour}}
    return encoded({"jsonrpc": "2.0", "id": asked["id"], "result": result})


@pytest.mark.threat("B6")
@each_legacy
async def test_B6_session_id_of_another_caller_is_answered_like_an_unknown_one(
    hall_app: InProcessHall, revision: str
) -> None:
    """Whoever knows the id of another's session learns nothing by it, not even that it exists."""
    alice, bob = McpCaller(hall_app, "alice", revision), McpCaller(hall_app, "bob", revision)
    bob.session = await alice.open()
    stranger = McpCaller(hall_app, "bob", revision)
    stranger.session = secrets.token_urlsafe(24)
    bodies = [
        encoded(tool_call(revision, "number", {"value": 7})),
        encoded(request_in(revision, "tools/list")),
        encoded(request_in(revision, "ping")),
        encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        encoded({"jsonrpc": "2.0", "id": "toolhall-1", "result": {}}),
    ]
    for body in bodies:
        assert (await bob.request(body).reply())[:1] == (404,)
        assert await bob.request(body).reply() == await stranger.request(body).reply()
    for method in ("GET", "DELETE"):
        assert await bob.request(method=method).reply() == await stranger.request(method=method).reply()
    assert (await alice.ask(tool_call(revision, "number", {"value": 7}))).text == "7"


@pytest.mark.threat("B6")
@each_legacy
async def test_B6_session_calls_and_streams_go_on_when_another_caller_uses_the_session_id(
    hall_app: InProcessHall, revision: str
) -> None:
    """What somebody else tries on a session reaches neither its stream, its calls nor their questions."""
    alice, bob = McpCaller(hall_app, "alice", revision), McpCaller(hall_app, "bob", revision)
    bob.session = await alice.open()
    stream = alice.request(method="GET")
    assert await stream.started() == 200
    painting = alice.request(encoded(tool_call(revision, "paint", {"wall": "north"})))
    question = await painting.until(b"elicitation/create")
    for body in (
        answer_to(question, "black"),
        encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    ):
        assert (await bob.request(body).reply()).status == 404
    for method in ("GET", "DELETE"):
        assert (await bob.request(method=method).reply()).status == 404
    assert (await alice.request(answer_to(question, "red")).reply()).status == 202
    assert parse_messages((await painting.reply()).body)[-1]["result"]["content"][0]["text"] == "north is red"
    hall_app.hall.remove("touch")
    assert b"list_changed" in await stream.until(b"list_changed")
    await stream.disconnect()


@pytest.mark.threat("B6")
@each_legacy
async def test_B6_second_stream_of_a_session_is_refused_and_the_first_goes_on(
    hall_app: InProcessHall, revision: str
) -> None:
    """The first reader keeps its stream; a second one is told so and takes nothing away."""
    alice = McpCaller(hall_app, "alice", revision)
    await alice.open()
    first = alice.request(method="GET")
    assert await first.started() == 200
    assert (await alice.request(method="GET").reply()).status == 409
    hall_app.hall.remove("touch")
    assert b"list_changed" in await first.until(b"list_changed")
    await first.disconnect()
    again = alice.request(method="GET")
    assert await again.started() == 200
    await again.disconnect()


@pytest.mark.threat("B6")
@each_legacy
async def test_B6_last_event_id_of_another_session_replays_nothing(hall_app: InProcessHall, revision: str) -> None:
    """An event id of another session resumes nothing of that session."""
    alice, bob = McpCaller(hall_app, "alice", revision), McpCaller(hall_app, "bob", revision)
    await alice.open()
    await bob.open()
    call = tool_call(revision, "steps", {"count": 2, "delay": 0})
    call["params"]["_meta"] = {"progressToken": (secret := secrets.token_hex(8))}
    answer = (await alice.request(encoded(call)).reply()).body
    (event, *_) = re.findall(rb"^id: (.+)$", answer, re.MULTILINE)
    assert secret.encode() in answer
    resumed = bob.request(
        method="GET", headers=[("mcp-session-id", bob.session or ""), ("last-event-id", event.decode())]
    )
    assert await resumed.started() == 200
    await resumed.disconnect()
    assert secret.encode() not in resumed.sent


@pytest.mark.threat("B6")
@each_legacy
async def test_B6_deleted_session_is_unknown_and_its_calls_have_ended(hall_app: InProcessHall, revision: str) -> None:
    """After DELETE its id is unknown, and its calls have ended."""
    alice = McpCaller(hall_app, "alice", revision)
    await alice.open()
    call = alice.request(encoded(tool_call(revision, "sleeps", {"seconds": 30})))
    assert (await alice.request(method="DELETE").reply()).status == 200
    await call.reply()
    assert (await alice.request(encoded(request_in(revision, "ping"))).reply()).status == 404


@pytest.mark.threat("B6")
async def test_B6_caller_without_proven_identity_sees_no_tool_in_any_revision(hall_app: InProcessHall) -> None:
    """A caller whose identity is unproven finds no tool, in every revision and by every way."""
    for revision in REVISIONS:
        nobody = McpCaller(hall_app, None, revision)
        if revision in LEGACY:
            await nobody.open()
        assert (await nobody.ask(request_in(revision, "tools/list"))).result["tools"] == []
        known, unknown = [await nobody.ask(tool_call(revision, name)) for name in ("touch", "nothing")]
        assert (known.code, known.text.replace("touch", "nothing")) == (unknown.code, unknown.text)


@pytest.mark.threat("B6")
@each_legacy
def test_B6_session_ids_are_long_random_and_not_found_by_guessing(server: ServerProcess, revision: str) -> None:
    """Ids are long, random and visible ASCII; a thousand guesses find none."""
    ids = {open_session(server.port, revision) for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"[\x21-\x7e]{22,}", each) for each in ids)
    assert len({each[:4] for each in ids}) > 40
    line = SyncHttpMcpClient(server.port, revision)
    known = next(iter(ids))
    guesses = [known[:-1], known[:-1] + chr(ord(known[-1]) ^ 1), known.swapcase(), known + "A", "%00", "x" * 10_000, ""]
    body = encoded(request_in(revision, "ping"))
    for guess in guesses + [secrets.token_urlsafe(24) for _ in range(200)]:
        request = line.request(body).replace(line.session.encode(), guess.encode())
        assert fetch(server.port, request).status == 404


@pytest.mark.threat("B6")
@each_legacy
@pytest.mark.parametrize(
    "place",
    ["c1-0", "c1-\u00b2", "c1-" + "9" * 5_000, "c1--1", "c1-1e9", "c1", "s-1", "-", "\u00e4", "c1-1 ", "c1-+1", ""],
)
def test_B6_malformed_last_event_id_opens_an_ordinary_stream_or_none(
    server: ServerProcess, revision: str, place: str
) -> None:
    """An event id that was never given is no fault: it opens an ordinary stream or none."""
    line = SyncHttpMcpClient(server.port, revision)
    line.ask(encoded(tool_call(revision, "number", {"value": 7})))
    headers = [
        ("Host", HOST),
        ("Accept", "text/event-stream"),
        ("Mcp-Session-Id", line.session),
        ("Last-Event-ID", place),
    ]
    with Connection(server.port) as connection:
        connection.send(http_request("GET", "/mcp", headers))
        assert re.match(rb"HTTP/1.1 (200|400|409)", connection.head())


@pytest.mark.threat("B7")
def test_B7_two_hundred_concurrent_requests_with_one_id_each_get_their_own_answer(server: ServerProcess) -> None:
    """All at once, all with the id 1, in three revisions: every connection gets its own nonce."""
    lines = [SyncHttpMcpClient(server.port, revision) for revision in REVISIONS for _ in range(2)]
    connections = [Connection(server.port) for _ in range(200)]
    nonces = [secrets.token_hex(8) for _ in connections]
    for count, (connection, nonce) in enumerate(zip(connections, nonces, strict=True)):
        line = lines[count % len(lines)]
        connection.send(line.request(encoded(tool_call(line.revision, "nonce", {"nonce": nonce}))))
    for connection, nonce in zip(connections, nonces, strict=True):
        assert answer_of(connection.reply()).text == nonce
        connection.close()


@pytest.mark.threat("B7")
def test_B7_progress_with_one_shared_token_goes_only_to_its_own_connection(server: ServerProcess) -> None:
    """The same id and the same progress token on many connections: each hears of its own steps only."""
    connections = [Connection(server.port) for _ in range(30)]
    for count, connection in enumerate(connections):
        line = SyncHttpMcpClient(server.port, MODERN)
        body = tool_call(MODERN, "steps", {"count": count % 5 + 1})
        body["params"]["_meta"]["progressToken"] = 1
        connection.send(line.request(encoded(body)))
    for count, connection in enumerate(connections):
        *notices, answer = parse_messages(connection.reply().body)
        assert [each["params"]["progress"] for each in notices] == list(range(1, count % 5 + 2))
        assert answer["result"]["content"][0]["text"] == "done"
        connection.close()


@pytest.mark.threat("B7")
@each_legacy
async def test_B7_elicitation_reply_with_a_shared_id_reaches_the_call_of_its_own_session(
    hall_app: InProcessHall, revision: str
) -> None:
    """Two callers are asked the same question under the same id; each reply reaches its own call."""
    callers = [McpCaller(hall_app, name, revision) for name in ("alice", "bob", "alice")]
    for caller in callers:
        await caller.open()
    calls = [caller.request(encoded(tool_call(revision, "paint", {"wall": "north"}))) for caller in callers]
    colours = ["red", "green", "blue"]
    for caller, call, colour in zip(callers, calls, colours, strict=True):
        question = await call.until(b"elicitation/create")
        assert (await caller.request(answer_to(question, colour)).reply()).status == 202
    for call, colour in zip(calls, colours, strict=True):
        found = parse_messages((await call.reply()).body)[-1]
        assert found["result"]["content"][0]["text"] == f"north is {colour}"


@pytest.mark.threat("B7")
@pytest.mark.parametrize("revision", REVISIONS)
def test_B7_stdio_request_with_an_id_still_in_use_is_refused_and_the_first_is_answered(
    pipe: SyncStdioMcpClient, revision: str
) -> None:
    """Over stdio ids tell answers apart; an id that is still in use is refused, and the first keeps its answer."""
    line = pipe.speak(revision)
    nonces = {count: secrets.token_hex(8) for count in range(200)}
    for count, nonce in nonces.items():
        line.tell(encoded({**tool_call(revision, "nonce", {"nonce": nonce}), "id": count}))
    found = [json.loads(line.line()) for _ in nonces]
    assert {each["id"]: each["result"]["content"][0]["text"] for each in found} == nonces
    for nonce in ("first", "second"):
        line.tell(encoded(tool_call(revision, "nonce", {"nonce": nonce})))
    refused, answered = (json.loads(line.line()) for _ in range(2))
    assert refused["error"]["code"] == -32600
    assert answered["result"]["content"][0]["text"] == "first"
