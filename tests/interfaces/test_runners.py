"""One contract for every runner: the same tools, the same calls, the same answers, wherever the tool runs."""

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.judge import MODERN
from tests.conformance.wire import Message
from tests.interfaces.running.expected import BLOCKS, VALUES
from tests.interfaces.running.reach import Reach, reached
from tests.interfaces.running.seeing import after_a_while, always, digest, eventually, exact, own_meta, stopped, told
from tests.interfaces.running.ways import NO_BIG_INTEGERS, WAYS, Place

NOVEMBER = "2025-11-25"
SECRET, PIN, TOKEN, WORD = "sk-kit-5up3r-s3cr3t", "pin-0815-4711-kit", "ya29.kit-t0ken-of-acme", "w0rd-that-nobody-says"
BROUGHT: Message = {
    "secrets": [{"id": "KIT_KEY", "value": SECRET}],
    "authorization": [{"id": "acme", "token": TOKEN}],
}
HIDDEN = "[redacted]"

both_revisions = pytest.mark.parametrize("revision", [NOVEMBER, MODERN])


@pytest.fixture(scope="session", params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A hall and its tools, one for all tests of a way."""
    with WAYS[request.param].place(tmp_path_factory.mktemp("way")) as place:
        yield place


@pytest.fixture
async def hall(place: Place) -> AsyncIterator[Reach]:
    async with reached(place) as reach:
        yield reach


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["echo", "free"], ids=["promised", "not promised"])
async def test_runner_value_of_every_json_type_is_returned_unchanged(hall: Reach, tool: str) -> None:
    returned = {kind: await hall.value(tool, value=value) for kind, value in VALUES.items()}
    assert exact(returned) == exact(VALUES)


async def test_runner_integer_of_any_size_is_returned_unchanged(hall: Reach) -> None:
    if NO_BIG_INTEGERS in hall.place.differs:
        pytest.skip(hall.place.differs[NO_BIG_INTEGERS])
    integers = [2**53 + 1, 2**63, -(2**63), 10**19 + 1, [{"deep": 2**62 + 1}]]
    assert [await hall.value("echo", value=value) for value in integers] == integers


async def test_runner_tool_without_output_returns_no_value(hall: Reach) -> None:
    assert await hall.value("nothing") is None
    said = (await hall.oxp("nothing", {})).json["result"]
    assert (said["success"], "value" in said) == (True, False)
    async with hall.talk(MODERN) as talk:
        result = (await talk.call("Kit_nothing")).result
    assert (result["content"], "structuredContent" in result) == ([], False)


async def test_runner_nested_objects_are_passed_in_and_out(hall: Reach) -> None:
    ada = {"name": "Ada", "age": 36, "friends": [{"name": "Bob", "friends": [{"name": "Eve"}]}]}
    found = await hall.value("befriend", person=ada, friend="Zoë")
    assert found == {**ada, "friends": [{"name": "Bob", "friends": [{"name": "Eve"}]}, {"name": "Zoë"}]}


async def test_runner_output_that_breaks_its_schema_is_bad_output(hall: Reach) -> None:
    code, message, _ = await hall.refusal("misprint")
    assert code == "bad_output"
    assert message.startswith("the tool returned something other than its output schema promises")


async def test_runner_output_that_json_cannot_encode_is_bad_output(hall: Reach) -> None:
    code, message, _ = await hall.refusal("scribble")
    assert code == "bad_output"
    assert message.startswith("the tool returned something that cannot be written as JSON")


@pytest.mark.parametrize("size", [1_100_000, 8_000_000], ids=["more than is passed on", "much more"])
async def test_runner_result_above_the_size_limit_is_bad_output(hall: Reach, size: int) -> None:
    code, message, _ = await hall.refusal("large", size=size)
    assert code == "bad_output", message
    assert "bytes" in message
    assert len(await hall.value("large", size=900_000)) == 900_000, "the next one may be as large as is allowed"


# --- blocks -----------------------------------------------------------------------------------------------------------


async def test_runner_content_blocks_of_every_type_are_returned(hall: Reach) -> None:
    async with hall.talk(MODERN) as talk:
        result = (await talk.call("Kit_blocks")).result
    assert result["content"] == BLOCKS
    assert "structuredContent" not in result
    assert not result.get("isError")


@pytest.mark.parametrize("is_error", [False, True])
async def test_runner_reply_with_blocks_value_and_meta_is_returned(hall: Reach, is_error: bool) -> None:
    async with hall.talk(MODERN) as talk:
        result = (await talk.call("Kit_reply", {"is_error": is_error})).result
    assert result["content"] == [{"type": "text", "text": "two of them"}]
    assert result["structuredContent"] == {"count": 2}
    assert result.get("isError", False) is is_error
    assert own_meta(result) == {"example.com/shelf": [1, {"row": "b"}]}


# --- arguments --------------------------------------------------------------------------------------------------------


async def test_runner_omitted_argument_has_its_default(hall: Reach) -> None:
    assert await hall.value("greet", name="Ada") == "Hello, Ada! Hello, Ada!"
    assert await hall.value("greet", name="Ada", times=1) == "Hello, Ada!"
    assert await hall.value("greet", name="Ada", greeting="Hej", times=1) == "Hej, Ada!"


@pytest.mark.parametrize(
    ("wrong", "path"),
    [({"count": "1"}, "/count"), ({"count": 0}, "/count"), ({}, "/count"), ({"count": 1, "more": 1}, "/more")],
    ids=["of another type", "out of bounds", "missing", "unknown"],
)
async def test_runner_bad_arguments_are_refused_before_the_tool_runs(
    hall: Reach, tmp_path: Path, wrong: Message, path: str
) -> None:
    file = tmp_path / "entered"
    refusal = await hall.refusal("enter", file=str(file), **wrong)
    assert refusal.code == "bad_arguments"
    assert path in [problem["path"] for problem in refusal.details["problems"]]
    assert not file.exists()
    await hall.value("enter", file=str(file), count=1)
    assert file.read_text() == "in 1\n"


async def test_runner_bad_arguments_raised_by_the_tool_are_returned(hall: Reach) -> None:
    code, _, details = await hall.refusal("refuse", name="Ada")
    assert code == "bad_arguments"
    assert details["problems"] == [
        {"path": "/name", "reason": "is taken; choose another"},
        {"path": "", "reason": "is all wrong"},
    ]


# --- while it runs ----------------------------------------------------------------------------------------------------


@both_revisions
async def test_runner_progress_and_log_messages_arrive_in_order(hall: Reach, revision: str) -> None:
    async with hall.talk(revision) as talk:
        await talk.set_level("info")
        heard = await talk.call("Kit_steps", token="t")
    assert [told(each) for each in heard.notices] == [
        {"progress": 1, "total": 3, "message": "one"},
        {"level": "info", "data": {"step": 1, "of": ["a", None]}, "logger": "Kit_steps"},
        {"progress": 2, "total": 3},
        {"level": "warning", "data": "almost", "logger": "Kit_steps"},
        {"progress": 3},
    ]
    assert heard.text == "done"


@both_revisions
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_runner_form_elicitation_answer_reaches_the_tool(hall: Reach, revision: str, action: str) -> None:
    filled = {"content": {"name": "Ada"}} if action == "accept" else {}
    async with hall.talk(revision) as talk:
        heard = await talk.call("Kit_ask", respond=always({"action": action, **filled}))
    (question,) = heard.questions
    assert question["params"]["message"] == "Your name?"
    assert question["params"]["requestedSchema"]["properties"] == {"name": {"type": "string"}}
    assert heard.result["structuredContent"] == {"action": action, **({"name": "Ada"} if filled else {})}


@both_revisions
async def test_runner_two_form_elicitations_in_one_call_are_both_answered(hall: Reach, revision: str) -> None:
    names = iter(["Ada", "Grace"])
    async with hall.talk(revision) as talk:
        heard = await talk.call(
            "Kit_ask_twice", respond=lambda _: {"action": "accept", "content": {"name": next(names)}}
        )
    assert [question["params"]["message"] for question in heard.questions] == ["Name 1?", "Name 2?"]
    value = heard.result["structuredContent"]
    assert (value if talk.modern else value["result"]) == ["Ada", "Grace"]


@both_revisions
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_runner_url_elicitation_answer_reaches_the_tool(hall: Reach, revision: str, action: str) -> None:
    async with hall.talk(revision) as talk:
        heard = await talk.call("Kit_visit", respond=always({"action": action}))
    (question,) = heard.questions
    assert (question["params"]["mode"], question["params"]["url"]) == ("url", "https://example.com/look")
    value = heard.result["structuredContent"]
    assert (value if talk.modern else value["result"]) is (action == "accept")


async def test_runner_elicitation_without_a_client_that_supports_it_is_unsupported(hall: Reach) -> None:
    assert (await hall.refusal("ask")).code == "unsupported"


async def test_runner_timeout_is_suspended_during_an_elicitation(hall: Reach) -> None:
    async with hall.talk(NOVEMBER) as talk:
        heard = await talk.call("Kit_ask_patiently", respond=after_a_while({"name": "Ada"}))
    assert heard.text == "Ada"


# --- how it ends ------------------------------------------------------------------------------------------------------


@both_revisions
async def test_runner_cancelled_call_stops_the_tool(hall: Reach, revision: str, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    async with hall.talk(revision) as talk:
        call = talk.request("tools/call", {"name": "Kit_linger", "arguments": {"file": str(file)}}, token="t")
        async with talk.open(call) as reply:
            assert (await reply.message())["method"] == "notifications/progress"
            if not talk.modern:  # to hang up is enough in the newest revision, and means nothing in the older ones
                await talk.tell("notifications/cancelled", {"requestId": call["id"]})
        await stopped(hall, file)


async def test_runner_disconnected_caller_stops_the_tool(hall: Reach, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    call = asyncio.create_task(hall.rest("linger", {"file": str(file)}))
    await eventually(file.exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await stopped(hall, file)


async def test_runner_timeout_stops_the_tool(hall: Reach, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    code, message, _ = await hall.refusal("dawdle", file=str(file))
    assert (code, message.startswith("the tool did not finish ")) == ("timed_out", True)
    await stopped(hall, file)


async def test_runner_tool_failure_carries_its_message_and_retry_hints(hall: Reach) -> None:
    refusal = await hall.refusal("fail", how="for good")
    assert refusal == ("tool_failed", "the shelf is empty", {})
    error = (await hall.oxp("fail", {"how": "for a while"})).json["result"]["error"]
    assert error["message"] == "the shelf is being filled"
    assert (error["can_retry"], error["retry_after_ms"]) == (True, 2500)
    assert error["additional_prompt_content"] == "Ask for the other shelf."
    error = (await hall.oxp("fail", {"how": "for now"})).json["result"]["error"]
    assert (error["message"], error["can_retry"]) == ("the shelf is out of sight", True)
    assert "retry_after_ms" not in error


async def test_runner_exception_text_is_only_in_the_log_of_the_tools_process(hall: Reach, tmp_path: Path) -> None:
    text = f"the password is {tmp_path.name}"
    said = await hall.rest("crash", {"text": text})
    assert (said.status, said.json["error"]["code"]) == (500, "crashed")
    async with hall.talk(MODERN) as talk:
        await talk.set_level("debug")
        heard = await talk.call("Kit_crash", {"text": text}, token="t")
    assert heard.result["isError"] is True
    assert tmp_path.name not in f"{said} {heard}"
    assert "Error:" not in f"{said} {heard}"
    *others, own = hall.place.logged()
    assert own.count(text) >= 2, "whoever runs the tool can read what went wrong"
    assert text not in "".join(others), "and nobody else"


# --- what it is supplied with -----------------------------------------------------------------------------------------


async def test_runner_declared_secret_and_account_are_supplied(hall: Reach) -> None:
    said = await hall.oxp("equipped", {}, BROUGHT)
    assert said.json["result"]["value"] == {
        "secret": digest(SECRET),
        "token": digest(TOKEN),
        "scopes": ["mail.read", "mail.send"],
        "user": "local",
        "other": True,
    }


async def test_runner_undeclared_secrets_and_accounts_are_not_supplied(hall: Reach) -> None:
    both = {
        "secrets": [*BROUGHT["secrets"], {"id": "KIT_PIN", "value": PIN}],
        "authorization": BROUGHT["authorization"],
    }
    said = await hall.oxp("half_equipped", {}, {"secrets": [{"id": "KIT_PIN", "value": PIN}]})
    assert said.json["result"]["value"] == {"other": True, "account": True, "own": True}
    said = await hall.oxp("bare", {}, both)
    assert said.json["result"]["value"] == {"other": True, "account": True}


async def test_runner_missing_secret_or_account_is_needs_requirement(hall: Reach) -> None:
    refusal = await hall.refusal("equipped")
    assert refusal.code == "needs_requirement"
    assert {each["kind"] for each in refusal.details["missing"]} == {"secret", "account"}


@pytest.mark.parametrize("how", ["return", "fail", "crash"])
async def test_runner_secret_is_redacted_in_results_messages_errors_and_logs(hall: Reach, how: str) -> None:
    """Not in a value, a block, a note or an error, not in what is told meanwhile, and not in a log."""
    await hall.keep("KIT_WORD", WORD)
    async with hall.talk(MODERN) as talk:
        await talk.set_level("debug")
        heard = await talk.call("Kit_leak", {"how": how}, token="t")
    said = json.dumps(heard)
    assert (heard.result.get("isError", False), HIDDEN in said) == (how != "return", how != "crash")
    if how == "return":
        assert [HIDDEN in json.dumps(each) for each in heard.notices] == [True, True]
        assert heard.result["structuredContent"] == [HIDDEN]
        assert heard.result["content"][0]["text"] == f"it is {HIDDEN}"
        assert own_meta(heard.result) == {"example.com/word": HIDDEN}
    for form in (WORD, base64.b64encode(WORD.encode()).decode()):
        assert form not in said
        assert form not in "".join(hall.place.logged())


# --- who calls, and what is called ------------------------------------------------------------------------------------


LOCAL: Message = {
    "id": "local",
    "person": "local",
    "proof": "local",
    "acting_for": None,
    "scopes": ["act_as", "admin", "tools:*"],
}


async def test_runner_context_has_the_caller(hall: Reach) -> None:
    assert await hall.value("who") == LOCAL
    wanted = {"name": f"robot-{os.urandom(4).hex()}", "owner": "alice", "scopes": ["tools:Kit"]}
    key = (await hall.post("/api/keys", wanted)).json
    assert (await hall.post("/api/grants", {"callers": key["name"], "tools": "*"})).status == 201
    said = await hall.rest("who", {}, {"authorization": f"Bearer {key['secret']}"})
    proven = {"id": key["name"], "person": "alice", "proof": "key"}
    assert said.json == {**proven, "acting_for": None, "scopes": ["tools:Kit"]}
    assert key["secret"] not in "".join(hall.place.logged())


async def test_runner_context_has_the_user_the_caller_acts_for(hall: Reach) -> None:
    said = await hall.oxp("who", {}, {"user_id": "bob"})
    assert said.json["result"]["value"] == {**LOCAL, "acting_for": "bob"}
    said = await hall.oxp("equipped", {}, {**BROUGHT, "user_id": "bob"})
    assert said.json["result"]["value"]["user"] == "bob"


async def test_runner_two_versions_of_a_toolkit_are_called_side_by_side(hall: Reach) -> None:
    answers = {version: (await hall.post(f"/tools/Pair/which{version}", {})).json for version in ("", "?version=1.0.0")}
    assert answers == {"": "second", "?version=1.0.0": "first"}
    assert (await hall.post("/tools/Pair/which?version=3.0.0", {})).status == 404


async def test_runner_fifty_calls_at_once_each_get_their_own_value(hall: Reach) -> None:
    assert await asyncio.gather(*(hall.value("meet", number=number) for number in range(50))) == list(range(50))
