"""Tools that run only as a task of their upstream, in both eras."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.servers.scripted_upstream import ScriptedSession, ScriptedUpstream, text_result
from tests.unit.builders import RecordingLink
from tests.unit.execution.upstream.harness import ModernRequest, UpstreamHarness, until
from toolhall.dialects.mcp.client_questions import MAX_QUESTIONS
from toolhall.dialects.mcp.protocol import TASKS_EXTENSION
from toolhall.execution.client_link import ThrottledLink
from toolhall.execution.upstream import upstream_tasks
from toolhall.execution.upstream.credentials import NoUpstreamCredentials
from toolhall.mcp_client.session import McpRequest, RequestLost, RpcError, Unauthorized
from toolhall.model.errors import BadOutput, ToolFailed, Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, Filled, InputRequiredSignal, Question
from toolhall.model.upstream import Upstream

LEGACY, MODERN = "2025-11-25", "2026-07-28"
QUESTION: JsonObject = {
    "method": "elicitation/create",
    "params": {"message": "which?", "requestedSchema": {"type": "object", "properties": {}}},
}
YES: JsonObject = {"action": "accept", "content": {"a": 1}}


class TaskServer(ScriptedUpstream):
    """A server whose only tool is a task; `states` are what it says of the task, one after the other."""

    def __init__(self, revision: str, *states: JsonObject) -> None:
        tasks: JsonObject = {"tasks": {"requests": {"tools": {"call": {}}}}} if revision == LEGACY else {}
        super().__init__(revision, {"tools": {}, **tasks})
        self.states = list(states)
        self.updates: list[JsonObject] = []
        self.tools["work"] = self._create
        self.methods["tasks/get"] = self._state
        self.methods["tasks/result"] = self._result
        self.methods["tasks/update"] = self._update
        self.methods["tasks/cancel"] = self._cancel

    async def _create(self, session: ScriptedSession, request: McpRequest) -> JsonObject:
        if self.revision.stateless:
            if "tasks" not in (request.features or ()):
                raise RpcError(-32021, "a task", {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})
            return {"resultType": "task", "taskId": "t1", "status": "working", "pollIntervalMs": 1}
        if "task" not in request.params:
            raise RpcError(-32601, "this tool runs as a task")
        return {"task": {"taskId": "t1", "status": "working", "pollInterval": 1}}

    async def _state(self, session: ScriptedSession, request: McpRequest) -> JsonObject:
        assert request.params == {"taskId": "t1"}
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"taskId": "t1", "pollInterval": 1, "pollIntervalMs": 1, **state}

    async def _result(self, session: ScriptedSession, request: McpRequest) -> JsonObject:
        return text_result("from the task")

    async def _update(self, session: ScriptedSession, request: McpRequest) -> JsonObject:
        self.updates.append(request.params["inputResponses"])
        return {}

    async def _cancel(self, session: ScriptedSession, request: McpRequest) -> JsonObject:
        self.cancelled.append("task")
        return {}


COMPLETED: JsonObject = {"status": "completed", "result": text_result("from the task")}
WORKING: JsonObject = {"status": "working"}
ASKING: JsonObject = {"status": "input_required", "inputRequests": {"which": QUESTION}}
_harnesses: list[UpstreamHarness] = []


@pytest.fixture(autouse=True)
async def _quick_polls(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    monkeypatch.setattr(upstream_tasks, "MIN_POLL_SECONDS", 0.001)
    yield
    while _harnesses:
        await _harnesses.pop().manager.close()


def harness_of(server: TaskServer, **settings: Any) -> UpstreamHarness:
    _harnesses.append(UpstreamHarness(server, **settings))
    return _harnesses[-1]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_tool_that_must_be_a_task_is_run_as_one(revision: str) -> None:
    server = TaskServer(revision, WORKING, WORKING, COMPLETED)
    harness = harness_of(server)
    assert await harness.text() == "from the task"
    assert server.calls == ["work", "work"]  # the first one was refused
    server.states[:] = [COMPLETED]
    assert await harness.text() == "from the task"
    assert server.calls == ["work"] * 3  # that is known by now


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_cancelled_call_cancels_the_task(revision: str) -> None:
    server = TaskServer(revision, WORKING)
    call = asyncio.create_task(harness_of(server).call())
    await until(lambda: any(each.method == "tasks/get" for each in server.requests))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: "task" in server.cancelled)


async def test_task_that_failed_is_the_tools_failure() -> None:
    server = TaskServer(MODERN, {"status": "failed", "error": {"code": -32603, "message": "out of cheese"}})
    with pytest.raises(ToolFailed, match="out of cheese"):
        await harness_of(server).call()


async def test_task_that_lives_longer_than_its_token_is_asked_for_with_a_new_one() -> None:
    class Renewing(NoUpstreamCredentials):
        renewed = 0

        async def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> bool:
            self.renewed += 1
            return True

    async def refuse_once(session: ScriptedSession, request: McpRequest) -> JsonObject:
        server.methods["tasks/get"] = state
        raise Unauthorized("the token has expired", 401, "Bearer")

    server, credentials = TaskServer(MODERN, WORKING, COMPLETED), Renewing()
    state = server.methods["tasks/get"]
    server.methods["tasks/get"] = refuse_once
    _harnesses.append(harness := UpstreamHarness(server, credentials))
    assert await harness.text() == "from the task"
    assert credentials.renewed == 1


async def test_task_whose_upstream_is_lost_is_unavailable() -> None:
    async def lose(session: ScriptedSession, request: McpRequest) -> JsonObject:
        raise RequestLost("the stream broke")

    server = TaskServer(MODERN, WORKING)
    server.methods["tasks/get"] = lose
    with pytest.raises(Unavailable, match="whether it had an effect is not known"):
        await harness_of(server).call()


async def test_task_that_waits_and_asks_nothing_is_bad_output() -> None:
    with pytest.raises(BadOutput):
        await harness_of(TaskServer(MODERN, {"status": "input_required"})).call()


async def test_question_of_a_task_is_answered_in_place() -> None:
    def answer(key: str, question: Question) -> Filled:
        return Filled("accept", {"a": 1})

    server = TaskServer(MODERN, ASKING, COMPLETED)
    assert await harness_of(server).text(link=ThrottledLink(RecordingLink(answer))) == "from the task"
    assert server.updates == [{"which": YES}]


async def test_question_of_a_task_is_answered_by_the_next_request() -> None:
    server = TaskServer(MODERN, ASKING, COMPLETED)
    harness = harness_of(server)
    await harness.manager.sync_now("Docs")  # the era is known
    first = ModernRequest()
    with pytest.raises(InputRequiredSignal) as caught:
        await harness.call(link=first.link)
    assert list(caught.value.questions) == ["which"]
    assert await harness.text(link=first.again({"which": YES}).link) == "from the task"
    assert server.updates == [{"which": YES}]
    assert len(server.calls) == 2  # the refused one, and the one that became the task


@pytest.mark.threat("I16")
async def test_request_state_of_an_upstream_is_bounded() -> None:
    async def ask(session: ScriptedSession, request: McpRequest) -> JsonObject:
        return {"resultType": "input_required", "inputRequests": {"a": QUESTION}, "requestState": "x" * 9_000}

    server = TaskServer(MODERN, WORKING)
    server.tools["work"] = ask
    with pytest.raises(BadOutput, match="8192"):
        await harness_of(server).call(link=ModernRequest().link)


@pytest.mark.threat("I16")
async def test_task_that_asks_too_much_at_a_time_is_bad_output() -> None:
    asked: JsonObject = {f"q{number}": QUESTION for number in range(MAX_QUESTIONS + 1)}
    server = TaskServer(MODERN, {"status": "input_required", "inputRequests": asked})
    with pytest.raises(BadOutput, match="more than 16 questions"):
        await harness_of(server).call()


@pytest.mark.threat("G16")
async def test_reason_of_a_failed_task_is_one_clean_line_without_credentials() -> None:
    server = TaskServer(MODERN, {"status": "failed", "statusMessage": "bad key k-123456\n\x1b[2Jforged" + "x" * 9_000})
    with pytest.raises(ToolFailed) as failed:
        await harness_of(server, headers={"X-Api-Key": "k-123456"}).call()
    assert "k-123456" not in failed.value.message
    assert "\n" not in failed.value.message
    assert "\x1b" not in failed.value.message
    assert len(failed.value.message) < 2_100
