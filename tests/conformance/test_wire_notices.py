"""What comes before an answer: progress, log messages; and how a call is stopped, by either side."""

import asyncio
import json
from itertools import count

import pytest

from tests.conformance.probe import Questions
from tests.harness.http_client import QUIET, Message
from tests.harness.mcp_client import HttpMcpClient, McpClient, StdioMcpClient, http_mcp_client
from tests.harness.mcp_messages import LEGACY, MODERN, REVISIONS
from tests.harness.server_process import ServerProcess
from toolhall import Toolhall
from toolhall.dialects.mcp.protocol import STATEFUL_REVISIONS as LEGACY_REVISIONS
from toolhall.dialects.mcp.protocol import JsonRpcRequest
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.mcp import stateful
from toolhall.model.caller import LOCAL

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_keys = (f"notice-{number}" for number in count())


def call(talk: McpClient, tool: str, key: str, token: object = "t") -> Message:
    """A call of one of the tools that wait for a key."""
    return talk.request("tools/call", {"name": tool, "arguments": {"key": key}}, token=token)


async def assert_no_more_messages(stdio: StdioMcpClient) -> None:
    """Fail if a line comes that belongs to nothing that still runs."""
    try:
        async with asyncio.timeout(QUIET):
            message = await stdio.read()
    except TimeoutError:
        return
    raise AssertionError(f"too late: {message}")


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-22", "M-46")
async def test_progress_carries_the_token_of_its_request(talk: McpClient) -> None:
    for token in ("text", 7, "ünï", 0, ""):
        heard = await talk.call("probe_nonce", {"nonce": "x"}, token=token)
        assert heard.told("progress") == [{"progressToken": token, "progress": 1, "total": 1, "message": "x"}]


@pytest.mark.requirement("L-22", "M-46")
async def test_progress_values_that_do_not_rise_are_not_sent(talk: McpClient) -> None:
    heard = await talk.call("probe_steps", {"values": [1, 1, 0.5, 2, 2, -3, 2.5, 2.25, 9]}, token="t")
    assert [told["progress"] for told in heard.told("progress")] == [1, 2, 2.5, 9]
    assert all("total" not in told for told in heard.told("progress")), "what is not known is not said"


@pytest.mark.requirement("L-22", "M-46")
async def test_progress_flood_may_be_thinned_and_the_response_still_comes(talk: McpClient) -> None:
    heard = await talk.call("probe_steps", {"values": list(range(2_000))}, token="t")
    values = [told["progress"] for told in heard.told("progress")]
    assert values == sorted(set(values))
    assert values[-1] == 1_999
    assert heard.text == "done"


@pytest.mark.requirement("L-22", "M-46")
async def test_progress_without_a_token_is_not_sent(talk: McpClient) -> None:
    assert (await talk.call("probe_steps", {"values": [1, 2, 3]})).notices == []


@pytest.mark.requirement("L-22", "M-46")
async def test_progress_token_of_a_wrong_type_is_refused(talk: McpClient) -> None:
    for token in (1.5, True, [1], {"a": 1}):
        assert (await talk.call("probe_number", token=token)).error["code"] == -32602


@pytest.mark.requirement("L-22", "M-46")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_stdio_call_sends_nothing_after_its_response(stdio: StdioMcpClient) -> None:
    await stdio.set_level("debug")
    heard = await stdio.call("probe_late", token="t")
    assert heard.text == "done"
    await assert_no_more_messages(stdio)


@pytest.mark.requirement("L-22", "L-13")
async def test_get_stream_gets_nothing_of_a_call_after_its_response(session: HttpMcpClient) -> None:
    async with session.http.open(None, session.headers, "GET") as listening:
        heard = await session.call("probe_late", token="t")
        assert heard.text == "done"
        assert await listening.silent()


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M-46", "L-4")
async def test_log_messages_below_the_requested_level_are_not_sent(talk: McpClient) -> None:
    for position, level in enumerate(LEVELS):
        await talk.set_level(level)
        told = (await talk.call("probe_logs")).told("message")
        assert [each["level"] for each in told] == LEVELS[position:]
        assert all(each["data"] == {"level": each["level"]} for each in told)


@pytest.mark.requirement("M-46")
async def test_log_messages_without_a_level_are_not_sent_in_the_newest_revision(talk: McpClient) -> None:
    heard = await talk.call("probe_logs")
    if talk.modern:
        assert heard.notices == []
    else:  # the older revisions leave the choice to the server until a level is set
        assert [told["level"] for told in heard.told("message")] == LEVELS[1:]


@pytest.mark.requirement("M-46", "J-4")
async def test_log_level_unknown_is_refused(talk: McpClient) -> None:
    for level in ("loud", "INFO", "", 3, None):
        if talk.modern:
            message = talk.request("tools/call", {"name": "probe_logs"})
            message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = level
            heard = await talk.exchange(message)
            assert level is None or heard.error["code"] == -32602
        else:
            assert (await talk.ask("logging/setLevel", {"level": level})).error["code"] == -32602


@pytest.mark.requirement("M-46", "L-4")
async def test_logging_capability_is_declared(talk: McpClient) -> None:
    if talk.modern:
        capabilities = (await talk.ask("server/discover")).result["capabilities"]
    elif isinstance(talk, HttpMcpClient):
        capabilities = (await HttpMcpClient(talk.http, talk.revision, {}).start())["capabilities"]
    else:
        assert isinstance(talk, StdioMcpClient)
        capabilities = (await talk.start())["capabilities"]
    assert capabilities["logging"] == {}


@pytest.mark.requirement("L-4")
async def test_log_level_applies_to_its_own_session_only(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, LEGACY[1]) as loud, http_mcp_client(probe.origin, LEGACY[1]) as quiet:
        await loud.set_level("debug")
        await quiet.set_level("emergency")
        assert len((await loud.call("probe_logs")).told("message")) == 8
        assert len((await quiet.call("probe_logs")).told("message")) == 1


# --- cancelled by the client ------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-21")
async def test_cancelled_call_stops_and_gets_no_response(session: HttpMcpClient) -> None:
    key = f"{next(_keys)}-{session.session}"
    message = call(session, "probe_hold", key)
    async with session.open(message) as held:
        assert (await held.message())["method"] == "notifications/progress"
        await session.tell("notifications/cancelled", {"requestId": message["id"], "reason": "changed my mind"})
        assert [event for event in await held.rest() if event.message] == [], "the stream ends without an answer"
    assert (await session.call("probe_fate", {"key": key})).result["structuredContent"] == {"fate": "cancelled"}


@pytest.mark.requirement("L-21")
async def test_cancelled_call_before_any_notification_ends_without_a_message(session: HttpMcpClient) -> None:
    key = f"{next(_keys)}-{session.session}"
    message = session.request("tools/call", {"name": "probe_hold", "arguments": {"key": key}})
    waiting = asyncio.create_task(session.http.send(message, session.headers))
    await session.call("probe_begun", {"key": key})
    await session.tell("notifications/cancelled", {"requestId": message["id"]})
    reply = await waiting
    assert reply.messages == []
    assert (await session.call("probe_fate", {"key": key})).result["structuredContent"] == {"fate": "cancelled"}


@pytest.mark.requirement("L-21", "M-37")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_cancelled_notification_with_request_id_true_does_not_cancel_request_1(stdio: StdioMcpClient) -> None:
    key = next(_keys)
    held = stdio.request("tools/call", {"name": "probe_hold", "arguments": {"key": key}}, id=1)
    await stdio.write(held)
    await stdio.call("probe_begun", {"key": key}, id=2)
    await stdio.tell("notifications/cancelled", {"requestId": True})
    await stdio.tell("notifications/cancelled", {"requestId": "1"})
    await stdio.write(stdio.request("tools/call", {"name": "probe_release", "arguments": {"key": key}}, id=3))
    answers = {answer["id"]: answer for answer in [await stdio.read(held), await stdio.read(held)]}
    assert answers[1]["result"]["structuredContent"] == {"fate": "released"}


@pytest.mark.requirement("M-31")
async def test_newest_revision_disconnect_cancels_the_call(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, MODERN) as talk:
        key = next(_keys)
        async with talk.open(call(talk, "probe_hold", key)) as held:
            assert (await held.message())["method"] == "notifications/progress"
        assert (await talk.call("probe_fate", {"key": key})).result["structuredContent"] == {"fate": "cancelled"}


@pytest.mark.requirement("M-31")
async def test_newest_revision_disconnect_before_any_reply_cancels_the_call(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, MODERN) as talk, http_mcp_client(probe.origin, MODERN) as other:
        key = next(_keys)
        waiting = asyncio.create_task(talk.call("probe_hold", {"key": key}))  # no token: not even headers come
        await other.call("probe_begun", {"key": key})
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await other.call("probe_fate", {"key": key})).result["structuredContent"] == {"fate": "cancelled"}


@pytest.mark.requirement("M-31")
async def test_newest_revision_cancelled_notification_over_http_is_ignored(probe: ServerProcess) -> None:
    """Ids are not unique among clients here, so such a notice could only hit a stranger."""
    async with http_mcp_client(probe.origin, MODERN) as talk:
        key = next(_keys)
        message = call(talk, "probe_hold", key)
        async with talk.open(message) as held:
            assert (await held.message())["method"] == "notifications/progress"
            await talk.tell("notifications/cancelled", {"requestId": message["id"]})
            await talk.call("probe_release", {"key": key})
            assert (await held.message())["result"]["structuredContent"] == {"fate": "released"}


@pytest.mark.requirement("L-21", "M-37")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_stdio_cancelled_call_stops_and_sends_nothing_more(stdio: StdioMcpClient) -> None:
    key = next(_keys)
    await stdio.write(message := call(stdio, "probe_hold", key))
    assert (await stdio.read())["method"] == "notifications/progress"
    await stdio.tell("notifications/cancelled", {"requestId": message["id"], "reason": "changed my mind"})
    fate = await stdio.call("probe_fate", {"key": key})
    assert fate.result["structuredContent"] == {"fate": "cancelled"}
    assert fate.notices == []
    await assert_no_more_messages(stdio)


@pytest.mark.requirement("L-21", "L-22", "M-37")
@pytest.mark.parametrize("revision", [LEGACY[1], MODERN])
async def test_stdio_cancelled_call_in_a_running_thread_sends_nothing_more(stdio: StdioMcpClient) -> None:
    key = next(_keys)
    await stdio.write(message := call(stdio, "probe_spin", key))
    assert (await stdio.read())["method"] == "notifications/progress"
    await stdio.tell("notifications/cancelled", {"requestId": message["id"]})
    await stdio.ask("tools/list")  # after this answer the cancellation has been heard
    spun = await stdio.call("probe_spun", {"key": key})
    assert spun.text == "true"
    assert spun.notices == []
    await assert_no_more_messages(stdio)


@pytest.mark.requirement("L-21")
async def test_cancelled_notification_of_an_unknown_request_is_ignored(talk: McpClient) -> None:
    odd: list[Message | None] = [
        {"requestId": "nobody"}, {"requestId": 999}, {"requestId": None}, {"requestId": [1]}, {"requestId": {"a": 1}},
        {"requestId": 1.5}, {}, None, {"reason": "no id"},
    ]  # fmt: skip
    for params in odd:
        await talk.tell("notifications/cancelled", params)
    finished = await talk.call("probe_number", id="finished")
    await talk.tell("notifications/cancelled", {"requestId": "finished"})
    assert finished.text == (await talk.call("probe_number")).text == "42"


@pytest.mark.requirement("L-21")
async def test_cancelled_notification_from_another_session_is_ignored(
    session: HttpMcpClient, probe: ServerProcess
) -> None:
    key = f"{next(_keys)}-{session.session}"
    message = call(session, "probe_hold", key)
    async with session.open(message) as held:
        assert (await held.message())["method"] == "notifications/progress"
        async with http_mcp_client(probe.origin, session.revision) as other:
            await other.tell("notifications/cancelled", {"requestId": message["id"]})
        await session.call("probe_release", {"key": key})
        assert (await held.message())["result"]["structuredContent"] == {"fate": "released"}


@pytest.mark.requirement("L-21")
@pytest.mark.parametrize("revision", LEGACY)
async def test_cancelled_notification_of_initialize_is_ignored(stdio: StdioMcpClient) -> None:
    await stdio.tell("notifications/cancelled", {"requestId": "start"})
    assert (await stdio.ask("ping")).result == {}


# --- ended by the server ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-20")
async def test_elicitation_no_longer_awaited_is_cancelled_by_the_server(talk: McpClient) -> None:
    if talk.modern:
        assert (await talk.call("probe_impatient")).result["resultType"] == "input_required"
        return
    message = talk.request("tools/call", {"name": "probe_impatient"})
    if isinstance(talk, HttpMcpClient):
        async with talk.open(message) as reply:
            messages = [event.message for event in await reply.rest() if event.message]
    else:
        assert isinstance(talk, StdioMcpClient)
        await talk.write(message)
        messages = [await talk.read(message)]
        while "method" in messages[-1]:
            messages.append(await talk.read(message))
    question, *between, answer = messages
    assert question["method"] == "elicitation/create"
    assert [each["method"] for each in between] == ["notifications/cancelled"]
    assert between[0]["params"]["requestId"] == question["id"]
    assert answer["result"]["content"][0]["text"] == "too slow"


class RecordingSink:
    """A message sink that records what it is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, message: bytes) -> None:
        """Keep it."""
        self.messages.append(json.loads(message))

    def disconnect_reader(self, retry_ms: int) -> None:
        """Nobody to send away."""


@pytest.mark.requirement("L-20", "L-33")
@pytest.mark.parametrize("revision", LEGACY)
async def test_elicitation_unanswered_times_out_and_fails_the_call(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stateful, "QUESTION_SECONDS", 0.01)
    with Toolhall(Questions()) as hall:
        writer = McpEncoder(ServerInfo(name="n", version="1"), LEGACY_REVISIONS[revision])
        session, outlet = stateful.StatefulSession(hall.dispatcher, writer, LOCAL, {"elicitation": {}}), RecordingSink()
        wire = await session.answer(JsonRpcRequest(1, "tools/call", {"name": "probe_ask"}), outlet, 0)
    question, cancelled = outlet.messages
    assert question["method"] == "elicitation/create"
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", question["id"])
    assert json.loads(wire.body)["result"]["isError"] is True


@pytest.mark.requirement("L-20")
async def test_elicitation_response_after_the_call_ended_is_accepted_and_ignored(session: HttpMcpClient) -> None:
    async with session.open(session.request("tools/call", {"name": "probe_impatient"})) as reply:
        question = await reply.message()
        await reply.rest()
    late = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
    assert (await session.http.send(late, session.headers)).status == 202
    assert (await session.ask("ping")).result == {}


@pytest.mark.requirement("L-20", "L-21")
async def test_elicitation_of_a_cancelled_call_is_cancelled_by_the_server(session: HttpMcpClient) -> None:
    message = session.request("tools/call", {"name": "probe_ask"})
    async with session.open(message) as reply:
        question = await reply.message()
        assert question["method"] == "elicitation/create"
        await session.tell("notifications/cancelled", {"requestId": message["id"]})
        rest = [event.message for event in await reply.rest() if event.message]
    assert [(each["method"], each["params"]["requestId"]) for each in rest] == [
        ("notifications/cancelled", question["id"])
    ]
