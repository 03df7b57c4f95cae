"""The call handler of a tool server: runs each call as a hall would, and answers it exactly once."""

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest

from tests.unit.toolserver.handler_harness import EXECUTOR_LIMITS, message_types, open_handler, read_answer
from tests.unit.toolserver.tools import ExampleTool, Kit, Older
from toolhall.authoring.declaration import BadDeclaration, tool
from toolhall.authoring.definition import definitions_of
from toolhall.dialects.hub.messages import HubRequest
from toolhall.toolserver.handler import CallHandler

SUPPLIED = {
    "secrets": {"API_KEY": "hunter2hunter2", "OTHER": "not-declared"},
    "accounts": {"google": {"token": "token-xyz", "scopes": ["calendar"]}, "github": {"token": "undeclared"}},
    "user_id": "alice",
}


async def test_handler_runs_call_and_responds() -> None:
    async with open_handler(Kit) as hall:
        assert await hall.result("add", {"a": 2}) == {"sum": 3}
        assert hall.said.empty()


async def test_handler_encodes_every_kind_of_value() -> None:
    async with open_handler(Kit) as hall:
        word, nothing, picture = [await hall.call(name) for name in ("word", "nothing", "picture")]
    assert (word["result"], word["wrapped"]) == ({"result": "said"}, True)
    assert (nothing["result"], nothing["nothing"]) == ({}, True)
    assert picture["result"] == {"dots": 1}
    assert [block["type"] for block in picture["content"]] == ["text", "image"]


async def test_handler_uses_newest_version_by_default() -> None:
    async with open_handler(Kit, Older) as hall:
        assert await hall.result("word") == {"result": "said"}
        assert await hall.result("word", metadata={"version": "1.1.0"}) == {"result": "said before"}
        error = await hall.error("word", metadata={"version": "3.0.0"})
    assert error["code"] == "TOOL_NOT_FOUND"
    assert "1.2.0, 1.1.0" in error["message"]


async def test_handler_unknown_tool_or_method_is_refused() -> None:
    async with open_handler(ExampleTool) as hall:
        assert await hall.result("method1", tool="example-tool") == {"status": "success"}
        assert (await hall.error("method2", tool="example-tool"))["code"] == "METHOD_NOT_FOUND"
        assert (await hall.error("method1", tool="other"))["code"] == "TOOL_NOT_FOUND"


@pytest.mark.parametrize("params", [{"a": "x"}, {}, {"a": 1, "c": 2}])
async def test_handler_wrong_arguments_are_refused_with_paths(params: Any) -> None:
    async with open_handler(Kit) as hall:
        error = await hall.error("add", params)
    assert error["code"] == "INVALID_PARAMS"
    assert error["details"]["problems"][0]["path"]


async def test_handler_events_precede_response_in_order() -> None:
    async with open_handler(Kit) as hall:
        await hall.result("tells")
        assert hall.heard() == [
            {"type": "tool_progress", "id": "17", "progress": 1, "total": 2, "message": "step 1"},
            {"type": "tool_log", "id": "17", "level": "debug", "data": {"step": 1}, "logger": "Kit_tells"},
            {"type": "tool_progress", "id": "17", "progress": 2, "total": 2, "message": "step 2"},
            {"type": "tool_log", "id": "17", "level": "debug", "data": {"step": 2}, "logger": "Kit_tells"},
        ]


async def test_handler_thread_tool_sends_events() -> None:
    async with open_handler(Kit) as hall:
        assert (await hall.result("threaded"))["result"].startswith("toolhall-tool_")
        assert message_types(hall.heard()) == ["tool_progress"]


async def test_handler_unreadable_event_is_not_sent() -> None:
    async with open_handler(Kit) as hall:
        await hall.result("odd_news")
        progress, log = hall.heard()
    assert (progress["progress"], progress["message"]) == (1.5, "3")
    assert log["level"] == "info"


async def test_handler_unread_events_are_dropped() -> None:
    async with open_handler(Kit) as hall:
        await hall.result("tells", {"steps": 500})
        said = hall.heard()
    assert 0 < len(said) <= 64
    assert said[0]["progress"] == 1


async def test_handler_question_waits_for_answer() -> None:
    async with open_handler(Kit) as hall:
        calling = asyncio.create_task(hall.result("asks"))
        question = await hall.said.get()
        assert (question["type"], question["id"], question["number"]) == ("tool_question", "17", 1)
        ((key, asked),) = question["questions"].items()
        assert (asked["kind"], asked["message"]) == ("form", "Who comes?")
        filled = {"kind": "filled", "action": "accept", "content": {"name": "Ann"}}
        assert not hall.handler.deliver_answer(read_answer(number=2, answers={key: filled}))
        assert not hall.handler.deliver_answer(read_answer(id="18", answers={key: filled}))
        assert not hall.handler.deliver_answer(read_answer(answers={key: filled}), channel="another")
        assert hall.handler.deliver_answer(read_answer(answers={key: filled}))
        assert not hall.handler.deliver_answer(read_answer(answers={key: filled}))
        assert await calling == {"result": "Ann"}


async def test_handler_concurrent_questions_get_own_answers() -> None:
    async with open_handler(Kit) as hall:
        calling = asyncio.create_task(hall.result("asks_twice"))
        first, second = await hall.said.get(), await hall.said.get()
        for question, said in ((second, "two"), (first, "one")):
            (key,) = question["questions"]
            filled = {"kind": "filled", "action": "accept", "content": {"x": said}}
            assert hall.handler.deliver_answer(read_answer(number=question["number"], answers={key: filled}))
        assert await calling == {"result": ["one", "two"]}


async def test_handler_unanswerable_question_fails_call() -> None:
    async with open_handler(Kit) as hall:
        calling = asyncio.create_task(hall.error("asks"))
        await hall.said.get()
        unsupported = {"code": "UNSUPPORTED", "message": "no", "details": {"feature": "elicitation"}}
        assert hall.handler.deliver_answer(read_answer(error=unsupported))
        error = await calling
    assert (error["code"], error["details"]["feature"]) == ("UNSUPPORTED", "elicitation")


async def test_handler_deferred_question_unwinds_tool() -> None:
    async with open_handler(Kit) as hall:
        calling = asyncio.create_task(hall.call("asks"))
        await hall.said.get()
        assert hall.handler.deliver_answer(read_answer(later=True))
        assert (await calling)["error"]["code"] == "CANCELLED"
        assert hall.handler.running == 0


async def test_handler_detach_is_sent() -> None:
    async with open_handler(Kit) as hall:
        calling = asyncio.create_task(hall.result("detaches"))
        question = await hall.said.get()
        assert question == {"type": "tool_question", "id": "17", "number": 1, "retry_ms": 40}
        hall.handler.deliver_answer(read_answer())
        assert await calling == {"result": "back"}


async def test_handler_cancel_by_id_ends_call() -> None:
    kit = Kit()
    async with open_handler(kit) as hall:
        calling = asyncio.create_task(hall.error("waits"))
        await kit.begun.wait()
        cancel = HubRequest("c17", "cancel", {"id": "17"})
        assert json.loads((await hall.handler.handle_request(cancel, "another line")).body)["result"] == {
            "status": "not_running"
        }
        said = json.loads((await hall.handler.handle_request(cancel)).body)
        assert said == {"type": "response", "id": "c17", "result": {"status": "cancelled"}, "error": None}
        assert (await calling)["code"] == "CANCELLED"
        assert json.loads((await hall.handler.handle_request(cancel)).body)["result"] == {"status": "not_running"}
    assert kit.ended == ["waits"]


async def test_handler_call_timeout_ends_call() -> None:
    async with open_handler(Kit) as hall:
        assert (await hall.error("slow", context={"timeout": 0.05}))["code"] == "TIMEOUT"
        assert (await hall.error("slow", context={"timeout": -1}))["code"] == "TIMEOUT"


async def test_handler_call_timeout_overrides_default() -> None:
    """The hall knows how long its caller waits; a tool that states a time of its own has that."""

    @tool
    async def naps() -> str:
        await asyncio.sleep(0.05)
        return "awake"

    async with open_handler(naps, means=msgspec.structs.replace(EXECUTOR_LIMITS, default_timeout=0.01)) as hall:
        assert (await hall.error("naps", tool="test_handler"))["code"] == "TIMEOUT"
        assert await hall.result("naps", tool="test_handler", context={"timeout": 30}) == {"result": "awake"}


async def test_handler_crash_reveals_no_details(caplog: pytest.LogCaptureFixture) -> None:
    async with open_handler(Kit) as hall:
        error = await hall.error("crashes", context={"call": "abc-9"})
    assert error["code"] == "INTERNAL_ERROR"
    assert "canary-77" not in json.dumps(error)
    assert "canary-77" in caplog.text
    assert "abc-9" in caplog.text


async def test_handler_tool_error_keeps_code_and_details() -> None:
    async with open_handler(Kit) as hall:
        error = await hall.error("fails")
    assert (error["code"], error["message"], error["details"]["left"]) == ("FULL", "no room", 0)


async def test_handler_invalid_or_oversized_result_is_bad_output() -> None:
    async with open_handler(Kit) as hall:
        assert (await hall.error("unwritable"))["code"] == "BAD_OUTPUT"
        assert (await hall.error("large", {"size": EXECUTOR_LIMITS.worker_limits.result_bytes}))["code"] == "BAD_OUTPUT"
        assert hall.handler.running == 0


async def test_handler_tool_gets_declared_credentials_only(caplog: pytest.LogCaptureFixture) -> None:
    kit = Kit()
    async with open_handler(kit) as hall:
        found = await hall.result("supplied", context=SUPPLIED)
    assert found == {"account": "xyz", "scopes": ["calendar"], "user": "alice"}
    assert set(kit.seen.accounts) == {"google"}
    with pytest.raises(LookupError):
        kit.seen.secret("OTHER")
    assert "the key is" in caplog.text
    assert "hunter2hunter2" not in caplog.text


@pytest.mark.parametrize("missing", ["secrets", "accounts", "user_id"])
async def test_handler_missing_credentials_are_refused(missing: str) -> None:
    async with open_handler(Kit) as hall:
        context = {name: value for name, value in SUPPLIED.items() if name != missing}
        assert (await hall.error("supplied", context=context))["code"] == "FORBIDDEN"


async def test_handler_short_secret_is_refused() -> None:
    async with open_handler(Kit) as hall:
        assert (await hall.error("supplied", context={**SUPPLIED, "secrets": {"API_KEY": "abc"}}))["code"] == (
            "INVALID_REQUEST"
        )


async def test_handler_caller_comes_from_hall() -> None:
    caller = {"id": "ci", "person": "alice", "proof": "key", "scopes": ["tools:*"]}
    async with open_handler(Kit) as hall:
        found = await hall.result("who", context={"caller": caller, "can": ["sampling"]})
        assert found == {"id": "ci", "proof": "key", "scopes": ["tools:*"], "can": True}
        assert await hall.result("who") == {"id": "anonymous", "proof": "none", "scopes": [], "can": False}


async def test_handler_draining_refuses_new_calls_and_finishes_running() -> None:
    kit = Kit()
    async with open_handler(kit) as hall:
        calling = asyncio.create_task(hall.result("waits"))
        await kit.begun.wait()
        hall.handler.drain()
        error = await hall.error("add", {"a": 1}, id="18")
        assert (error["code"], error["details"]["started"]) == ("UNAVAILABLE", False)
        kit.gate.set()
        assert await calling == {"result": "waited"}


async def test_handler_full_refuses_call_as_not_started() -> None:
    kit = Kit()
    async with open_handler(kit, most=1) as hall:
        calling = asyncio.create_task(hall.result("waits"))
        await kit.begun.wait()
        error = await hall.error("add", {"a": 1}, id="18")
        assert (error["code"], error["details"]["started"]) == ("UNAVAILABLE", False)
        kit.gate.set()
        await calling
        assert await hall.result("add", {"a": 1}) == {"sum": 2}


async def test_handler_duplicate_id_is_refused() -> None:
    kit = Kit()
    async with open_handler(kit) as hall:
        calling = asyncio.create_task(hall.result("waits"))
        await kit.begun.wait()
        assert (await hall.error("waits"))["code"] == "INVALID_REQUEST"
        kit.gate.set()
        await calling
    assert kit.ended == ["waits"]


@pytest.mark.parametrize("method", ["register_tool", "x" * 300])
async def test_handler_unknown_request_is_refused(method: str) -> None:
    async with open_handler(Kit) as hall:
        said = json.loads((await hall.handler.handle_request(HubRequest("1", method, {}))).body)
        wrong = json.loads((await hall.handler.handle_request(HubRequest("1", "cancel", {"id": 3}))).body)
    assert said["error"]["code"] == "METHOD_NOT_FOUND"
    assert wrong["error"]["code"] == "INVALID_PARAMS"


async def test_handler_declares_each_toolkit_version() -> None:
    async with open_handler(Kit, Older, ExampleTool) as hall:
        declared = hall.handler.declarations
    named = [(each["tool"]["name"], each["tool"]["version"]) for each in declared]
    assert named == [("Kit", "1.2.0"), ("Kit", "1.1.0"), ("example-tool", "1.0.0")]
    add = declared[0]["tool"]["capabilities"]["methods"][0]
    assert (add["name"], add["params"]["required"]) == ("add", ["a"])


def test_handler_duplicate_tool_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="twice; give one"):
        CallHandler([*definitions_of(Kit), *definitions_of(Kit)], EXECUTOR_LIMITS)


async def test_handler_internal_error_gets_response(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_handler(Kit) as hall:
        monkeypatch.setattr("toolhall.toolserver.handler.credentials_from_context", None)
        assert (await hall.error("add", {"a": 1}))["code"] == "INTERNAL_ERROR"
    assert caplog.record_tuples[-1][1] == logging.ERROR
