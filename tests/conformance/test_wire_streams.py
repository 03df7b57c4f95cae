"""Streams of the older revisions: opened by GET or by a call, left and found again, never mixed up."""

import asyncio
from itertools import count

import pytest

from tests.harness.http_client import Event, Message
from tests.harness.mcp_client import HttpMcpClient, http_mcp_client
from tests.harness.mcp_messages import LEGACY
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess
from toolhall.http.sse import EventStream

PRIMED = "2025-11-25"
_keys = (f"stream-{number}" for number in count())


def held_call(session: HttpMcpClient, tool: str = "probe_hold") -> tuple[str, Message]:
    """A key, and a call that reports progress once and then waits for this key."""
    key = f"{next(_keys)}-{session.session}"
    return key, session.request("tools/call", {"name": tool, "arguments": {"key": key}}, token=key)


def last_id(events: list[Event]) -> str:
    """The id to come back by."""
    return [event.id for event in events if event.id][-1]


def messages_in(events: list[Event]) -> list[Message]:
    """The messages in these events."""
    return [event.message for event in events if event.message]


@pytest.mark.requirement("L-12")
async def test_sse_stream_first_event_has_an_id_and_a_retry_time_in_2025_11_25(session: HttpMcpClient) -> None:
    reply = await session.http.send(
        session.request("tools/call", {"name": "probe_nonce", "arguments": {"nonce": "n"}}, token=1), session.headers
    )
    first = reply.events[0]
    if session.revision == PRIMED:
        assert first.id
        assert first.data == ""
        assert first.retry is not None
        assert int(first.retry) >= 0
    else:
        assert first.message, "an event without data would be news to this revision's clients"


@pytest.mark.requirement("L-11")
async def test_sse_stream_carries_the_response_last_and_then_ends(session: HttpMcpClient) -> None:
    reply = await session.http.send(
        session.request("tools/call", {"name": "probe_steps", "arguments": {"values": [1, 2, 3]}}, token=1),
        session.headers,
    )
    *notices, answer = messages_in(reply.events)
    assert [notice["params"]["progress"] for notice in notices] == [1, 2, 3]
    assert answer["result"]["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.requirement("L-11", "L-12", "L-16")
async def test_sse_stream_closed_by_the_server_can_be_resumed_for_the_response(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, PRIMED) as session:
        key, call = held_call(session, "probe_detach")
        events = (await session.http.send(call, session.headers)).events
        assert all("method" in message for message in messages_in(events)), "the answer did not come yet"
        assert events[0].retry == "50", "when to come back"
        async with session.http.open(None, {**session.headers, "Last-Event-ID": last_id(events)}, "GET") as resumed:
            assert (resumed.status, resumed.headers["content-type"]) == (200, "text/event-stream")
            await session.call("probe_release", {"key": key})
            answer = messages_in(await resumed.rest())[-1]
    assert answer["id"] == call["id"]
    assert answer["result"]["structuredContent"] == {"fate": "released"}


@pytest.mark.requirement("L-11", "L-16")
async def test_sse_stream_closed_midway_by_the_server_announces_a_retry_time(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, PRIMED) as session:
        key, call = held_call(session, "probe_detach_later")
        async with session.open(call) as reply:
            primed = await reply.event()
            assert primed is not None
            assert (await reply.message())["method"] == "notifications/progress"
            await session.call("probe_release", {"key": key})
            events = [primed, *await reply.rest()]
        assert messages_in(events) == [], "the answer did not come yet"
        assert [event.retry for event in events if event.retry][-1] == "60"
        place = {"Last-Event-ID": last_id(events)}
        async with session.http.open(None, {**session.headers, **place}, "GET") as resumed:
            assert (await resumed.message())["method"] == "notifications/progress", "what came after that place"
            await session.call("probe_release", {"key": f"{key}-again"})
            assert messages_in(await resumed.rest())[-1]["result"]["structuredContent"] == {"fate": "released"}


@pytest.mark.requirement("L-11")
async def test_sse_stream_in_2025_06_18_is_not_closed_before_the_response(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, "2025-06-18") as session:
        key, call = held_call(session, "probe_detach")
        async with session.open(call) as held:
            assert (await held.message())["method"] == "notifications/progress"
            await session.call("probe_release", {"key": key})
            assert (await held.message())["result"]["structuredContent"] == {"fate": "released"}


@pytest.mark.requirement("L-13", "L-16")
async def test_sse_stream_disconnect_does_not_cancel_and_resuming_replays_what_was_missed(
    session: HttpMcpClient,
) -> None:
    key, call = held_call(session)
    async with session.open(call) as held:
        while not (event := await held.event()) or not event.message:
            pass
    await session.call("probe_release", {"key": key})
    assert (await session.call("probe_fate", {"key": key})).result["structuredContent"] == {"fate": "released"}
    assert event.id is not None
    resumed = await session.http.send(None, {**session.headers, "Last-Event-ID": event.id}, "GET")
    assert [message["id"] for message in messages_in(resumed.events)] == [call["id"]], (
        "what was missed, and nothing else"
    )
    again = await session.http.send(None, {**session.headers, "Last-Event-ID": event.id}, "GET")
    assert messages_in(again.events) == messages_in(resumed.events), "the same place leads to the same messages"


@pytest.mark.requirement("L-16")
async def test_sse_event_ids_are_unique_in_a_session_and_resume_their_own_stream(session: HttpMcpClient) -> None:
    ids: list[list[str]] = []
    for _ in range(5):
        call = session.request("tools/call", {"name": "probe_steps", "arguments": {"values": [1, 2, 3]}}, token=1)
        reply = await session.http.send(call, session.headers)
        assert all(event.id for event in reply.events)
        ids.append([str(event.id) for event in reply.events])
    flat = [each for stream in ids for each in stream]
    assert len(set(flat)) == len(flat)
    for position, stream in enumerate(ids):
        after = await session.http.send(None, {**session.headers, "Last-Event-ID": stream[-2]}, "GET")
        assert [event.id for event in after.events if event.message] == stream[-1:], f"stream {position} and no other"


@pytest.mark.requirement("L-16", "L-19")
async def test_sse_event_id_of_another_session_resumes_nothing(session: HttpMcpClient, probe: ServerProcess) -> None:
    call = session.request("tools/call", {"name": "probe_nonce", "arguments": {"nonce": "mine"}}, token=1)
    reply = await session.http.send(call, session.headers)

    async def resume(last: str) -> bool:
        async with (
            http_mcp_client(probe.origin, session.revision) as other,
            other.http.open(None, {**other.headers, "Last-Event-ID": last}, "GET") as stream,
        ):
            return 400 <= stream.status < 500 or await stream.silent()

    strange = ("c999-0", "nonsense", "c1-", "-1", "c1-x", "c1--1", "c1-" + "9" * 5_000, "s-0", "²-²")
    assert all(await asyncio.gather(*map(resume, (str(reply.events[0].id), *strange))))


@pytest.mark.requirement("L-16")
async def test_sse_event_id_that_was_never_issued_causes_no_server_error(session: HttpMcpClient) -> None:
    call = session.request("tools/call", {"name": "probe_nonce", "arguments": {"nonce": "mine"}}, token=1)
    stream, _, _ = str((await session.http.send(call, session.headers)).events[0].id).rpartition("-")
    head = [(name.encode(), value.encode()) for name, value in session.headers.items()]
    for number in (b"9" * 5_000, b"\xb2", b"-1", b"0x1", b"1_0", b"99"):
        last = (b"Last-Event-ID", stream.encode() + b"-" + number)
        async with session.http.open(None, [*head, last], "GET") as resumed:
            assert resumed.status < 500, number[:20]
    assert (await session.ask("ping")).result == {}


@pytest.mark.requirement("L-14", "L-15", "L-34")
async def test_sse_messages_are_each_sent_on_one_stream_only(session: HttpMcpClient) -> None:
    key, call = held_call(session)
    async with session.http.open(None, session.headers, "GET") as listening, session.open(call) as held:
        assert (await held.message())["method"] == "notifications/progress"
        await session.call("probe_toggle")
        assert (await listening.message())["method"] == "notifications/tools/list_changed"
        await session.call("probe_release", {"key": key})
        assert [message["id"] for message in messages_in(await held.rest())] == [call["id"]]
        await session.call("probe_toggle")
        assert (await listening.message())["method"] == "notifications/tools/list_changed"
        assert await listening.silent(), "no progress, no response: these belong to the stream of their call"


@pytest.mark.requirement("L-14", "L-15")
async def test_sse_second_get_stream_does_not_repeat_notifications(session: HttpMcpClient) -> None:
    async with (
        session.http.open(None, session.headers, "GET") as first,
        session.http.open(None, session.headers, "GET") as second,
    ):
        await session.call("probe_toggle")
        await session.call("probe_toggle")
        assert (await first.message())["method"] == "notifications/tools/list_changed"
        assert second.status == 409 or await second.silent()


@pytest.mark.requirement("L-14", "L-15")
async def test_sse_reopened_get_stream_does_not_repeat_what_was_read(session: HttpMcpClient) -> None:
    async with session.http.open(None, session.headers, "GET") as first:
        await session.call("probe_toggle")
        assert (await first.message())["method"] == "notifications/tools/list_changed"
    statuses: list[int] = []
    while 200 not in statuses and len(statuses) < 100:  # the server hears of a hang-up a little later
        async with session.http.open(None, session.headers, "GET") as second:
            statuses.append(second.status)
            assert second.status in (200, 409)
            assert second.status == 409 or await second.silent()
    assert 200 in statuses, "the place of a client that went away is free again"


@pytest.mark.requirement("L-34")
@pytest.mark.parametrize("revision", LEGACY)
async def test_sse_list_changes_without_a_reader_are_notified_once(probe: ServerProcess, revision: str) -> None:
    async with http_mcp_client(probe.origin, revision) as session:
        for _ in range(6):
            await session.call("probe_toggle")
        async with session.http.open(None, session.headers, "GET") as listening:
            assert (await listening.message())["method"] == "notifications/tools/list_changed"
            assert await listening.silent(), "one reason to read the list again is enough"


@pytest.mark.requirement("L-11", "L-16")
async def test_event_stream_message_sent_while_a_reader_writes_is_delivered() -> None:
    stream = EventStream()
    reader = stream.read()
    for number in range(1, 4):
        stream.send(b"%d" % number)
        async with asyncio.timeout(patience()):
            assert (await anext(reader)).number == number
    stream.send(b"4")
    stream.send(b"5")
    async with asyncio.timeout(patience()):
        assert (await anext(reader)).number == 4
        stream.send(b"6")  # while 4 is being written
        assert [(await anext(reader)).number, (await anext(reader)).number] == [5, 6]
        stream.finish(b"answer")
        assert [item.message async for item in reader] == [b"answer"]
