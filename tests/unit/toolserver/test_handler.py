"""The desk of a tool server: runs each call as a hall would, and answers it exactly once."""

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest

from tests.unit.toolserver.calling import MEANS, desk_of, kinds, read_answer
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


async def test_a_call_is_bound_run_and_answered() -> None:
    async with desk_of(Kit) as hall:
        assert await hall.result("add", {"a": 2}) == {"sum": 3}
        assert hall.said.empty()


async def test_every_kind_of_value_is_told_apart() -> None:
    async with desk_of(Kit) as hall:
        word, nothing, picture = [await hall.call(name) for name in ("word", "nothing", "picture")]
    assert (word["result"], word["wrapped"]) == ({"result": "said"}, True)
    assert (nothing["result"], nothing["nothing"]) == ({}, True)
    assert picture["result"] == {"dots": 1}
    assert [block["type"] for block in picture["content"]] == ["text", "image"]


async def test_the_newest_version_is_meant_unless_one_is_named() -> None:
    async with desk_of(Kit, Older) as hall:
        assert await hall.result("word") == {"result": "said"}
        assert await hall.result("word", metadata={"version": "1.1.0"}) == {"result": "said before"}
        error = await hall.error("word", metadata={"version": "3.0.0"})
    assert error["code"] == "TOOL_NOT_FOUND"
    assert "1.2.0, 1.1.0" in error["message"]


async def test_what_is_not_there_is_told_apart_before_the_tool_could_wrap_it() -> None:
    async with desk_of(ExampleTool) as hall:
        assert await hall.result("method1", tool="example-tool") == {"status": "success"}
        assert (await hall.error("method2", tool="example-tool"))["code"] == "METHOD_NOT_FOUND"
        assert (await hall.error("method1", tool="other"))["code"] == "TOOL_NOT_FOUND"


@pytest.mark.parametrize("params", [{"a": "x"}, {}, {"a": 1, "c": 2}])
async def test_wrong_arguments_are_refused_with_their_paths(params: Any) -> None:
    async with desk_of(Kit) as hall:
        error = await hall.error("add", params)
    assert error["code"] == "INVALID_PARAMS"
    assert error["details"]["problems"][0]["path"]


async def test_progress_and_log_come_before_the_end_in_order() -> None:
    async with desk_of(Kit) as hall:
        await hall.result("tells")
        assert hall.heard() == [
            {"type": "tool_progress", "id": "17", "progress": 1, "total": 2, "message": "step 1"},
            {"type": "tool_log", "id": "17", "level": "debug", "data": {"step": 1}, "logger": "Kit_tells"},
            {"type": "tool_progress", "id": "17", "progress": 2, "total": 2, "message": "step 2"},
            {"type": "tool_log", "id": "17", "level": "debug", "data": {"step": 2}, "logger": "Kit_tells"},
        ]


async def test_a_tool_in_a_thread_tells_too() -> None:
    async with desk_of(Kit) as hall:
        assert (await hall.result("threaded"))["result"].startswith("toolhall-tool_")
        assert kinds(hall.heard()) == ["tool_progress"]


async def test_what_a_hall_could_not_read_is_not_sent() -> None:
    async with desk_of(Kit) as hall:
        await hall.result("odd_news")
        progress, log = hall.heard()
    assert (progress["progress"], progress["message"]) == (1.5, "3")
    assert log["level"] == "info"


async def test_news_are_dropped_where_nobody_reads_them() -> None:
    async with desk_of(Kit) as hall:
        await hall.result("tells", {"steps": 500})
        said = hall.heard()
    assert 0 < len(said) <= 64
    assert said[0]["progress"] == 1


async def test_a_question_waits_for_its_answer() -> None:
    async with desk_of(Kit) as hall:
        calling = asyncio.create_task(hall.result("asks"))
        question = await hall.said.get()
        assert (question["type"], question["id"], question["number"]) == ("tool_question", "17", 1)
        ((key, asked),) = question["questions"].items()
        assert (asked["kind"], asked["message"]) == ("form", "Who comes?")
        filled = {"kind": "filled", "action": "accept", "content": {"name": "Ann"}}
        assert not hall.desk.deliver_answer(read_answer(number=2, answers={key: filled}))
        assert not hall.desk.deliver_answer(read_answer(id="18", answers={key: filled}))
        assert not hall.desk.deliver_answer(read_answer(answers={key: filled}), channel="another")
        assert hall.desk.deliver_answer(read_answer(answers={key: filled}))
        assert not hall.desk.deliver_answer(read_answer(answers={key: filled}))
        assert await calling == {"result": "Ann"}


async def test_two_questions_at_once_are_told_apart() -> None:
    async with desk_of(Kit) as hall:
        calling = asyncio.create_task(hall.result("asks_twice"))
        first, second = await hall.said.get(), await hall.said.get()
        for question, said in ((second, "two"), (first, "one")):
            (key,) = question["questions"]
            filled = {"kind": "filled", "action": "accept", "content": {"x": said}}
            assert hall.desk.deliver_answer(read_answer(number=question["number"], answers={key: filled}))
        assert await calling == {"result": ["one", "two"]}


async def test_a_question_that_nobody_can_answer_refuses_the_call() -> None:
    async with desk_of(Kit) as hall:
        calling = asyncio.create_task(hall.error("asks"))
        await hall.said.get()
        unsupported = {"code": "UNSUPPORTED", "message": "no", "details": {"feature": "elicitation"}}
        assert hall.desk.deliver_answer(read_answer(error=unsupported))
        error = await calling
    assert (error["code"], error["details"]["feature"]) == ("UNSUPPORTED", "elicitation")


async def test_a_tool_whose_answer_comes_with_a_later_call_unwinds() -> None:
    async with desk_of(Kit) as hall:
        calling = asyncio.create_task(hall.call("asks"))
        await hall.said.get()
        assert hall.desk.deliver_answer(read_answer(later=True))
        assert (await calling)["error"]["code"] == "CANCELLED"
        assert hall.desk.running == 0


async def test_a_tool_may_let_its_caller_hang_up() -> None:
    async with desk_of(Kit) as hall:
        calling = asyncio.create_task(hall.result("detaches"))
        question = await hall.said.get()
        assert question == {"type": "tool_question", "id": "17", "number": 1, "retry_ms": 40}
        hall.desk.deliver_answer(read_answer())
        assert await calling == {"result": "back"}


async def test_a_call_is_cancelled_by_its_id() -> None:
    kit = Kit()
    async with desk_of(kit) as hall:
        calling = asyncio.create_task(hall.error("waits"))
        await kit.begun.wait()
        cancel = HubRequest("c17", "cancel", {"id": "17"})
        assert json.loads((await hall.desk.handle_request(cancel, "another line")).body)["result"] == {
            "status": "not_running"
        }
        said = json.loads((await hall.desk.handle_request(cancel)).body)
        assert said == {"type": "response", "id": "c17", "result": {"status": "cancelled"}, "error": None}
        assert (await calling)["code"] == "CANCELLED"
        assert json.loads((await hall.desk.handle_request(cancel)).body)["result"] == {"status": "not_running"}
    assert kit.ended == ["waits"]


async def test_the_time_that_a_call_has_left_ends_it() -> None:
    async with desk_of(Kit) as hall:
        assert (await hall.error("slow", context={"timeout": 0.05}))["code"] == "TIMEOUT"
        assert (await hall.error("slow", context={"timeout": -1}))["code"] == "TIMEOUT"


async def test_the_time_that_a_call_has_left_is_more_than_what_tools_have_here_usually() -> None:
    """The hall knows how long its caller waits; a tool that states a time of its own has that."""

    @tool
    async def naps() -> str:
        await asyncio.sleep(0.05)
        return "awake"

    async with desk_of(naps, means=msgspec.structs.replace(MEANS, default_timeout=0.01)) as hall:
        assert (await hall.error("naps", tool="test_handler"))["code"] == "TIMEOUT"
        assert await hall.result("naps", tool="test_handler", context={"timeout": 30}) == {"result": "awake"}


async def test_a_crash_tells_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    async with desk_of(Kit) as hall:
        error = await hall.error("crashes", context={"call": "abc-9"})
    assert error["code"] == "INTERNAL_ERROR"
    assert "canary-77" not in json.dumps(error)
    assert "canary-77" in caplog.text
    assert "abc-9" in caplog.text


async def test_an_error_of_the_author_keeps_its_code_and_details() -> None:
    async with desk_of(Kit) as hall:
        error = await hall.error("fails")
    assert (error["code"], error["message"], error["details"]["left"]) == ("FULL", "no room", 0)


async def test_what_cannot_be_written_or_is_too_large_is_refused() -> None:
    async with desk_of(Kit) as hall:
        assert (await hall.error("unwritable"))["code"] == "BAD_OUTPUT"
        assert (await hall.error("large", {"size": MEANS.worker_limits.result_bytes}))["code"] == "BAD_OUTPUT"
        assert hall.desk.running == 0


async def test_a_tool_gets_what_it_declares_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    kit = Kit()
    async with desk_of(kit) as hall:
        found = await hall.result("supplied", context=SUPPLIED)
    assert found == {"account": "xyz", "scopes": ["calendar"], "user": "alice"}
    assert set(kit.seen.accounts) == {"google"}
    with pytest.raises(LookupError):
        kit.seen.secret("OTHER")
    assert "the key is" in caplog.text
    assert "hunter2hunter2" not in caplog.text


@pytest.mark.parametrize("missing", ["secrets", "accounts", "user_id"])
async def test_a_call_without_what_the_tool_declares_is_refused(missing: str) -> None:
    async with desk_of(Kit) as hall:
        context = {name: value for name, value in SUPPLIED.items() if name != missing}
        assert (await hall.error("supplied", context=context))["code"] == "FORBIDDEN"


async def test_a_secret_too_short_to_be_hidden_is_refused() -> None:
    async with desk_of(Kit) as hall:
        assert (await hall.error("supplied", context={**SUPPLIED, "secrets": {"API_KEY": "abc"}}))["code"] == (
            "INVALID_REQUEST"
        )


async def test_the_caller_is_who_the_hall_says() -> None:
    caller = {"id": "ci", "person": "alice", "proof": "key", "scopes": ["tools:*"]}
    async with desk_of(Kit) as hall:
        found = await hall.result("who", context={"caller": caller, "can": ["sampling"]})
        assert found == {"id": "ci", "proof": "key", "scopes": ["tools:*"], "can": True}
        assert await hall.result("who") == {"id": "anonymous", "proof": "none", "scopes": [], "can": False}


async def test_one_that_drains_begins_nothing_and_finishes_what_runs() -> None:
    kit = Kit()
    async with desk_of(kit) as hall:
        calling = asyncio.create_task(hall.result("waits"))
        await kit.begun.wait()
        hall.desk.drain()
        error = await hall.error("add", {"a": 1}, id="18")
        assert (error["code"], error["details"]["started"]) == ("UNAVAILABLE", False)
        kit.gate.set()
        assert await calling == {"result": "waited"}


async def test_one_that_is_full_says_that_it_has_not_begun() -> None:
    kit = Kit()
    async with desk_of(kit, most=1) as hall:
        calling = asyncio.create_task(hall.result("waits"))
        await kit.begun.wait()
        error = await hall.error("add", {"a": 1}, id="18")
        assert (error["code"], error["details"]["started"]) == ("UNAVAILABLE", False)
        kit.gate.set()
        await calling
        assert await hall.result("add", {"a": 1}) == {"sum": 2}


async def test_the_same_id_does_not_run_twice_at_once() -> None:
    kit = Kit()
    async with desk_of(kit) as hall:
        calling = asyncio.create_task(hall.result("waits"))
        await kit.begun.wait()
        assert (await hall.error("waits"))["code"] == "INVALID_REQUEST"
        kit.gate.set()
        await calling
    assert kit.ended == ["waits"]


@pytest.mark.parametrize("method", ["register_tool", "x" * 300])
async def test_other_requests_are_refused(method: str) -> None:
    async with desk_of(Kit) as hall:
        said = json.loads((await hall.desk.handle_request(HubRequest("1", method, {}))).body)
        wrong = json.loads((await hall.desk.handle_request(HubRequest("1", "cancel", {"id": 3}))).body)
    assert said["error"]["code"] == "METHOD_NOT_FOUND"
    assert wrong["error"]["code"] == "INVALID_PARAMS"


async def test_each_version_of_a_toolkit_is_declared_by_itself() -> None:
    async with desk_of(Kit, Older, ExampleTool) as hall:
        declared = hall.desk.declarations
    named = [(each["tool"]["name"], each["tool"]["version"]) for each in declared]
    assert named == [("Kit", "1.2.0"), ("Kit", "1.1.0"), ("example-tool", "1.0.0")]
    add = declared[0]["tool"]["capabilities"]["methods"][0]
    assert (add["name"], add["params"]["required"]) == ("add", ["a"])


def test_the_same_tool_twice_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="twice; give one"):
        CallHandler([*definitions_of(Kit), *definitions_of(Kit)], MEANS)


async def test_a_fault_of_ours_is_an_answer_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk_of(Kit) as hall:
        monkeypatch.setattr("toolhall.toolserver.handler.credentials_from_context", None)
        assert (await hall.error("add", {"a": 1}))["code"] == "INTERNAL_ERROR"
    assert caplog.record_tuples[-1][1] == logging.ERROR
