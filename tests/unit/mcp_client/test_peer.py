"""The core of every session: what a server may do to it, and what becomes of requests."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.harness.patience import patience
from tests.unit.builders import RecordingLink
from tests.unit.mcp_client.session_client import QUIET, ROOTED, Events, Hooks
from toolhall.dialects.mcp.protocol import REVISION_2025_03_26, REVISION_2025_11_25, Revision
from toolhall.execution.client_link import ThrottledLink
from toolhall.mcp_client.peer import MAX_BAD_MESSAGES, MAX_PENDING, MAX_QUESTIONS, StreamPeer
from toolhall.mcp_client.session import McpRequest, NotSent, RequestLost, RpcError
from toolhall.mcp_client.targets import ClientProfile
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import ProgressEvent

PING = McpRequest(method="ping")


class Line:
    """A peer whose messages are kept, and whose questions nobody answers until `answered` is set."""

    def __init__(self, revision: Revision = REVISION_2025_11_25, profile: ClientProfile = ROOTED) -> None:
        self.sent: list[bytes] = []
        self.asked = 0
        self.withdrawn = 0
        self.answered = asyncio.Event()
        self.events = Events()
        self.peer = StreamPeer(profile, self.events, self.answer, self.send)
        self.peer.speak(revision)

    async def send(self, body: bytes) -> None:
        self.sent.append(body)

    async def answer(self, method: str, params: JsonObject) -> JsonObject:
        assert (method, params) == ("roots/list", {})
        self.asked += 1
        try:
            await self.answered.wait()
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise
        return {"roots": []}

    def say(self, message: Mapping[str, object]) -> None:
        assert self.peer.receive(encode(message))

    async def until(self, condition: object) -> None:
        assert callable(condition)
        async with asyncio.timeout(patience()):
            while not condition():  # noqa: ASYNC110 - tasks of the peer tell nobody
                await asyncio.sleep(0)


async def test_responses_find_their_requests_in_any_order() -> None:
    line = Line()
    first, second = (asyncio.create_task(line.peer.request(PING)) for _ in range(2))
    await line.until(lambda: len(line.sent) == 2)
    for stray in (99, "1", None, 1.0):
        line.say({"id": stray, "result": {}})
    line.say({"id": 2, "result": {"n": 2}})
    line.say({"id": 2, "result": {"n": 3}})
    line.say({"id": 1, "error": {"code": -5, "message": "no"}})
    assert bytes(await second) == b'{"n":2}'
    with pytest.raises(RpcError, match="no"):
        await first
    assert line.peer.pending == {}


async def test_batch_is_taken_by_the_revision_that_has_them() -> None:
    line = Line(REVISION_2025_03_26)
    task = asyncio.create_task(line.peer.request(PING))
    await line.until(lambda: line.sent)
    assert line.peer.receive(encode([{"method": "notifications/tools/list_changed"}, {"id": 1, "result": {}}]))
    assert bytes(await task) == b"{}"
    assert line.events.happened.get_nowait() == "tools"
    assert not Line().peer.receive(b"[]")


async def test_progress_goes_to_the_request_of_its_token() -> None:
    line, hooks = Line(), Hooks()
    task = asyncio.create_task(line.peer.request(McpRequest(method="ping", wants_events=True), hooks))
    await line.until(lambda: line.sent)
    for token in (2, "1", 1):
        line.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 5}})
    line.say({"id": 1, "result": {}})
    await task
    assert hooks.heard == [ProgressEvent(5)]


async def test_requests_are_bounded() -> None:
    line = Line()
    tasks = [asyncio.create_task(line.peer.request(PING)) for _ in range(MAX_PENDING)]
    await line.until(lambda: len(line.sent) == MAX_PENDING)
    with pytest.raises(NotSent, match=str(MAX_PENDING)):
        await line.peer.request(PING)
    line.peer.fail("it has ended")
    lost = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(each) for each in lost} == {RequestLost}
    with pytest.raises(NotSent, match="it has ended"):
        await line.peer.request(PING)


async def test_questions_are_bounded_and_end_with_the_session() -> None:
    line = Line()
    for number in range(3 * MAX_QUESTIONS):
        line.say({"id": number, "method": "roots/list"})
    await line.until(lambda: line.asked == MAX_QUESTIONS)
    line.peer.fail("it has ended")
    await line.until(lambda: line.withdrawn == MAX_QUESTIONS)
    assert line.sent == []


@pytest.mark.threat("B29")
async def test_question_of_a_kind_that_was_not_declared_reaches_nobody() -> None:
    line = Line(profile=QUIET)
    line.say({"id": "q", "method": "roots/list"})
    await line.until(lambda: line.sent)
    assert line.asked == 0
    assert b'"code":-32601' in line.sent[0]


async def test_question_that_the_server_takes_back_is_withdrawn() -> None:
    line = Line()
    line.say({"id": "q", "method": "roots/list"})
    line.say({"id": "q", "method": "roots/list"})  # a second one with its id
    await line.until(lambda: line.asked == 1)
    line.say({"method": "notifications/cancelled", "params": {"requestId": "q"}})
    await line.until(lambda: line.withdrawn == 1)
    line.say({"id": "r", "method": "roots/list"})
    line.answered.set()
    await line.until(lambda: line.sent)
    assert line.sent == [encode({"jsonrpc": "2.0", "id": "r", "result": {"roots": []}})]


async def test_server_that_speaks_no_mcp_is_given_up_after_a_while() -> None:
    line = Line()
    for _ in range(MAX_BAD_MESSAGES - 1):
        assert not line.peer.receive(b"hello")
    line.say({"method": "notifications/x"})
    for _ in range(MAX_BAD_MESSAGES - 1):
        assert not line.peer.receive(b"hello")
    with pytest.raises(Malformed):
        line.peer.receive(b"hello")


async def test_cancelled_request_is_cancelled_at_the_server_and_initialize_never() -> None:
    line = Line()
    tasks = [asyncio.create_task(line.peer.request(McpRequest(method=each))) for each in ("ping", "initialize")]
    await line.until(lambda: len(line.sent) == 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await line.until(lambda: len(line.sent) == 3)
    assert b'"requestId":1' in line.sent[2]
    line.say({"id": 1, "result": {}})  # too late
    line.peer.fail("it has ended")


async def test_message_that_is_nested_too_deeply_ends_no_session() -> None:
    line = Line()
    vars(line.events)["on_log"] = ThrottledLink(RecordingLink()).emit
    running = asyncio.create_task(line.peer.request(PING))
    await line.until(lambda: line.sent)
    for depth in (900, 100_000):
        nested = "[" * depth + "]" * depth
        line.peer.receive(f'{{"method":"notifications/message","params":{{"level":"info","data":{nested}}}}}'.encode())
    line.say({"id": 1, "result": {}})
    assert bytes(await running) == b"{}"
