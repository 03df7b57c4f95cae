"""Calls over a socket that the tool server opened: told apart by ids, bounded, and honest about what was sent."""

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from weakref import ref

import pytest

from tests.harness.patience import patience
from tests.unit.execution.remote.fake_tool_server import progress, question, tool_response, until
from toolhall.dialects.hub.call_messages import CallEvent, ProgressMessage, ToolResponseMessage, write_request
from toolhall.egress.exchange import ExchangeLost, ExchangeTooLarge
from toolhall.execution.remote.replica_transport import Transport
from toolhall.execution.remote.websocket_transport import MAX_RUNNING_CALLS, MAX_UNREAD_FACTOR, PeerSocket
from toolhall.model.json import JsonObject, encode

REQUEST = b'{"type":"tool_request"}'
CANCELLED: JsonObject = {"type": "request", "method": "cancel", "id": "c1", "params": {"id": "1"}}


class FakeSocket:
    """What was written to the tool server; `fails` is raised instead."""

    def __init__(self, most_bytes: int = 1_000) -> None:
        self.sent: list[bytes] = []
        self.fails: Exception | None = None
        self.full = asyncio.Event()  # set: there is room
        self.full.set()
        self.called = PeerSocket(self.send, most_bytes)
        self.line = self.called.transport_for("one")

    async def send(self, body: bytes) -> None:
        if self.fails is not None:
            raise self.fails
        self.sent.append(body)
        await self.full.wait()

    async def calling(
        self, call_id: str, on_report: Callable[[CallEvent], Awaitable[bytes | None]] | None = None
    ) -> "Running":
        """A call that is there."""
        count = len(self.sent)
        task = asyncio.ensure_future(self.line.call(REQUEST, call_id, on_report or ignore_event))
        await until(lambda: len(self.sent) > count or task.done())
        return task


Running = asyncio.Future[ToolResponseMessage]


async def ignore_event(_: CallEvent) -> None:
    return None


async def lost(call: Running) -> ExchangeLost:
    async with asyncio.timeout(patience()):
        with pytest.raises(ExchangeLost) as raised:
            await call
    return raised.value


def cancels(socket: FakeSocket) -> list[JsonObject]:
    return [each for each in map(json.loads, socket.sent) if each.get("method") == "cancel"]


async def test_websocket_transport_concurrent_calls_get_own_messages() -> None:
    socket = FakeSocket()
    line: Transport = socket.line
    heard: list[CallEvent] = []

    async def on_report(report: CallEvent) -> None:
        heard.append(report)

    first, second = await socket.calling("1", on_report), await socket.calling("2")
    for body in (progress("1", 1), tool_response("2", {"b": 2}), progress("1", 2), tool_response("1", {"a": 1})):
        assert socket.called.handle_frame(body)
    assert [(await call).result for call in (first, second)] == [{"a": 1}, {"b": 2}]
    assert heard == [ProgressMessage("1", 1), ProgressMessage("1", 2)]
    assert socket.sent == [REQUEST, REQUEST]
    line.close()


async def test_websocket_transport_request_returns_whole_response() -> None:
    socket = FakeSocket()
    asked = asyncio.ensure_future(socket.line.request(write_request("h1", "health_check", {}), "h1"))
    await until(lambda: bool(socket.sent))
    assert socket.called.handle_frame(
        encode({"type": "response", "id": "h1", "result": {"status": "healthy"}, "error": None})
    )
    assert (await asked)["result"] == {"status": "healthy"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"request","id":"1","method":"heartbeat","params":{}}',
        b'{"type":"tool_request","id":"1","tool":"A","method":"b"}',
        *(b"{}", b"[]", b"", b"\xff", b"nonsense", b'{"type":1}', b"[" * 100_000, b'{"id":"1"}'),
    ],
)
async def test_websocket_transport_other_frames_are_not_handled(body: bytes) -> None:
    socket = FakeSocket()
    call = await socket.calling("1")
    assert not socket.called.handle_frame(body)
    socket.called.handle_frame(tool_response("1"))
    assert (await call).id == "1"


@pytest.mark.parametrize(
    "body",
    [
        *(
            tool_response("2"),
            b'{"type":"tool_response"}',
            b'{"type":"tool_progress","id":7}',
            b'{"type":"response","id":null}',
        ),
        *(b'{"type":"tool_error","id":{"a":1}}', b'{"type":"tool_log","id":["1"]}'),
    ],
)
async def test_websocket_transport_unknown_ids_are_dropped(body: bytes) -> None:
    socket = FakeSocket()
    call = await socket.calling("1")
    assert socket.called.handle_frame(body)
    socket.called.handle_frame(tool_response("1"))
    assert (await call).id == "1"
    assert socket.called.handle_frame(tool_response("1"))  # a second time


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"type":"tool_progress","id":"1","progress":"x"}', "cannot be read"),
        (b'{"type":"tool_response","id":"1","result":null,"error":7}', "cannot be read"),
        (b'{"type":"response","id":"1"}', "not with a tool_response"),
        (tool_response("1", {"a": "x" * 1_000}), "more than 1000 bytes"),
    ],
)
async def test_websocket_transport_invalid_frame_loses_and_cancels_call(body: bytes, why: str) -> None:
    socket = FakeSocket()
    call = await socket.calling("1")
    assert socket.called.handle_frame(body)
    found = await lost(call)
    assert found.delivered
    assert why in found.reason
    assert isinstance(found, ExchangeTooLarge) == ("more than" in why)
    await until(lambda: cancels(socket) == [CANCELLED])


async def test_websocket_transport_oversized_call_is_lost() -> None:
    socket = FakeSocket()
    call = await socket.calling("1")
    for number in range(30):  # nobody gets to read meanwhile
        socket.called.handle_frame(progress("1", number))
    assert "more than 1000 bytes" in (await lost(call)).reason


async def test_websocket_transport_read_messages_do_not_count() -> None:
    socket = FakeSocket()
    call = await socket.calling("1")
    for number in range(100):
        socket.called.handle_frame(progress("1", number))
        await until(lambda: socket.called.unread_bytes == 0)
    socket.called.handle_frame(tool_response("1"))
    assert (await call).id == "1"


async def test_websocket_transport_limits_unread_bytes_of_all_calls() -> None:
    socket = FakeSocket()

    async def on_report(_: CallEvent) -> None:
        await asyncio.Event().wait()

    calls = [await socket.calling(str(number), on_report) for number in range(MAX_UNREAD_FACTOR + 3)]
    for number, call in enumerate(calls):
        socket.called.handle_frame(progress(str(number), 1))
        await asyncio.sleep(0)
        socket.called.handle_frame(encode({"type": "tool_log", "id": str(number), "level": "info", "data": "x" * 880}))
        assert not call.done()
    assert 14_000 < socket.called.unread_bytes <= MAX_UNREAD_FACTOR * 1_000
    async with asyncio.timeout(patience()):
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    losses = [await lost(call) for call in done]
    assert {(type(found), found.reason) for found in losses} == {
        (ExchangeLost, "the tool server says more than is read")
    }
    socket.called.on_closed()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert socket.called.unread_bytes == 0


async def test_websocket_transport_cancel_is_sent_and_late_answer_dropped() -> None:
    socket = FakeSocket()
    call = await socket.calling("1")
    call.cancel()
    await until(lambda: cancels(socket) == [CANCELLED])
    assert socket.called.handle_frame(tool_response("1"))
    assert socket.called.handle_frame(b'{"type":"response","id":"c1","result":{"status":"cancelled"},"error":null}')
    assert call.cancelled()


async def test_websocket_transport_answer_uses_same_socket() -> None:
    async def on_report(_: CallEvent) -> bytes:
        return b'{"type":"tool_answer"}'

    socket = FakeSocket()
    call = await socket.calling("1", on_report)
    socket.called.handle_frame(question("1", 1))
    await until(lambda: len(socket.sent) == 2)
    assert socket.sent[1] == b'{"type":"tool_answer"}'
    socket.fails = ExchangeLost("closed", delivered=False)
    socket.called.handle_frame(question("1", 2))
    assert (await lost(call)).delivered  # the call itself was


@pytest.mark.parametrize(
    ("error", "delivered"),
    [
        (ExchangeLost("it is closed", delivered=False), False),
        (ExchangeLost("half of it", delivered=True), True),
        (ConnectionResetError(), True),
        (RuntimeError("who knows"), True),
    ],
)
async def test_websocket_transport_write_error_is_delivered_unless_certain(error: Exception, delivered: bool) -> None:
    socket = FakeSocket()
    socket.fails = error
    assert (await lost(await socket.calling("1"))).delivered is delivered
    await until(lambda: socket.called.running == 0)


@pytest.mark.parametrize("way", ["close", "closed"])
async def test_websocket_transport_close_loses_running_calls(way: str) -> None:
    """Also a call for which a person is being asked. Over a socket that is still there, it is cancelled."""
    asked = asyncio.Event()

    async def on_report(_: CallEvent) -> None:
        asked.set()
        await asyncio.Event().wait()

    socket = FakeSocket()
    asking, calling, done = await socket.calling("1", on_report), await socket.calling("2"), await socket.calling("3")
    socket.called.handle_frame(question("1", 1))
    await asked.wait()
    socket.called.handle_frame(tool_response("3"))
    socket.line.close() if way == "close" else socket.called.on_closed()
    assert [(await lost(call)).delivered for call in (asking, calling)] == [True, True]
    assert (await done).id == "3"  # that was here before
    with pytest.raises(ExchangeLost, match="closed") as raised:
        await socket.line.call(REQUEST, "4", ignore_event)
    assert not raised.value.delivered
    await asyncio.sleep(0)
    assert len(cancels(socket)) == (2 if way == "close" else 0)


async def test_websocket_transport_limits_running_calls() -> None:
    """Those that were cancelled and still wait to say so are counted."""
    socket = FakeSocket()
    socket.full.clear()
    calls = [
        asyncio.ensure_future(socket.line.call(REQUEST, str(number), ignore_event))
        for number in range(MAX_RUNNING_CALLS)
    ]
    await until(lambda: len(socket.sent) == MAX_RUNNING_CALLS)
    for _ in range(2):
        found = await lost(await socket.calling("more"))
        assert not found.delivered
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    socket.called.on_closed()
    await until(lambda: socket.called.running == 0)


async def test_websocket_transport_duplicate_id_is_refused() -> None:
    socket = FakeSocket()
    first = await socket.calling("1")
    assert not (await lost(await socket.calling("1"))).delivered
    socket.called.handle_frame(tool_response("1"))
    assert (await first).id == "1"


async def test_websocket_transport_replicas_on_one_socket_close_separately() -> None:
    """What runs on the other goes on, and so does the other; the bounds are the socket's."""
    socket = FakeSocket()
    other = socket.called.transport_for("two")
    assert socket.called.transport_for("two") is other
    assert other is not socket.line
    mine, theirs = await socket.calling("1"), asyncio.ensure_future(other.call(REQUEST, "2", ignore_event))
    await until(lambda: len(socket.sent) == 2)
    socket.line.close()
    assert (await lost(mine)).delivered
    assert socket.called.handle_frame(tool_response("2"))
    assert (await theirs).id == "2"
    await until(lambda: cancels(socket) == [CANCELLED])
    assert (socket.line.is_open, other.is_open) == (False, True)
    assert socket.called.transport_for("one").is_open  # for whoever joins again
    socket.called.on_closed()
    assert not other.is_open


async def test_websocket_transport_unreferenced_transport_is_dropped() -> None:
    """A join that is refused holds none; a socket may send as many of those as it likes."""
    called = FakeSocket().called
    kept = ref(called.transport_for("two"))
    gc.collect()
    assert kept() is None
